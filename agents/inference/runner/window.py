"""How many samples a device holds in memory at once: LoadGen's window, from which it draws."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agents.inference.runner.spec import RunSpec

SHARE: Final = 0.5
"""Share of the available memory that samples may take; the rest is for decoding them, for the
model's tensors, and for whatever else the device does meanwhile."""
_MEMINFO: Final = Path("/proc/meminfo")
_AVAILABLE: Final = re.compile(r"^MemAvailable:\s+(\d{1,12}) kB$", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Window:
    """The samples that are held at once."""

    wanted: int
    """Samples to draw from by the task, at most all of the data set."""
    samples: int
    """Those of them that are held."""
    sample_bytes: int
    """Bytes of one as the model takes it."""
    available_bytes: int | None
    """Memory that was available; None if the device doesn't tell."""

    @staticmethod
    def of(wanted: int, sample_bytes: int, available_bytes: int | None) -> Window:
        """Return as many samples as are wanted and fit into SHARE of the memory, at least one."""
        if available_bytes is None:
            return Window(wanted, wanted, sample_bytes, None)
        held = min(wanted, int(available_bytes * SHARE) // sample_bytes)
        return Window(wanted, max(1, held), sample_bytes, available_bytes)

    def limit(self, spec: RunSpec) -> RunSpec:
        """Return a spec with this window."""
        return replace(spec, performance_sample_count=self.samples)

    def facts(self) -> Mapping[str, object]:
        """Return the facts for the result's environment."""
        return {
            "samples_wanted": self.wanted,
            "sample_bytes": self.sample_bytes,
            "memory_before_samples_bytes": self.available_bytes,
        }


def available_bytes(meminfo: Path = _MEMINFO) -> int | None:
    """Return the memory that programs can have; None if the kernel doesn't tell (before 3.14)."""
    try:
        found = _AVAILABLE.search(meminfo.read_text(errors="replace"))
    except OSError:
        return None
    return int(found[1]) << 10 if found else None
