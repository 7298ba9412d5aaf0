"""The training scenario: warm up, then time whole training steps one by one."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext

from agents.backends.protocol import TrainingBackend
from agents.host.energy import EnergyMeter, readable_domains
from controller.contracts.base import Scalar
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Progress
from models.training import Batch, Outputs, TrainingWorkload

Steps = list[tuple[float, float]]
"""Seconds and loss of each step."""


def run(
    workload: TrainingWorkload[Batch, Outputs],
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Train `warmup_steps` + `steps` steps; the latter are the samples."""
    warmup, timed = int(knobs["warmup_steps"]), int(knobs["steps"])
    model, optimizer = backend.prepare(workload)
    meter = EnergyMeter(readable_domains())
    steps: Steps = []
    for index in range(warmup + timed):
        batch = workload.batch(index)
        with meter.running() if index >= warmup else nullcontext():
            started = time.perf_counter()
            loss = backend.step(workload, model, optimizer, batch)
            steps.append((time.perf_counter() - started, loss))
        phase = "warm-up" if index < warmup else "training"
        on_progress(_progress(phase, index + 1, warmup + timed, steps[-1]))
    reasons = objections(steps[warmup:])
    return Result(
        validity=Validity.INVALID if reasons else Validity.VALID,
        reasons=reasons,
        metrics={
            **measure(steps[warmup:], workload.batch_size, _peak_memory_bytes()),
            **energy_of_a_step(meter, timed),
        },
        environment={**backend.environment(), "energy_source": meter.source},
    )


def measure(steps: Steps, batch_size: int, peak_bytes: int) -> dict[str, Measurement]:
    """Turn timed steps into metrics: medians of the samples, the loss as it ended."""
    times = tuple(seconds for seconds, _ in steps)
    losses = tuple(loss for _, loss in steps if math.isfinite(loss))
    metrics = {
        "step_time": Measurement.of_samples(times, Unit.SECONDS),
        "throughput": Measurement.of_samples(
            tuple(batch_size / seconds for seconds in times), Unit.IMAGES_PER_SECOND
        ),
        "peak_memory": Measurement(value=peak_bytes, unit=Unit.BYTES),
    }
    if losses:
        metrics["loss"] = Measurement(value=losses[-1], unit=Unit.LOSS, samples=losses)
    return metrics


def energy_of_a_step(meter: EnergyMeter, steps: int) -> dict[str, Measurement]:
    """Return the mean energy of a timed step as the metric `energy`; nothing if it isn't known."""
    if meter.joules is None:
        return {}
    return {"energy": Measurement(value=meter.joules / steps, unit=Unit.JOULES)}


def objections(steps: Steps) -> tuple[str, ...]:
    """Say why a run is INVALID: one whose loss left the finite numbers trained nothing."""
    lost = [index for index, (_, loss) in enumerate(steps) if not math.isfinite(loss)]
    if not lost:
        return ()
    return (f"the loss of timed step {lost[0] + 1} of {len(steps)} is {steps[lost[0]][1]}",)


def _progress(phase: str, done: int, total: int, last: tuple[float, float]) -> Progress:
    seconds, loss = last
    values = {"step_time": seconds} | ({"loss": loss} if math.isfinite(loss) else {})
    return Progress(phase=phase, done=done, total=total, values=values)


def _peak_memory_bytes() -> int:
    """Peak resident memory of this process; Linux counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
