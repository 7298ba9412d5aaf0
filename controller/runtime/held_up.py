"""Leased runs that a process of another farm holds up, as their agents say at each exchange.

Kept in memory only: an agent repeats it while it lasts, so also to a restarted controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.run import Run
from controller.contracts.wire import AttemptRef, HeldUp


class HeldUpRuns:
    """What the runs of each agent wait for, in the agent's words."""

    def __init__(self) -> None:
        self._of: dict[str, dict[AttemptRef, str]] = {}

    def heard(self, agent_id: str, held_up: Iterable[HeldUp]) -> None:
        """Replace what an agent said before."""
        self._of[agent_id] = {each.ref: each.why for each in held_up}

    def among(self, runs: Iterable[Run]) -> dict[str, str]:
        """Return what holds up each of the runs whose present lease is held up, by its id."""
        found = ((run.run_id, self._why(run)) for run in runs)
        return {run_id: why for run_id, why in found if why}

    def _why(self, run: Run) -> str | None:
        lease = run.lease
        if lease is None:
            return None
        ref = AttemptRef(run_id=run.run_id, attempt=lease.number)
        return self._of.get(lease.agent_id, {}).get(ref)
