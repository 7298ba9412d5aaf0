"""The conditions of a host before and after a run, for the result's environment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from agents.host.strain import CPUS, SYS
from controller.contracts.base import Scalar
from controller.contracts.result import Environment
from controller.platform.control_groups import number_in, text_of


@dataclass(frozen=True, slots=True)
class Conditions:
    """A snapshot of the host's load and settings."""

    load_1min: float
    busy_s: float
    """CPU seconds used by all processes since boot."""
    steal_s: float
    """CPU seconds taken by the hypervisor for others since boot."""
    total_s: float
    governor: str | None
    """The governors of the cores that are measured, each once."""
    frequency_khz: int | None
    """The highest clock frequency of these cores."""


def read_conditions(cores: Iterable[int], sys: Path = SYS) -> Conditions:
    """Read the host's conditions now; cores: those that are measured."""
    times = psutil.cpu_times()
    steal = getattr(times, "steal", 0.0)
    total = sum(times[:8])
    clocks = [sys / CPUS / f"cpu{core}/cpufreq" for core in cores]
    governors = {text_of(clock / "scaling_governor").strip() for clock in clocks}
    frequencies = (number_in(clock / "scaling_cur_freq") for clock in clocks)
    return Conditions(
        load_1min=os.getloadavg()[0],
        busy_s=total - times.idle - getattr(times, "iowait", 0.0),
        steal_s=steal,
        total_s=total,
        governor=" ".join(sorted(governors)).strip() or None,
        frequency_khz=max(filter(None, frequencies), default=None),
    )


def temperatures() -> dict[str, Scalar]:
    """Return the hottest sensor of each chip, as `celsius_CHIP`; empty if none can be read."""
    chips = psutil.sensors_temperatures()
    return {f"celsius_{chip}": max(s.current for s in found) for chip, found in chips.items()}


def environment_of(before: Conditions, after: Conditions) -> Environment:
    """Return the facts that show how quiet the host was between two snapshots."""
    elapsed = after.total_s - before.total_s
    return {
        "load_before": before.load_1min,
        "load_after": after.load_1min,
        "cpu_busy_share": _share(after.busy_s - before.busy_s, elapsed),
        "steal_share": _share(after.steal_s - before.steal_s, elapsed),
        "governor": after.governor,
        "frequency_khz_before": before.frequency_khz,
        "frequency_khz_after": after.frequency_khz,
    }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole > 0 else None
