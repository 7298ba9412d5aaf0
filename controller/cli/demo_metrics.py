"""The demo looks at its own metrics: through Prometheus, and beside the store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from controller.cli.common import home, reading_here
from controller.contracts.catalog import Catalog, load_catalog
from controller.metrics.collector import Results, figures_of, of_devices
from controller.metrics.names import RESULT, RUN_PROGRESS, RUN_QUERIES, RUN_STEPS
from controller.metrics.newest import NewestResults
from controller.metrics.prometheus_config import Intervals
from controller.platform.terminal import say
from controller.runtime.prometheus import (
    Prometheus,
    PrometheusUnavailable,
    Series,
    running_beside,
    start_beside,
)
from controller.store.protocol import StoreReader

PATIENCE_S = 30.0
"""For Prometheus's next scrape of the controller; on a farm that was up it may be 15 s away."""
RETRY_S = 0.2
Values = Mapping[tuple[str, ...], float]
"""Results by device, workload, stack, scenario, precision, work and metric."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A Prometheus that looks on, since a time in seconds since the epoch."""

    server: Prometheus
    since: float


def begin(stack: ExitStack) -> Watch | None:
    """Have Prometheus look on until the stack is left; None, and said why, where it can't."""
    server = running_beside(home())
    if server is None:
        try:
            started = start_beside(home(), Intervals(agent_s=1.0, controller_s=1.0))
        except PrometheusUnavailable as error:
            say(f"no Prometheus in this demo: {error}", err=True)
            return None
        stack.callback(home().prometheus_url.unlink, missing_ok=True)
        stack.callback(started.stop)
        server = started.server
    say(f"Prometheus is at {server.url}")
    return Watch(server, time.time())


def conclude(watch: Watch) -> int:
    """Say what Prometheus has seen; 1 if it is not what happened, else 0."""
    live = {
        metric: watch.server.query_range(metric.name, watch.since, time.time())
        for metric in (RUN_PROGRESS, RUN_STEPS, RUN_QUERIES)
    }
    changed = sum(changes(series) for series in live[RUN_PROGRESS])
    rates = " and ".join(
        f"{span(live[metric])} {unit}"
        for metric, unit in ((RUN_STEPS, "training steps/s"), (RUN_QUERIES, "queries/s"))
        if live[metric]
    )
    results = _await_results(watch.server)
    if not changed or results is None:
        missing = "newest results as stored" if changed else "a live series that changed"
        say(f"Prometheus never saw {missing}", err=True)
        return 1
    devices = len({labels[0] for labels in results})
    say(f"Prometheus saw {changed} live series change, {rates}; gone with their runs")
    say(f"Prometheus shows {len(results)} newest values of {devices} devices, as stored")
    return 0


def changes(series: Series) -> bool:
    """Return whether a series took more than one value."""
    return len({value for _, value in series["values"]}) > 1


def span(found: Iterable[Series]) -> str:
    """Return the least and the greatest value of some series."""
    values = [float(value) for series in found for _, value in series["values"]]
    return f"{min(values):.4g} … {max(values):.4g}"


def values_of(found: Sequence[Series]) -> Values:
    """Return results as Prometheus shows them."""
    return {
        tuple(series["metric"][label] for label in RESULT.labels): float(series["value"][1])
        for series in found
    }


def stored_results(store: StoreReader, catalog: Catalog) -> Results:
    """Return the newest results of the store, as they are exported."""
    devices = {known.device.id: known.device for known in store.fleet()[1]}
    newest = NewestResults(catalog, store.newest_results(catalog))
    return of_devices(newest.snapshot(), devices)


def stored_values(results: Results, catalog: Catalog) -> Values:
    """Return results as Prometheus should show them."""
    return {tuple(labels): value for labels, value in figures_of(results, catalog)}


def _await_results(server: Prometheus) -> Values | None:
    """Return the newest results once Prometheus shows those stored and no run that is over."""
    catalog, give_up = load_catalog(), time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        with reading_here() as store:
            newest = stored_results(store, catalog)
            stored = stored_values(newest, catalog)
            leases = [run.lease for run in store.runs(open_only=True) if run.lease]
            busy = {device_id for lease in leases for device_id in lease.device_ids}
        live = {series["metric"]["device"] for series in server.query(RUN_PROGRESS.name)}
        if live <= busy and newest and values_of(server.query(RESULT.name)) == stored:
            return stored
        time.sleep(RETRY_S)
    return None
