"""The leased runs, by agent and by device. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from controller.contracts.run import Run


class HeldRuns:
    """The leased runs, so that an agent's or a device's are found however many are open."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._of_agent: defaultdict[str, dict[str, Run]] = defaultdict(dict)
        self._on_device: dict[str, str] = {}
        """Device → the run that holds it."""

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs.values()))

    @property
    def devices(self) -> Collection[str]:
        """The devices that are leased."""
        return self._on_device.keys()

    def of_agent(self, agent_id: str) -> list[Run]:
        """Return the runs of which an agent has still to report."""
        return [*self._of_agent.get(agent_id, {}).values()]

    def on_device(self, device_id: str) -> Run | None:
        """Return the run that holds a device's lease, if any."""
        return self._runs.get(self._on_device.get(device_id, ""))

    def put(self, run: Run) -> None:
        """Add a run, or replace it; one that isn't leased is taken out."""
        self.discard(run.run_id)
        if run.lease is None:
            return
        self._runs[run.run_id] = run
        self._on_device.update(dict.fromkeys(run.lease.device_ids, run.run_id))
        for place in run.lease.under_way:
            self._of_agent[place.agent_id][run.run_id] = run

    def discard(self, run_id: str) -> None:
        """Take a run out, if it is there."""
        run = self._runs.pop(run_id, None)
        if run is None or run.lease is None:
            return
        for device_id in run.lease.device_ids:
            if self._on_device.get(device_id) == run_id:
                del self._on_device[device_id]
        for place in run.lease.under_way:
            runs = self._of_agent[place.agent_id]
            runs.pop(run_id, None)
            if not runs:
                del self._of_agent[place.agent_id]
