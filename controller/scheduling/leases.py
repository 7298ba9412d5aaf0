"""The terms of leases. Pure: no clock; all times are of a monotonic clock."""

from __future__ import annotations


class Leases:
    """The terms of all current leases, by run."""

    def __init__(self, ttl_s: float) -> None:
        """ttl_s: term of a lease, in seconds."""
        self._ttl_s = ttl_s
        self._began: dict[str, float] = {}
        self._ends: dict[str, float] = {}

    def begin(self, run_id: str, began: float, now: float) -> None:
        """Add a lease with a full term from now."""
        self._began[run_id] = began
        self._ends[run_id] = now + self._ttl_s

    def renew(self, run_id: str, now: float) -> None:
        """Renew a lease for a full term from now."""
        self._ends[run_id] = now + self._ttl_s

    def end(self, run_id: str) -> None:
        """Forget a run's lease, if it has one."""
        self._began.pop(run_id, None)
        self._ends.pop(run_id, None)

    def began(self, run_id: str) -> float:
        """Return when a run's lease began."""
        return self._began[run_id]

    def expired(self, now: float) -> list[str]:
        """Return the runs whose lease has expired."""
        return [run_id for run_id, ends in self._ends.items() if ends <= now]

    def next_end(self) -> float | None:
        """Return when the next lease expires, or None without leases."""
        return min(self._ends.values(), default=None)
