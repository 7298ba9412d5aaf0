"""Quotas of a user over all sweeps, which leave room for other users. Pure.

Counted is the approximate size of a sweep in the store once each run has been leased: its JSON, and
the rows of its cells and runs. Until then it takes far less. Cancelling a sweep frees nothing; its
bytes are forgotten after a day.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Final

from controller.contracts.errors import OverQuota
from controller.contracts.quota import Quota
from controller.contracts.records import ADMIN
from controller.contracts.run import Run
from controller.contracts.sweep import Cell, Sweep

DAY_S: Final = 86_400.0
RUN_BYTES: Final = 400
"""Bytes of a leased run with its indexes, without its attempts and results."""
ROW_BYTES: Final = 200
"""Bytes of any other row, without its content."""
MAX_OPEN_SELECTORS: Final = 1000
"""Each change of a device evaluates all selectors of open runs."""


def size_of(sweep: Sweep, cells: Iterable[Cell], runs: int) -> int:
    """Return the approximate size of a sweep in the store, in bytes."""
    said = sum(len(cell.model_dump_json()) + ROW_BYTES for cell in cells)
    return len(sweep.model_dump_json()) + ROW_BYTES + said + runs * RUN_BYTES


class Ledger:
    """Bytes that each user stored in the last day; times are of a monotonic clock."""

    def __init__(self) -> None:
        self._kept: defaultdict[str, deque[tuple[float, int]]] = defaultdict(deque)

    def add(self, user: str, size: int, now: float) -> None:
        """Add bytes stored for a user."""
        self._kept[user].append((now, size))

    def of(self, user: str, now: float) -> int:
        """Return the bytes that a user stored in the last day."""
        kept = self._kept[user]
        while kept and kept[0][0] <= now - DAY_S:
            kept.popleft()
        return sum(size for _, size in kept)


def require_room(
    user: str, tried: str, runs: Sequence[Run], more: Sequence[Cell], new_runs: int, quota: Quota
) -> None:
    """Raise OverQuota if a user would have too many open runs or selectors; more: the new cells."""
    if user == ADMIN or not new_runs:
        return
    if len(runs) + new_runs > quota.open_runs:
        raise OverQuota(
            tried,
            f"{user} has {len(runs)} open runs; {new_runs} more would exceed {quota.open_runs}",
            "Wait until some have ended, cancel some, or ask the administrator for more "
            "(`benchfarm up --user-runs`).",
        )
    selectors = {r.cell.selector for r in runs} | {cell.selector for cell in more}
    if len(selectors) > MAX_OPEN_SELECTORS:
        raise OverQuota(
            tried,
            f"the open runs of {user} would have {len(selectors)} different selectors; the limit "
            f"is {MAX_OPEN_SELECTORS}",
            "Wait until some have ended, or label the devices and select by the labels.",
        )


def require_bytes(user: str, tried: str, kept: int, more: int, quota: Quota) -> None:
    """Raise OverQuota if a user would store too much in a day."""
    if user != ADMIN and kept + more > quota.bytes_a_day:
        raise OverQuota(
            tried,
            f"the sweeps of {user} took {kept} bytes of the store in a day; {more} more would "
            f"exceed {quota.bytes_a_day}",
            "Wait, ask for fewer runs, or ask the administrator for more "
            "(`benchfarm up --user-bytes`).",
        )
