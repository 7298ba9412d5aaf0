"""Counts of the kernel for this process, by phase of a training step.

Faults, switches and CPU time are those of getrusage(2), for all threads together. Migrations are in
/proc/self/task/*/sched, which kernels without CONFIG_SCHED_DEBUG lack.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controller.contracts.counters import PhaseCounts
from controller.profiles.model import phase_number

TASKS: Final = Path("/proc/self/task")
_MIGRATIONS: Final = "se.nr_migrations"
_NAMES: Final = (
    *("seconds", "minor_faults", "major_faults", "voluntary_switches"),
    *("involuntary_switches", "user_s", "system_s"),
)
Totals = tuple[float, ...]
"""A number for each of _NAMES."""


@dataclass(slots=True)
class SoftwareCounters:
    """The counts of each phase so far; a `Mark` for phases."""

    tasks: Path = TASKS
    _spent: dict[str, Totals] = field(default_factory=dict)
    _moved: dict[str, int] = field(default_factory=dict)
    _last: Totals | None = None
    _threads: dict[str, int] | None = None
    _phase: str = ""

    def start(self) -> None:
        """Begin, between phases."""
        self._phase, self._threads, self._last = "", self._migrations(), _totals()

    def enter(self, phase: str) -> None:
        """End the current phase, and begin another; empty: between phases."""
        if self._last is None:
            return
        now = _totals()
        before = self._spent.get(self._phase, (0.0,) * len(_NAMES))
        self._spent[self._phase] = tuple(
            told + new - old for told, new, old in zip(before, now, self._last, strict=True)
        )
        threads = self._migrations()
        if threads is not None and self._threads is not None:
            moved = sum(moves - self._threads.get(name, 0) for name, moves in threads.items())
            self._moved[self._phase] = self._moved.get(self._phase, 0) + moved
        # Taken again: reading the migrations is no part of either phase.
        self._phase, self._threads, self._last = phase, threads, _totals()

    def stop(self) -> None:
        """End the current phase; what comes later is not counted."""
        self.enter("")
        self._last = None

    def per_step(self, steps: int) -> Iterator[PhaseCounts]:
        """Yield the means of each phase, in the order of a step."""
        for phase in sorted(self._spent, key=phase_number):
            told = dict(zip(_NAMES, self._spent[phase], strict=True))
            moved = self._moved.get(phase)
            yield PhaseCounts(
                phase=phase,
                migrations=None if moved is None else moved / steps,
                **{name: value / steps for name, value in told.items()},
            )

    def _migrations(self) -> dict[str, int] | None:
        """Return how often each thread has moved so far; None if the kernel does not tell."""
        found = {}
        for file in self.tasks.glob("*/sched"):
            with suppress(OSError, ValueError):  # the thread has ended
                found[file.parent.name] = _migrations_in(file.read_text())
        return found or None


def _totals() -> Totals:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (
        time.perf_counter(),
        used.ru_minflt,
        used.ru_majflt,
        used.ru_nvcsw,
        used.ru_nivcsw,
        used.ru_utime,
        used.ru_stime,
    )


def _migrations_in(text: str) -> int:
    """Return a thread's migrations; raises ValueError if they are not told."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == _MIGRATIONS:
            return int(value)
    raise ValueError(f"there is no {_MIGRATIONS}")
