"""Requests of the administrator to drain an agent, and to end that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from controller.contracts.catalog import Catalog
from controller.contracts.device import Hold, shown_names
from controller.contracts.draining import AgentDrain, ChangedDrain
from controller.contracts.farm_status import RunNow
from controller.contracts.run import Run
from controller.runtime.clock import Clock
from controller.runtime.open_runs import OpenRuns
from controller.runtime.roster import Roster
from controller.scheduling.draining import waiting_for
from controller.scheduling.references import find_agent
from controller.scheduling.waiting import Queue, waiting


class Drains:
    """The drains of a farm's agents."""

    def __init__(self, roster: Roster, runs: OpenRuns, catalog: Catalog, clock: Clock) -> None:
        self._roster = roster
        self._runs = runs
        self._catalog = catalog
        self._clock = clock

    def find(self, given: str) -> str:
        """Return the id of the agent that a person means; raises NotFound, UserError."""
        return find_agent(given, self._roster.agents.values(), self._roster.devices.values())

    def begin(self, agent_id: str, who: str, why: str) -> ChangedDrain:
        """Drain an agent; one that is drained already stays so for its first reason.

        Raises NotFound, StoreDamaged, StoreUnavailable.
        """
        begun = self._roster.agents[agent_id].draining is None
        if begun:
            hold = Hold(since=self._clock.wall(), who=who, why=why)
            self._roster.drain(agent_id, hold, who, f"its host takes no runs: {why}")
        return ChangedDrain(now=self.now(agent_id), changed=begun)

    def end(self, agent_id: str, who: str, why: str) -> ChangedDrain:
        """End an agent's drain, if it is drained; raises as `begin` does."""
        ended = self._roster.agents[agent_id].draining is not None
        if ended:
            self._roster.drain(agent_id, None, who, f"its host takes runs again: {why}")
            self._runs.place()
        return ChangedDrain(now=self.now(agent_id), changed=ended)

    def now(self, agent_id: str) -> AgentDrain:
        """Return an agent's drain, and its runs under way."""
        known = self._roster.agents[agent_id]
        names = shown_names(d.labelled for d in self._roster.devices.values())
        own = [id_ for id_, d in self._roster.devices.items() if d.agent_id == agent_id]
        return AgentDrain(
            agent_id=agent_id,
            host=known.agent.host,
            online=known.online,
            draining=known.draining,
            devices=tuple(names[id_] for id_ in own),
            running=tuple(self._run(run, names) for run in self._runs.leased(agent_id)),
        )

    def waiting(self, agent_id: str) -> Callable[[], int]:
        """Return what counts the runs that wait for a drain's end; may be called in any thread."""
        owners = {id_: d.agent_id for id_, d in self._roster.devices.items()}
        return partial(_count, agent_id, self._runs.queue(), self._catalog, owners)

    def _run(self, run: Run, names: dict[str, str]) -> RunNow:
        assert run.lease
        device_id = run.lease.device_id
        known = self._roster.devices.get(device_id)
        return RunNow(
            run_id=run.run_id,
            sweep_id=run.sweep_id,
            user=self._runs.user_of(run.sweep_id) or "",
            device=device_id,
            device_name=names.get(device_id, device_id),
            likeness=known.device.likeness if known else "",
            since=run.lease.leased_at,
            cooling=run.lease.cooling is True,
        )


def _count(agent_id: str, queue: Queue, catalog: Catalog, owners: dict[str, str]) -> int:
    return waiting_for(agent_id, waiting(queue, catalog), owners)
