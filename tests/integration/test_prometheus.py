"""A real farm, watched by a real Prometheus that scrapes every second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from controller.cli.demo_metrics import stored_results, stored_values, values_of
from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceState
from controller.contracts.run import RunState
from controller.metrics import names
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.prometheus_config import http_discovery
from controller.runtime.prometheus import Prometheus
from controller.store.sqlite import SqliteStore
from tests.integration.farm import TestFarm, endless_sweep, short_sweep
from tests.support.figures import Figure
from tests.support.prometheus import EVERY_SECOND, running_prometheus
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm]

LIVE = (names.RUN_PROGRESS, names.RUN_STEPS, names.RUN_LOSS)
"""What there is of a run only while it lives."""
GONE = f'absent({{__name__=~"{"|".join(metric.name for metric in LIVE)}"}})'
AGE_S = 5.0
"""How old a live value is at most when Prometheus takes it, on a quiet machine."""
GONE_S = EVERY_SECOND.agent_s + 1.0
"""How long it shows a run that has ended: a scrape, and what one is late beside training."""


@pytest.fixture(scope="module")
def prometheus(farm: TestFarm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    discovery = http_discovery(farm.home.endpoint().url + TARGETS_PATH, farm.home.metrics_token)
    folder = tmp_path_factory.mktemp("prometheus")
    with running_prometheus(folder, discovery, farm.home.metrics_token) as prometheus:
        up = 'count(up{job=~"benchfarm-.*"} == 1) == 2'
        eventually(partial(prometheus.query, up), "controller and agent scraped")
        yield prometheus


def raw(prometheus: Prometheus, metric: names.Metric) -> list[tuple[float, float]]:
    """Return the samples of a metric's only series, if any: when scraped, and what."""
    found = prometheus.query(f"{metric}[5m]")
    assert len(found) <= 1
    return [(float(at), float(value)) for series in found for at, value in series["values"]]


def test_a_live_run_changes_while_it_lives_and_is_gone_after_it(
    farm: TestFarm, prometheus: Prometheus, figure: Figure
) -> None:
    sweep_id = farm.submit(endless_sweep("watched"))
    told = []
    with farm.events(sweep_id) as events:
        for event in events:
            if event.progress:
                told.append((time.time(), event.progress.done / event.progress.total))
            assert not event.state.terminal, "it ended by itself"
            if all(len({value for _, value in raw(prometheus, metric)}) >= 3 for metric in LIVE):
                break
        # One that was already gone would be asked for in vain, too: its samples come first.
        progress = raw(prometheus, names.RUN_PROGRESS)
        farm.cli("sweep", "cancel", sweep_id)
        ended = next(time.time() for event in events if event.state is RunState.CANCELLED)

    # For how long a greater one had been known. Of all that had, each sample counts.
    ages = [at - heard for at, value in progress for heard, done in told if done > value]
    oldest_s = max([0.0, *ages])
    figure("age in seconds of a live value in Prometheus", oldest_s, "5")
    assert oldest_s < 10 * AGE_S
    eventually(partial(prometheus.query, GONE), "it is gone")
    shown = prometheus.query_range(names.RUN_PROGRESS.name, ended, time.time(), 0.1)
    last = max((float(at) for s in shown for at, _ in s["values"]), default=ended)
    figure("seconds that Prometheus shows a run that has ended", last - ended, "2")
    assert last - ended < 10 * GONE_S


def test_what_a_run_leaves_is_what_the_store_has(farm: TestFarm, prometheus: Prometheus) -> None:
    sweep_id = farm.submit(short_sweep("counted"))
    assert farm.cli("sweep", "watch", sweep_id).status == 0
    (run,) = farm.runs(sweep_id)
    device = run.attempts[-1].device_id
    store = SqliteStore.open_reader(farm.home.store)
    catalog = load_catalog()
    newest = stored_results(store, catalog)
    store.close()
    stored = stored_values(newest, catalog)

    assert any(result.device == device for result in newest)
    eventually(partial(prometheus.query, GONE), "nothing of its life")
    eventually(
        lambda: values_of(prometheus.query(names.RESULT.name)) == stored, "results as stored"
    )
    ready = f'{names.DEVICE_STATE}{{device="{device}", state="{DeviceState.READY}"}} == 1'
    eventually(partial(prometheus.query, ready), "the device is ready again")
    met_rules = f'{names.RUNS}{{outcome=~"valid|disturbed"}} > 0'
    assert prometheus.query(met_rules)
    exemplars = {
        "query": f"{names.RUN_SECONDS}_bucket",
        "start": time.time() - 300,
        "end": time.time(),
    }
    named = {
        exemplar["labels"]["run_id"]
        for series in prometheus.get("query_exemplars", exemplars)
        for exemplar in series["exemplars"]
    }
    assert run.run_id in named


def test_series_go_on_under_a_name_of_their_own(farm: TestFarm, prometheus: Prometheus) -> None:
    (listed,) = farm.cli("agent", "list", "--json").json
    targets = {t["labels"]["instance"] for t in prometheus.get("targets")["activeTargets"]}
    assert targets == {"controller", listed["agent"]["id"]}


def test_no_exporter_tells_anything_without_the_token(
    farm: TestFarm, prometheus: Prometheus
) -> None:
    urls = [t["scrapeUrl"] for t in prometheus.get("targets")["activeTargets"]]
    assert len(urls) == 2
    for url in urls:
        assert url.startswith("http://127.0.0.1:")
        answer = httpx.get(url, trust_env=False)
        assert (answer.status_code, "benchfarm_" in answer.text) == (401, False)
