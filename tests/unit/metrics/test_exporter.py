from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from controller.contracts.errors import UserError
from controller.metrics import names
from controller.metrics.exporter import (
    LOOPBACK,
    Exposition,
    address_of,
    listening,
    serve_metrics,
)
from controller.metrics.families import Gauge, counter
from tests.support.exposition import openmetrics, plain

TOKEN = "0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
# What Prometheus 2.42 says.
PROMETHEUS_ACCEPTS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


class Exposed:
    """Something to export that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.registry = CollectorRegistry()
        runs = counter(names.RUNS, self.registry)
        runs.labels("valid", "none").inc(exemplar={"run_id": "run-1"})

    def __call__(self) -> Exposition:
        self.asked += 1
        return Exposition([Gauge(names.RUNS_QUEUED, [((), self.asked)])], self.registry)


@asynccontextmanager
async def exporter(exposed: Exposed) -> AsyncIterator[str]:
    listener = listening(LOOPBACK)
    runner = await serve_metrics(listener, TOKEN, exposed)
    yield f"http://{address_of(listener)}/metrics"
    await runner.cleanup()


async def get(url: str, headers: dict[str, str]) -> tuple[int, str, str]:
    """Return status, content type and text."""
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_prometheus_gets_openmetrics_with_exemplars() -> None:
    async with exporter(Exposed()) as url:
        status, content_type, text = await get(url, BEARER | {"Accept": PROMETHEUS_ACCEPTS})
    assert status == 200
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    found = {f.name: f for f in openmetrics(text)}
    assert found["benchfarm_runs_queued"].samples[0].value == 1
    (counted,) = found["benchfarm_runs"].samples
    assert counted.exemplar
    assert counted.exemplar.labels == {"run_id": "run-1"}


async def test_others_get_plain_text() -> None:
    async with exporter(Exposed()) as url:
        status, content_type, text = await get(url, BEARER)
    assert status == 200
    assert content_type.startswith("text/plain; version=0.0.4")
    assert {f.name for f in plain(text)} == {"benchfarm_runs_queued", "benchfarm_runs"}
    assert "run-1" not in text


@pytest.mark.parametrize(
    "given", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}], ids=str
)
async def test_without_the_token_nothing_is_told_or_collected(given: dict[str, str]) -> None:
    exposed = Exposed()
    async with exporter(exposed) as url:
        status, _, text = await get(url, given)
    assert status == 401
    assert "benchfarm_" not in text
    assert exposed.asked == 0


async def test_each_scrape_shows_how_things_stand_then() -> None:
    async with exporter(Exposed()) as url:
        first, second = [await get(url, BEARER) for _ in range(2)]
    assert "benchfarm_runs_queued 1.0" in first[2]
    assert "benchfarm_runs_queued 2.0" in second[2]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "203.0.113.1", "somewhere", ""])
def test_an_address_that_is_not_this_hosts_is_one_clear_line(address: str) -> None:
    with pytest.raises(UserError) as raised:
        listening(address)
    assert raised.value.tried == f"use --metrics-address {address}"
    assert "\n" not in str(raised.value)


def test_an_ipv6_address_is_written_as_urls_have_it() -> None:
    with listening("::1") as listener:
        assert address_of(listener) == f"[::1]:{listener.getsockname()[1]}"
