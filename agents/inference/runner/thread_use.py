"""Which threads of this process really work: what was asked for is not always what is done."""

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
        """Read them."""
        found = {}
        for task in _TASKS.iterdir():
            try:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # ended meanwhile
                continue
            found[task.name] = int(fields[11]) + int(fields[12])
        return ThreadUse(found)

    def threads_since(self) -> int:
        """Return how many threads have done a tenth or more of what the busiest has since then."""
        later = ThreadUse.now().ticks
        spent = [ticks - self.ticks.get(task, 0) for task, ticks in later.items()]
        most = max(spent, default=0)
        return sum(ticks > 0 and ticks >= most / 10 for ticks in spent)
