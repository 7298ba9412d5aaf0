"""Energy that the processor used, where the kernel lets us read it (RAPL through powercap).

RAPL counts each package, with all that runs on it; DRAM is a part of its own where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_COUNTED = ("package", "dram")
"""Beginnings of the names of domains that add up; core and uncore are inside package, and psys
contains it."""


@dataclass(frozen=True, slots=True)
class Domain:
    """One counter."""

    name: str
    path: Path
    range_uj: int
    """It counts microjoules up to here, then begins again at 0."""

    def read(self) -> int:
        """Return microjoules; raises OSError."""
        return int((self.path / "energy_uj").read_text())

    def between(self, before: int, after: int) -> float:
        """Return joules between two readings less than one range apart."""
        return ((after - before) % (self.range_uj + 1)) / 1e6


def readable_domains(powercap: Path = POWERCAP) -> tuple[Domain, ...]:
    """Return the counters that add up to what the processors use; none where they can't be read."""
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


class EnergyMeter:
    """Adds up the energy of what is timed.

    A counter's range lasts a busy package some minutes: whoever times for longer looks in between.
    """

    def __init__(self, domains: tuple[Domain, ...]) -> None:
        self._domains = domains
        self._joules = 0.0
        self._last: list[int] | None = None
        """What the domains said when last looked at; None while the meter does not run."""

    @property
    def joules(self) -> float | None:
        """All that was used while the meter ran; None if there is nothing to read."""
        return self._joules if self._domains else None

    @property
    def source(self) -> str | None:
        """What was counted, such as `rapl: package-0 dram`."""
        return f"rapl: {' '.join(d.name for d in self._domains)}" if self._domains else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count while the context lasts; may be entered again and again."""
        self._last = self._read()
        try:
            yield
            self.look()
        finally:
            self._last = None

    def look(self) -> None:
        """Add what was used since the last look, if the meter runs; takes microseconds."""
        if self._last is None:
            return
        now = self._read()
        pairs = zip(self._domains, self._last, now, strict=True)
        self._joules += sum(domain.between(before, after) for domain, before, after in pairs)
        self._last = now

    def _read(self) -> list[int]:
        return [domain.read() for domain in self._domains]
