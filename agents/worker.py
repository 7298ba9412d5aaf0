"""A worker: one attempt in a fresh process. Job in on standard input, JSON lines out.

If it measures in batches, each further line on standard input orders one. Standard output carries
messages only; what libraries print is redirected to standard error, which the agent keeps. When
standard input closes, the agent is gone, and the worker ends too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import IO, cast

from agents.host.strain import own_cores
from agents.inference.runner.spec import SCENARIOS
from agents.scenarios.protocol import BatchedScenario, BesidePlain, KeepingScenario
from agents.stacks.plugins import plugin_facts
from agents.stacks.resolving import module_named, resolve
from agents.stacks.weights import require_unchanged, with_weights
from controller.contracts.base import Contract
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.result import Blame, Failure, Result
from controller.contracts.units import Unit
from controller.contracts.wire import Job, Progress, StepOrder, TrainingProgram, WorkerSpec
from kernels.library import KernelsUnusable

PROGRESS_PERIOD_S = 1.0


class MessageWriter:
    """Writes the JSON lines of a worker; drops progress that comes more than once a second."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._last_progress = 0.0

    def progress(self, progress: Progress) -> None:
        """Write the progress, unless the last one was less than a second ago."""
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_PERIOD_S or progress.done == progress.total:
            self._last_progress = now
            self.say(progress)

    def say(self, message: Contract) -> None:
        """Write one message as one line."""
        self._stream.write(message.model_dump_json() + "\n")
        self._stream.flush()


class Orders:
    """The agent's messages after the job: orders for batches; the end of input means it is gone."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[bytes] = SimpleQueue()

    def listen(self) -> None:
        """Read lines from standard input until its end, then end the worker's process group."""
        rest = b""
        # Bypasses Python's buffer: a thread that holds its lock would abort the interpreter's exit.
        while data := os.read(sys.stdin.fileno(), 4096):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._lines.put(line)
        os.killpg(0, signal.SIGKILL)  # the agent has closed its end, or died

    def __iter__(self) -> Iterator[int]:
        """Yield the steps of each ordered batch; waiting uses no CPU."""
        while steps := StepOrder.model_validate_json(self._lines.get()).steps:
            yield steps


def main() -> int:
    """Run the job on standard input; return exit status 0 if it was measured, 1 if it failed."""
    own_cores()
    messages = MessageWriter(_claim_stdout())
    spec = WorkerSpec.model_validate_json(sys.stdin.buffer.readline())
    orders = Orders()
    threading.Thread(target=orders.listen, daemon=True).start()
    try:
        if spec.rank:
            import_module("agents.ranks.member").run(spec, orders, messages.say)
        else:
            messages.say(run_job(spec, messages, orders))
    except Exception as error:  # noqa: BLE001 - the boundary: every fault becomes a Failure
        traceback.print_exc()
        messages.say(failure_of(error))
        return 1
    return 0


def run_job(spec: WorkerSpec, messages: MessageWriter, orders: Orders) -> Result:
    """Build the workload and the backend, and pass both to the scenario."""
    spec, weights = with_weights(spec)
    job, program = spec.job, spec.job.program
    if not isinstance(program, TrainingProgram):
        message = f"cannot train {job.workload}: it runs in a device's own runtime"
        raise WorkerFault(Failure(blame=Blame.HARNESS, kind="protocol", message=message))
    ranks = int(job.knobs["ranks"])
    if spec.profile_pass:
        _require_one(ranks)
        watched: Result = import_module("agents.profiling.profile_pass").run(
            spec, messages.progress
        )
        return watched
    plugins = plugin_facts(program)
    result = _measured(spec, program, ranks, messages, orders)
    require_unchanged(weights)
    environment = {**result.environment, **plugins, **weights}
    return in_own_unit(result.model_copy(update={"environment": environment}), program.rate_unit)


def _measured(
    spec: WorkerSpec, program: TrainingProgram, ranks: int, messages: MessageWriter, orders: Orders
) -> Result:
    """Return what the job's scenario measures; raises WorkerFault."""
    job = spec.job
    if job.scenario in SCENARIOS:
        queried: Result = import_module("agents.inference.worker_run").run(spec, messages.progress)
        return queried
    module = module_named(program.scenario_module or f"agents.scenarios.{job.scenario}")
    if program.plain is not None:
        return _beside_plain(cast("BesidePlain", module), spec.job, program, messages)
    scenario = cast("BatchedScenario", module)  # paired cells are checked at submission
    if ranks > 1:  # each builds its own
        workload, backend = None, import_module("agents.ranks.team").Team(spec)
    else:
        backend = resolve(program.backend)(job.knobs)
        workload = resolve(program.builder)(**program.arguments)
    if spec.in_batches:
        return scenario.run_batches(workload, backend, job.knobs, orders, messages.say)
    if isinstance(module, KeepingScenario):
        args = (workload, backend, job.knobs, messages.progress, Path(spec.artefact_dir))
        kept: Result = module.run_in_folder(*args)
        return kept
    return scenario.run(workload, backend, job.knobs, messages.progress)


def _beside_plain(
    scenario: BesidePlain, job: Job, program: TrainingProgram, messages: MessageWriter
) -> Result:
    """Return what a scenario measures that compares a workload with its plain form."""
    build = resolve(program.builder)
    plain, workload = build(**(program.plain or {})), build(**program.arguments)
    backend = resolve(program.backend)
    return scenario.run_beside(plain, workload, backend, job.knobs, messages.progress)


def _require_one(ranks: int) -> None:
    if ranks > 1:
        message = f"cannot profile ranks={ranks}: a profile is of one process. Set ranks to 1."
        raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))


def in_own_unit(result: Result, rate_unit: Unit) -> Result:
    """Return a result whose samples per second have the workload's own unit, such as images/s."""
    metrics = {
        name: m.model_copy(update={"unit": rate_unit}) if m.unit is Unit.SAMPLES_PER_SECOND else m
        for name, m in result.metrics.items()
    }
    return result.model_copy(update={"metrics": metrics})


def failure_of(error: Exception) -> Failure:
    """Return the failure, with the blame, for an exception in a job."""
    if isinstance(error, WorkerFault):
        return error.failure
    if isinstance(error, UserError):
        return Failure(blame=Blame.USER, kind="knobs", message=str(error))
    message = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    if isinstance(error, MemoryError) or "can't allocate memory" in message:
        return Failure(blame=Blame.WORKLOAD, kind="out_of_memory", message=message)
    if isinstance(error, KernelsUnusable):
        return Failure(blame=Blame.USER, kind="setup", message=message)
    return Failure(blame=Blame.WORKLOAD, kind="exception", message=message)


def _claim_stdout() -> IO[str]:
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


if __name__ == "__main__":
    sys.exit(main())
