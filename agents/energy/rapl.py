"""Energy of processors by RAPL, where the kernel lets us read it through powercap.

RAPL counts each package with everything in it; DRAM has its own domain on some processors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.energy.account import Used
from agents.energy.readings import Reading
from agents.energy.trace import (
    EnergyUnknownError,
    Joules,
    Span,
    of_counter,
    resolution,
    sure_enough,
    unwrapped,
)

POWERCAP = Path("/sys/class/powercap")
SAMPLED: Final = "rapl:"
"""Prefix of a counter's name in the sampler's output; `range_` before it gives the wrap-around
value."""
_COUNTED = ("package", "dram")
"""Name prefixes of the domains to sum; core and uncore are parts of package, and psys contains
it."""
_MOST_UW: Final = 2e9
"""Upper bound of a package's power (2 kW), by which a wrap-around between readings is detected."""
_UPDATED_S: Final = 0.002
"""Update interval of RAPL's counters (Intel SDM, volume 3, 16.10)."""
_UJ: Final = 1e-6
_SUSPENDED_S: Final = 0.1
"""Longest suspension between readings that counts as none: the clocks are not read at once."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A RAPL counter."""

    name: str
    path: Path
    range_uj: int
    """Value in µJ after which it wraps around to 0."""

    def read(self) -> int:
        """Return the count in µJ; raises OSError or ValueError."""
        return int((self.path / "energy_uj").read_text())


def readable_domains(powercap: Path = POWERCAP) -> tuple[Domain, ...]:
    """Return the counters that sum to the processors' energy; none if they can't be read."""
    found = (_domain(path) for path in sorted(powercap.glob("intel-rapl:*")))
    return tuple(domain for domain in found if domain and domain.name.startswith(_COUNTED))


def _domain(path: Path) -> Domain | None:
    try:
        name = (path / "name").read_text().strip()
        domain = Domain(name, path, int((path / "max_energy_range_uj").read_text()))
        domain.read()
    except (OSError, ValueError):  # only root may read it on most hosts
        return None
    return domain


def host_suspended() -> float:
    """Return for how many seconds this host has been suspended since boot.

    At most: a reading during which this process had to wait is made again.
    """
    while True:
        before = time.clock_gettime(time.CLOCK_MONOTONIC)
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        if time.clock_gettime(time.CLOCK_MONOTONIC) - before < _SUSPENDED_S / 10:
            return since_boot - before


@dataclass(frozen=True, slots=True)
class _Look:
    """A reading of all counters."""

    at_s: float
    suspended_s: float
    counts: tuple[int, ...]


class EnergyMeter:
    """The energy of timed sections.

    A busy package's counter wraps around after some minutes; call `look` in between in longer
    sections. Counters go on while the machine is suspended, but not the clock that steps are timed
    by. What can't be read any more makes the energy unknown, and fails nothing.
    """

    def __init__(
        self,
        domains: tuple[Domain, ...],
        clock: Callable[[], float] = time.monotonic,
        suspended: Callable[[], float] = host_suspended,
    ) -> None:
        self._domains, self._clock, self._suspended = domains, clock, suspended
        self._last: _Look | None = None
        """The last reading; None while the meter doesn't run."""
        self._joules = [0.0] * len(domains)
        self._seconds = 0.0
        self._unknown: EnergyUnknownError | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count during this context; may be entered repeatedly."""
        self._last = self._read()
        try:
            yield
            self.look()
        finally:
            self._last = None

    def look(self) -> None:
        """Add the energy since the last reading, if the meter runs; takes microseconds."""
        if self._last is None:
            return
        before, now = self._last, self._read()
        if now is None:
            return
        self._last = now
        self._seconds += now.at_s - before.at_s
        if now.suspended_s - before.suspended_s > _SUSPENDED_S:
            self._give_up("the machine was suspended")
        for place, domain in enumerate(self._domains):
            looks = [(look.at_s, look.counts[place]) for look in (before, now)]
            try:
                self._joules[place] += unwrapped(looks, domain.range_uj, _MOST_UW)[-1][1] * _UJ
            except EnergyUnknownError as unknown:
                self._give_up(f"{domain.name}: {unknown}")

    @property
    def used(self) -> Used:
        """The energy while the meter ran; raises EnergyUnknownError."""
        if not self._domains:
            raise EnergyUnknownError("the kernel lets no counter of energy be read")
        if self._unknown:
            raise self._unknown
        if not self._seconds:
            raise EnergyUnknownError("not measured")
        for domain, joules in zip(self._domains, self._joules, strict=True):
            if not joules:
                raise EnergyUnknownError(f"{domain.name}: its counter stood still")
        total = sum(self._joules)
        uncertainty = total * min(1.0, _UPDATED_S / self._seconds)
        used = sure_enough(Joules(total, uncertainty), self._seconds)
        source = f"rapl: {' '.join(domain.name for domain in self._domains)}"
        return Used(used, self._seconds, source)

    def _read(self) -> _Look | None:
        """Return a reading; None, and the energy is unknown, if a counter can't be read."""
        at_s, suspended_s = self._clock(), self._suspended()
        counts: list[int] = []
        for domain in self._domains:
            try:
                counts.append(domain.read())
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                self._give_up(f"{domain.name}: its counter can no longer be read: {why}")
                return None
        return _Look(at_s, suspended_s, tuple(counts))

    def _give_up(self, why: str) -> None:
        """Leave the energy unknown, for the first reason of all."""
        self._unknown = self._unknown or EnergyUnknownError(why)


def rested(domains: tuple[Domain, ...], seconds: float) -> EnergyMeter:
    """Return the meter of a rest of this process for some seconds; no rest without counters."""
    meter = EnergyMeter(domains)
    if domains and seconds:
        with meter.running():
            time.sleep(seconds)
    return meter


def of_rapl(readings: Sequence[Reading], span: Span) -> Used:
    """Return the energy of a server's processors in a span, from samples; raises
    EnergyUnknownError."""
    names = sorted({name for r in readings for name in r.values if name.startswith(SAMPLED)})
    counted = [name for name in names if name.rpartition(":")[2].startswith(_COUNTED)]
    if not counted:
        raise EnergyUnknownError("the kernel lets no counter of energy be read")
    total = Joules(0.0, 0.0)
    for name in counted:
        highest = next((n for r in readings if (n := r.number(f"range_{name}"))), 0.0)
        counts = [(r.at_s, n) for r in readings if (n := r.number(name)) is not None]
        used = [(at, uj * _UJ) for at, uj in unwrapped(counts, int(highest), _MOST_UW)]
        total = total.plus(of_counter(used, span, resolution(counts) * _UJ))
    return Used(total, span.seconds, f"rapl: {' '.join(n.rpartition(':')[2] for n in counted)}")
