"""The terms of leases. Pure: no clock; all times are of a monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable


class Leases:
    """The terms of all current leases, by run."""

    def __init__(self, ttl_s: float) -> None:
        """ttl_s: term of a lease, in seconds."""
        self._ttl_s = ttl_s
        self._began: dict[str, float] = {}
        self._ends: dict[str, dict[str, float]] = {}
        """Run → agent that holds it → end of its term."""

    def begin(self, run_id: str, agents: Iterable[str], began: float, now: float) -> None:
        """Add the lease of each agent that holds a run, with a full term from now."""
        self._began[run_id] = began
        self._ends[run_id] = dict.fromkeys(agents, now + self._ttl_s)

    def renew(self, run_id: str, agent_id: str, now: float) -> None:
        """Renew an agent's lease for a full term from now."""
        self._ends[run_id][agent_id] = now + self._ttl_s

    def release(self, run_id: str, agent_id: str) -> None:
        """Forget an agent's part of a run's lease, if it has one."""
        self._ends.get(run_id, {}).pop(agent_id, None)

    def end(self, run_id: str) -> None:
        """Forget a run's lease, if it has one."""
        self._began.pop(run_id, None)
        self._ends.pop(run_id, None)

    def began(self, run_id: str) -> float:
        """Return when a run's lease began."""
        return self._began[run_id]

    def expired(self, now: float) -> list[tuple[str, str]]:
        """Return the runs of which a lease has expired, with the first agent that held one."""
        return [
            (run_id, late[0])
            for run_id, ends in self._ends.items()
            if (late := [agent_id for agent_id, end in ends.items() if end <= now])
        ]

    def next_end(self) -> float | None:
        """Return when the next lease expires, or None without leases."""
        return min((end for ends in self._ends.values() for end in ends.values()), default=None)
