"""What the controller exports: what happened on the farm, and how things stand."""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.catalog import Catalog
from controller.contracts.records import NewestResult
from controller.contracts.run import Run, RunChange
from controller.metrics.collector import FarmState, farm_gauges
from controller.metrics.exporter import Exposition
from controller.metrics.newest import NewestResults, newest_of
from controller.metrics.observer import Observer


class FarmMetrics:
    """Fed with the store's newest results once, and with every change of a run from then on."""

    def __init__(self, catalog: Catalog, newest: Iterable[NewestResult]) -> None:
        self._catalog = catalog
        self._newest = NewestResults(newest)
        self._observer = Observer()

    def observe(self, before: Run, change: RunChange) -> None:
        """Take a change of a run; called once a change, after it was stored."""
        self._observer.observe(before, change)
        if change.record and (result := newest_of(change.run, change.record)):
            self._newest.add(result)

    def expose(self, state: FarmState) -> Exposition:
        """Return what a scrape shows; cheap, since the gauges are worked out as they are read."""
        gauges = farm_gauges(state, self._newest.snapshot(), self._catalog)
        return Exposition(gauges, self._observer.registry)
