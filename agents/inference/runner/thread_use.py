"""The number of threads that really work, which may differ from the number requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TASKS = Path("/proc/self/task")


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """CPU ticks of each thread at one moment."""

    ticks: Mapping[str, int]

    @staticmethod
    def now() -> ThreadUse:
        """Read the ticks now."""
        found = {}
        for task in _TASKS.iterdir():
            try:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # ended meanwhile
                continue
            found[task.name] = int(fields[11]) + int(fields[12])
        return ThreadUse(found)

    def threads_since(self) -> int:
        """Return the number of threads with at least a tenth of the busiest one's ticks since
        then."""
        later = ThreadUse.now().ticks
        spent = [ticks - self.ticks.get(task, 0) for task, ticks in later.items()]
        most = max(spent, default=0)
        return sum(ticks > 0 and ticks >= most / 10 for ticks in spent)
