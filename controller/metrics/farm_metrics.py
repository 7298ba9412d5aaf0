"""The controller's metrics: counted events, and the present state."""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.capability import Capability, of_record
from controller.contracts.catalog import Catalog
from controller.contracts.records import NewestResult
from controller.contracts.run import Run, RunChange
from controller.metrics.collector import FarmState, NewestOutcomes, farm_gauges
from controller.metrics.exporter import Exposition
from controller.metrics.newest import NewestCapabilities, NewestResults, newest_of
from controller.metrics.observer import Observer


class FarmMetrics:
    """The controller's metrics; loads the store's newest outcomes once, then observes every
    change."""

    def __init__(
        self,
        catalog: Catalog,
        newest: Iterable[NewestResult],
        capabilities: Iterable[Capability] = (),
    ) -> None:
        self._catalog = catalog
        self._newest = NewestResults(catalog, newest)
        self._capabilities = NewestCapabilities(capabilities)
        self._observer = Observer()

    def observe(self, before: Run, change: RunChange) -> None:
        """Observe a change of a run; called once for each change, after it was stored."""
        self._observer.observe(before, change)
        if change.record and (result := newest_of(change.run, change.record, self._catalog)):
            self._newest.add(result)
        if change.record and (capability := of_record(change.run, change.record)):
            self._capabilities.add(capability)

    def expose(self, state: FarmState) -> Exposition:
        """Return the data of a scrape; cheap, since gauges are computed when they are read."""
        self._observer.expect(state.open_runs)
        newest = NewestOutcomes(self._newest.snapshot(), self._capabilities.snapshot())
        gauges = farm_gauges(state, newest, self._catalog)
        return Exposition(gauges, self._observer.registry)
