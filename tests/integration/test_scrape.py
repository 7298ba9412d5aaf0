"""A large fleet: the figures that docs/metrics.md promises, through the real HTTP exporter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from controller.metrics import names
from controller.metrics.rules import RECORDED
from tests.support.figures import Figure
from tests.support.generated_fleet import (
    RESULT_SERIES,
    SERVER_MOBILE,
    GeneratedFleet,
    Served,
    served,
)
from tests.support.prometheus import AT_EASE, fixed_targets, running_prometheus
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.alone]

SCRAPE_S = 1.0
SERIES = 100_000
DEVICES = 1_000
OF_DELEGATES = (names.DEVICE_CAPABILITY, names.DEVICE_DELEGATED)
"""What is beside the budget: it grows with what was tried with a delegate, not with results."""
SCRAPES = 5
"""The best counts: it is the scrape that is measured, not what else the machine does."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(GeneratedFleet(), tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


def scrape(address: str, token_file: Path) -> tuple[float, str]:
    """Return seconds and text."""
    headers = {
        "Authorization": f"Bearer {token_file.read_text()}",
        "Accept": "application/openmetrics-text;version=1.0.0",
    }
    started = time.perf_counter()
    answer = httpx.get(f"http://{address}/metrics", headers=headers, timeout=60)
    assert answer.status_code == 200
    return time.perf_counter() - started, answer.text


def test_a_thousand_devices_are_scraped_in_seconds(fleet: Served, figure: Figure) -> None:
    scrapes = [scrape(fleet.controller, fleet.token_file) for _ in range(SCRAPES)]
    text = scrapes[-1][1]
    best_s = min(seconds for seconds, _ in scrapes)
    figure("seconds of a scrape of 1,000 devices", best_s, "1")
    assert text.count("\nbenchfarm_device_info{") == DEVICES
    assert text.count("\nbenchfarm_result{") == RESULT_SERIES
    assert best_s < 10 * SCRAPE_S


def test_prometheus_holds_them_and_all_rules_in_its_budget(fleet: Served, tmp_path: Path) -> None:
    targets = fixed_targets(fleet.controller, [fleet.agents])
    with running_prometheus(tmp_path, targets, fleet.token_file, AT_EASE) as prometheus:
        for metric in (names.RUN_PROGRESS, *RECORDED):
            eventually(partial(prometheus.query, f"count({metric})"), str(metric))
        all_results = f"count({names.RESULT}) == {RESULT_SERIES}"
        eventually(partial(prometheus.query, all_results), "every result")
        of_delegates = sum(len(prometheus.query(str(metric))) for metric in OF_DELEGATES)
        assert 0 < of_delegates <= 2 * DEVICES * len(SERVER_MOBILE), "a verdict and a share each"
        every = prometheus.get("status/tsdb")["headStats"]["numSeries"]
        assert every - of_delegates < SERIES, every - of_delegates
