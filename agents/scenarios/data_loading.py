"""The scenario data_loading: how many batches a second a workload's loader gives when nothing is
computed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from agents.backends.protocol import TrainingBackend
from agents.host.disturbance import CpuWatch, environment_of, objections, validity_of
from agents.scenarios.training import evened, measure_waits
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Failure, Measurement, Result
from controller.contracts.units import Unit
from controller.contracts.wire import Progress
from models.training import Batch, Outputs, TrainingWorkload, loader_of


def run(
    workload: TrainingWorkload[Batch, Outputs] | None,
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Load `warmup_steps` + `steps` batches; the latter are the samples.

    Not counted are at least those that are loaded ahead. Of several processes, which finish at
    about the same time, whole rounds count: `steps` is rounded up. throughput: of all timed batches
    together, since loading ahead makes single ones quick.

    Raises WorkerFault, blame user, for a workload whose batches are in memory.
    """
    loader = loader_of(workload)
    if workload is None or loader is None:
        message = (
            "cannot measure loading: this workload's batches are in memory, or several ranks share "
            "them. Set the knob data to a data set, and ranks to 1."
        )
        raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
    workers = max(1, loader.workers)
    warmup = max(int(knobs["warmup_steps"]), loader.ahead)
    timed = -(-int(knobs["steps"]) // workers) * workers
    policy, watch, waits = load_policy(str(knobs["policy"])), CpuWatch(), []
    for number in range(warmup):
        workload.batch(number)
    with watch.timing(lambda: time.process_time() + loader.cpu_s()):
        for number in range(warmup, warmup + timed):
            began_s = time.perf_counter()
            workload.batch(number)
            waits.append(time.perf_counter() - began_s)
            done = number + 1 - warmup
            on_progress(Progress(phase="loading", done=done, total=timed))
    disturbed = objections(watch.timed, policy)
    rate = timed * workload.batch_size / sum(waits)
    return Result(
        validity=validity_of((), disturbed, policy),
        reasons=disturbed,
        metrics={
            "throughput": Measurement(value=rate, unit=Unit.SAMPLES_PER_SECOND),
            **measure_waits(evened(waits, workers)),
        },
        environment={
            **backend.environment(),
            **environment_of(watch.timed),
            **loader.facts(),
        },
    )
