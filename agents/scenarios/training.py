"""The training scenario: warm up, then time whole training steps one by one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median

from agents.backends.own_speed import product_flops
from agents.backends.protocol import TrainingBackend
from agents.backends.stepping import OneProcess, Scaling, Stepping, Waiting
from agents.energy.account import account
from agents.energy.rapl import EnergyMeter, readable_domains, rested
from agents.host.disturbance import CpuWatch, environment_of, speed_objections, validity_of
from agents.host.disturbance import objections as disturbances
from controller.contracts.base import Scalar
from controller.contracts.policy import Policy, load_policy
from controller.contracts.result import Measurement, Result
from controller.contracts.units import Unit
from controller.contracts.wire import Progress, StepBatch
from models.training import Batch, Outputs, TrainingWorkload

Steps = list[tuple[float, float]]
"""Seconds and loss of each step."""
SETTLE_S = 1.0
"""Longest wait for a process to become idle."""
LOOK_S = 5e-3
BESIDE = "before and after what was timed"


@dataclass
class Section:
    """What was measured beside timed steps."""

    watch: CpuWatch
    meter: EnergyMeter
    uptimes: list[float] = field(default_factory=list)
    """Begin and end of each part, in seconds."""
    waits: list[float] = field(default_factory=list)
    """Seconds that each timed step waited for its batch; none if batches are in memory."""
    gflops: list[float] = field(default_factory=list)
    """10⁹ FLOPs a second of a matrix product, before and after; none if that was not asked for."""


class Trainer:
    """A model in training, and what its steps take."""

    def __init__(self, stepping: Stepping, rest_s: float = 0.0) -> None:
        """Build the model, after a rest of `rest_s` seconds to measure idle power."""
        domains = readable_domains()
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._domains = domains
        self._at_rest = rested(domains, rest_s)
        self._rested = _rested_from(began) if domains and rest_s else {}
        self._stepping = stepping
        self.waits = isinstance(stepping, Waiting) and stepping.waits
        """Whether loading a batch is a part of its step."""
        self._together = stepping.together if isinstance(stepping, Waiting) else 1
        self.ahead = stepping.ahead if isinstance(stepping, Waiting) else 0
        """Uncounted steps right before timed ones: while nothing was timed, so many batches were
        loaded, for which no step waits."""
        self._timed = False
        stepping.start()
        self._done = 0
        self.section = Section(CpuWatch(), EnergyMeter(domains))

    def restart(self) -> None:
        """Begin another section."""
        self.section = Section(CpuWatch(), EnergyMeter(self._domains))

    @contextmanager
    def beside_speed(self, knobs: Mapping[str, Scalar]) -> Iterator[None]:
        """Measure how fast the machine is before and after this context.

        Not known if other processes do the steps, or while oneDNN logs the primitives of steps.
        """
        precision = str(knobs.get("precision"))
        known = isinstance(self._stepping, OneProcess) and "ONEDNN_VERBOSE" not in os.environ
        if known:
            self.section.gflops.append(product_flops(precision) / 1e9)
        yield
        if known:
            self.section.gflops.append(product_flops(precision) / 1e9)

    def step(self) -> tuple[float, float]:
        """Do one whole training step; return its seconds and its loss.

        It begins when it asks for its batch if that is read from files, else when it has it.
        """
        asked = time.perf_counter()
        self._stepping.load(self._done)
        self._done += 1
        loaded = time.perf_counter()
        loss = self._stepping.step()
        ended = time.perf_counter()
        if self.waits and self._timed:
            self.section.waits.append(loaded - asked)
        self.section.meter.look()  # all steps together may exceed a counter's range
        return ended - (asked if self.waits else loaded), loss

    def samples(self, steps: Steps) -> tuple[float, ...]:
        """Return the seconds of steps as samples, see `evened`."""
        return evened([seconds for seconds, _ in steps], self._together)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Record cores and energy during this context, for counted steps."""
        section = self.section
        with section.watch.timing(self._stepping.cpu_s), section.meter.running():
            section.uptimes.append(time.clock_gettime(time.CLOCK_BOOTTIME))
            self._timed = True
            yield
            self._timed = False
            section.uptimes.append(time.clock_gettime(time.CLOCK_BOOTTIME))

    def result(self, steps: Steps, policy: Policy, section: Section | None = None) -> Result:
        """Return the result of a section's timed steps, by default the last one's.

        Called once, after the last step: oneDNN's verbose mode is off from then on.
        """
        section = section or self.section
        timed = section.watch.timed
        broken, disturbed = objections(steps), disturbances(timed, policy)
        disturbed += speed_objections(section.gflops, BESIDE, policy)
        energy = account(
            lambda: section.meter.used, lambda: self._at_rest.used, len(steps), Unit.JOULES_PER_STEP
        )
        stepping = self._stepping
        peak_bytes = stepping.peak_memory_bytes()
        measured = measure(steps, stepping.batch_size, peak_bytes, self._together)
        facts = stepping.environment()
        scaling = stepping.scaling() if isinstance(stepping, Scaling) else {}
        return Result(
            validity=validity_of(broken, disturbed, policy),
            reasons=broken + disturbed,
            metrics={
                **measured,
                **scaling,
                **measure_waits(evened(section.waits, self._together)),
                **energy.metrics,
            },
            environment={
                **facts,
                **environment_of(timed),
                **speed_facts(section.gflops),
                **energy.facts,
                **share_of_waits(section.waits, steps),
                **self._moments(section.uptimes),
            },
        )

    def _moments(self, uptimes: Sequence[float]) -> Mapping[str, float]:
        """Return when it was timed, if in one section, and when it was at rest before."""
        if len(uptimes) != 2:  # between batches another side ran
            return self._rested
        began, ended = uptimes
        return {"timed_from_uptime_s": began, "timed_until_uptime_s": ended, **self._rested}


def run(
    workload: TrainingWorkload[Batch, Outputs] | None,
    backend: TrainingBackend | Stepping,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Train `warmup_steps` + `steps` steps; the latter are the samples.

    Where batches are loaded ahead, as many steps as these are uncounted in between.

    workload: None if the backend steps by itself (see Stepping).
    """
    warmup, timed = int(knobs["warmup_steps"]), int(knobs["steps"])
    policy = load_policy(str(knobs["policy"]))
    trainer = Trainer(_stepping(workload, backend), policy.rest_s)
    steps: Steps = []

    def train(phase: str, count: int) -> None:
        for _ in range(count):
            steps.append(trainer.step())
            done, of = len(steps), warmup + trainer.ahead + timed
            on_progress(_progress(phase, done, of, steps[-1]))

    train("warm-up", warmup)
    with trainer.beside_speed(knobs):
        train("warm-up", trainer.ahead)
        with trainer.timing():
            train("training", timed)
    return trainer.result(steps[warmup + trainer.ahead :], policy)


def run_batches(
    workload: TrainingWorkload[Batch, Outputs] | None,
    backend: TrainingBackend | Stepping,
    knobs: Mapping[str, Scalar],
    orders: Iterable[int],
    say: Callable[[StepBatch], None],
) -> Result:
    """Train in batches, one for each order, and stay idle in between.

    The first step of a batch is not counted, since the other side has filled the caches, nor are
    those whose data was loaded while it ran. There is no rest before the first batch, since the
    other side may run then.
    """
    stepping = _stepping(workload, backend)
    trainer = Trainer(stepping)
    steps: Steps = []
    say(StepBatch(uncounted=1 + trainer.ahead))
    rested = stepping.cpu_s()
    for count in orders:
        rest_cpu_s = stepping.cpu_s() - rested
        for _ in range(1 + trainer.ahead):
            trainer.step()
        with trainer.timing():
            batch = [trainer.step() for _ in range(count)]
        steps += batch
        come_to_rest(stepping.cpu_s)
        rested = stepping.cpu_s()
        say(StepBatch(samples=trainer.samples(batch), rest_cpu_s=rest_cpu_s))
    return trainer.result(steps, load_policy(str(knobs["policy"])))


def _stepping(
    workload: TrainingWorkload[Batch, Outputs] | None, backend: TrainingBackend | Stepping
) -> Stepping:
    if isinstance(backend, Stepping):
        return backend
    if workload is None:
        raise TypeError("a backend that trains in this process needs a workload")
    return OneProcess(workload, backend)


def _rested_from(began_s: float) -> Mapping[str, float]:
    """Return when the machine was at rest, up to now, in the form of a device's runner."""
    ended_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {"rested_from_uptime_s": began_s, "rested_until_uptime_s": ended_s}


def come_to_rest(cpu_s: Callable[[], float]) -> None:
    """Wait until no CPU time is used: OpenMP's threads spin before they sleep."""
    give_up = time.monotonic() + SETTLE_S
    while time.monotonic() < give_up:
        used = cpu_s()
        time.sleep(LOOK_S)
        if cpu_s() - used < LOOK_S / 10:
            return


def evened(values: Sequence[float], together: int) -> tuple[float, ...]:
    """Return as many values: each is the mean of `together` that follow one another.

    Of steps whose batches arrive `together`, one waits for all: the median of single steps, or of
    their waits, would be of those that did not. The last mean is of up to twice as many.
    """
    last = max(0, len(values) // together - 1)
    places = [min(place // together, last) for place in range(len(values))]
    groups = [[v for v, of in zip(values, places, strict=True) if of == n] for n in range(last + 1)]
    return tuple(fmean(groups[place]) for place in places)


def measure(
    steps: Steps, batch_size: int, peak_bytes: int, together: int = 1
) -> dict[str, Measurement]:
    """Return metrics of timed steps: medians of the samples, and the last loss.

    together: see `evened`.
    """
    times = evened([seconds for seconds, _ in steps], together)
    losses = tuple(loss for _, loss in steps if math.isfinite(loss))
    metrics = {
        "step_time": Measurement.of_samples(times, Unit.SECONDS),
        "throughput": Measurement.of_samples(
            tuple(batch_size / seconds for seconds in times), Unit.SAMPLES_PER_SECOND
        ),
        "peak_memory": Measurement(value=peak_bytes, unit=Unit.BYTES),
    }
    if losses:
        metrics["loss"] = Measurement(value=losses[-1], unit=Unit.LOSS, samples=losses)
    return metrics


def measure_waits(waits: Sequence[float]) -> dict[str, Measurement]:
    """Return the median of what steps waited for their batches; none if they are in memory."""
    return {"load_wait": Measurement.of_samples(tuple(waits), Unit.SECONDS)} if waits else {}


def speed_facts(gflops: Sequence[float]) -> dict[str, float]:
    """Return the facts of how fast the machine was; none if it is not known."""
    if not gflops:
        return {}
    change = 1 - min(gflops) / max(gflops)
    return {"matmul_gflops": round(median(gflops), 3), "matmul_change": round(change, 4)}


def share_of_waits(waits: Sequence[float], steps: Steps) -> dict[str, float]:
    """Return the fact of which share of the steps' time they waited for their batches."""
    return {"load_share": round(sum(waits) / sum(s for s, _ in steps), 4)} if waits else {}


def objections(steps: Steps) -> tuple[str, ...]:
    """Return why a run is INVALID: its loss is no longer finite."""
    lost = [index for index, (_, loss) in enumerate(steps) if not math.isfinite(loss)]
    if not lost:
        return ()
    return (f"the loss of timed step {lost[0] + 1} of {len(steps)} is {steps[lost[0]][1]}",)


def _progress(phase: str, done: int, total: int, last: tuple[float, float]) -> Progress:
    seconds, loss = last
    values = {"step_time": seconds} | ({"loss": loss} if math.isfinite(loss) else {})
    return Progress(phase=phase, done=done, total=total, values=values)
