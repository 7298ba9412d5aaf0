"""A Prometheus that scrapes a generated fleet, whose counters have grown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from controller.metrics import names
from controller.metrics.exporter import Exposition
from controller.metrics.prometheus_config import Intervals
from controller.runtime.prometheus import Prometheus
from tests.support.generated_fleet import GeneratedFleet, served
from tests.support.prometheus import fixed_targets, running_prometheus
from tests.support.waiting import eventually


@dataclass(frozen=True)
class BusyFleet(GeneratedFleet):
    """Its counters grow once after the first scrape, so that there are rates and quantiles."""

    scrapes: Iterator[int] = field(default_factory=itertools.count)

    def of_controller(self) -> Exposition:
        now = super().of_controller()
        if next(self.scrapes):
            return now
        earlier = GeneratedFleet(servers=self.servers // 2, phones=self.phones // 2)
        return replace(now, counted=earlier.observer.registry)


@contextmanager
def scraped_fleet(folder: Path) -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes 1,000 made-up devices."""
    fleet = BusyFleet()
    with served(fleet, folder) as exporters:
        targets = fixed_targets(exporters.controller, [exporters.agents])
        # The controller's 75,000 series take a second to read; once in five leaves time to answer.
        every = Intervals(agent_s=1.0, controller_s=5.0)
        with running_prometheus(folder, targets, exporters.token_file, every) as server:
            eventually(lambda: grown(server), "counters that grow")
            yield server


def grown(server: Prometheus) -> bool:
    told = server.query(f"sum(increase({names.RUN_SECONDS.name}_count[5m]))")
    return bool(told) and float(told[0]["value"][1]) > 0
