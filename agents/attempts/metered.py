"""Runs beside which the user's power meter measures energy, in place of the kernel's counters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agents.attempts.protocol import AttemptRunner
from agents.energy.account import Account, Used, account
from agents.energy.device_clock import SAME_CLOCK, Offset, ask_offset, throughout
from agents.energy.meter import Meter, host_uptime
from agents.energy.meter_log import SOURCE, MeterLog, of_meter
from agents.energy.rapl import readable_domains
from agents.energy.trace import EnergyUnknownError, Span
from agents.inference.on_device_result import queries_of, rest_of
from agents.remotes.remote import Remote, RemoteFault
from controller.contracts.device import Device, DeviceKind
from controller.contracts.policy import load_policy
from controller.contracts.result import Environment, Outcome, Result
from controller.contracts.units import Unit
from controller.contracts.wire import Progress, TrainingProgram, WorkerSpec

READINGS: Final = "meter.txt"
"""File of a metered run with the meter's readings: uptime (s) and power (W)."""
METRICS: Final = frozenset({"energy", "energy_gross"})
FACTS: Final = frozenset(
    {
        *("energy_source", "energy_uncertainty", "energy_gross_uncertainty", "energy_unknown"),
        *("idle_watts", "rested_s"),
    }
)
"""The facts about energy in a result, from any source."""


@dataclass(frozen=True, slots=True)
class Timed:
    """When something was measured, by the device's uptime."""

    span: Span
    rest: Span | None
    count: int
    """Queries or steps."""
    unit: Unit


@dataclass(slots=True)
class _Clocks:
    """Offsets of a device's clock, read around a run."""

    seen: list[Offset] = field(default_factory=list)
    trouble: str = ""

    @property
    def offset(self) -> Offset:
        """Return the offset of the device's clock; raises EnergyUnknownError."""
        if self.trouble:
            raise EnergyUnknownError(self.trouble)
        return throughout(self.seen)


def host_rest_s(spec: WorkerSpec) -> float:
    """Return the seconds of rest that a training run needs before it, since its worker takes none.

    A worker rests only where the kernel counts energy; the runner on a device always rests.
    """
    program, scenario = spec.job.program, spec.job.scenario
    if not isinstance(program, TrainingProgram) or scenario != "training" or readable_domains():
        return 0.0
    return load_policy(str(spec.job.knobs["policy"])).rest_s


@dataclass(frozen=True, slots=True)
class Metered:
    """Attempt runner that reads a meter while another runner measures; comparisons are not
    metered."""

    inner: AttemptRunner
    meter: Meter
    remote_of: Callable[[Device], Remote]
    """Returns the Remote whose clock a device's times follow, unless it is this host; raises
    RemoteFault."""
    uptime: Callable[[], float] = host_uptime
    rest_s: Callable[[WorkerSpec], float] = host_rest_s
    """Returns the seconds of rest before a run."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run; the run goes on if the meter fails."""
        if spec.job.candidate is not None or not self.meter.measures(spec.device):
            return await self.inner.run(spec, on_progress)
        ref = spec.job.ref
        async with self.meter.running(spec.device.id, f"{ref.run_id}/{ref.attempt}") as log:
            rest = await self._rest(spec, on_progress) if log else None
            async with self._clocks(spec.device) as clocks:
                outcome = await self.inner.run(spec, on_progress)
        if log is None or not isinstance(outcome, Result):
            return outcome
        return _with_energy(outcome, spec, log, clocks, rest)

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.inner.clean() + await self.meter.clean()

    async def _rest(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Span | None:
        """Rest before a run that doesn't rest itself; return the time of rest, by the host's
        uptime."""
        seconds = self.rest_s(spec)
        if not seconds:
            return None
        on_progress(Progress(phase="rest", done=0, total=1))
        began_s = self.uptime()
        await asyncio.sleep(seconds)
        return Span(began_s, self.uptime())

    @asynccontextmanager
    async def _clocks(self, device: Device) -> AsyncIterator[_Clocks]:
        """Read the device's clock before the block and after it."""
        clocks = _Clocks()
        await self._look(device, clocks)
        yield clocks
        await self._look(device, clocks)

    async def _look(self, device: Device, clocks: _Clocks) -> None:
        if device.kind is DeviceKind.CPU_HOST:
            clocks.seen.append(SAME_CLOCK)
            return
        try:
            remote = self.remote_of(device)
            clocks.seen.append(await ask_offset(remote, self.uptime))
        except (EnergyUnknownError, RemoteFault) as trouble:
            clocks.trouble = clocks.trouble or str(trouble)


def _with_energy(
    result: Result, spec: WorkerSpec, log: MeterLog, clocks: _Clocks, rest: Span | None
) -> Result:
    """Return a result with the meter's energy in place of any other."""
    timed = timed_of(result, spec)
    if timed is None:
        return _with_none(result)
    told = by_meter(log, timed, clocks, rest)
    metrics = {n: m for n, m in result.metrics.items() if n not in METRICS}
    facts = {n: value for n, value in result.environment.items() if n not in FACTS}
    return result.model_copy(
        update={
            "metrics": {**metrics, **told.metrics},
            "environment": {**facts, **told.facts},
            "artefacts": {**result.artefacts, SOURCE: _kept(log, Path(spec.artefact_dir))},
        }
    )


def _with_none(result: Result) -> Result:
    """Return a result without the energy that another source than the meter told, and say why."""
    if METRICS.isdisjoint(result.metrics):
        return result
    facts = {n: value for n, value in result.environment.items() if n not in FACTS}
    why = f"{SOURCE}: when it measured is not known"
    return result.model_copy(
        update={
            "metrics": {n: m for n, m in result.metrics.items() if n not in METRICS},
            "environment": {**facts, "energy_unknown": why},
        }
    )


def by_meter(log: MeterLog, timed: Timed, clocks: _Clocks, rest: Span | None) -> Account:
    """Compute a run's energy from a meter's readings; `rest` is by this host's uptime."""

    def during() -> Used:
        return of_meter(log, clocks.offset.here(timed.span), clocks.offset.unsure_s)

    def at_rest() -> Used:
        if timed.rest is not None:
            return of_meter(log, clocks.offset.here(timed.rest), clocks.offset.unsure_s)
        if rest is None:
            raise EnergyUnknownError("not measured")
        return of_meter(log, rest, 0.0)

    return account(during, at_rest, timed.count, timed.unit)


def timed_of(result: Result, spec: WorkerSpec) -> Timed | None:
    """Return when a result was measured; None without times, such as an accuracy run's."""
    facts = result.environment
    if spec.job.scenario == "training":
        began, ended = (_number(facts, f"timed_{end}_uptime_s") for end in ("from", "until"))
        if began is None or ended is None:
            return None
        steps = len(result.metrics["step_time"].samples)
        return Timed(Span(began, ended), rest_of(facts, 0.0), steps, Unit.JOULES_PER_STEP)
    started, duration = _number(facts, "started_at_uptime_s"), result.metrics.get("duration")
    if started is None or duration is None:
        return None
    span = Span(started, started + duration.value)
    queries = queries_of(result, spec.job)
    return Timed(span, rest_of(facts, 0.0), queries, Unit.JOULES_PER_QUERY)


def _number(facts: Environment, name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else None


def _kept(log: MeterLog, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    lines = (f"{at:.6f} {watts:g}\n" for at, watts in log.samples())
    (folder / READINGS).write_text("".join(lines))
    return str(folder / READINGS)


def metered(
    inner: AttemptRunner, meter: Meter | None, remote_of: Callable[[Device], Remote]
) -> AttemptRunner:
    """Return the runner with a meter beside it, if there is a meter."""
    return Metered(inner, meter, remote_of) if meter else inner
