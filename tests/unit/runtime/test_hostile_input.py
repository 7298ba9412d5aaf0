"""Malformed and hostile inputs: each is refused with one line, none is run, none breaks the farm.

They come in where they would: bodies and raw requests to the real HTTP interface, sweep files to
the parser, registrations, questions, reports and progress as JSON to the contracts and then to the
farm, and what a phone says of itself to the code that describes it.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError
from yarl import URL

from agents.remotes.adb.facts import device_of, parse_properties
from controller.contracts.device import Registration
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import BenchfarmError, SweepInvalid, UserError
from controller.contracts.sweep_file import parse_sweep
from controller.contracts.wire import Exchange, Report, RunProgress
from controller.metrics.families import gauge_text
from controller.metrics.farm_metrics import FarmMetrics
from controller.runtime.access import Access
from controller.runtime.api import ApiOptions, serve_api, url_of
from controller.runtime.feed import Feed
from controller.scheduling.expansion import cells_of
from tests.support import builders
from tests.support.farm import FarmBox
from tests.support.hostile_inputs import HOSTILE, Case, corpus

STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn")


@dataclass(frozen=True, slots=True)
class Doors:
    """All ways into one farm."""

    box: FarmBox
    url: str

    async def refusal(self, case: Case) -> str:
        """Return what is said to an input; raises AssertionError if it is let in."""
        if case.door in ("submit", "http"):
            return await self._posted(case.path or "/v1/sweeps", case.body)
        if case.door == "raw":
            return await self._raw(case.body)
        return refused_by(self._local(case.door), case)

    async def _posted(self, path: str, body: bytes) -> str:
        headers = {"Authorization": "Bearer 0123"}
        url = URL(self.url + path, encoded=True)
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(url, data=io.BytesIO(body)) as answer,
        ):
            assert answer.status == 400, await answer.text()
            return str(ErrorPayload.model_validate_json(await answer.read()).error())

    async def _raw(self, request: bytes) -> str:
        host, port = self.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        writer.write_eof()
        said = b""
        # Reset: it is closed with a part of the request unread.
        with suppress(ConnectionResetError):
            said = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        with suppress(ConnectionResetError):
            await writer.wait_closed()
        first = said.partition(b"\r\n")[0].decode()
        assert not said or first.split()[1] in ("400", "401", "404"), first
        return first or "the connection is closed"

    def _local(self, door: str) -> Callable[[Case], object]:
        farm = self.box.farm
        return {
            "register": lambda c: farm.register(Registration.model_validate_json(c.body)),
            "report": lambda c: farm.report(Report.model_validate_json(c.body)),
            "exchange": lambda c: farm.exchange(Exchange.model_validate_json(c.body)),
            "progress": lambda c: farm.progress(RunProgress.model_validate_json(c.body)),
            "file": lambda c: cells_of(parse_sweep(c.body, "a file"), builders.catalog(), "a file"),
            "phone": lambda c: device_of(
                parse_properties(c.body.decode()), c.path or "0-7", "", shell_v2=True
            ),
        }[door]


def refused_by(door: Callable[[Case], object], case: Case) -> str:
    """Return the words of the typed error that a door raises, as whoever reports it shows them."""
    try:
        let_in = door(case)
    except UserError as error:
        return str(ErrorPayload.of(error).error())
    except BenchfarmError as error:
        return str(error)
    except ValidationError as error:
        return " ".join(str(error.errors()[0]["msg"])[:200].split())
    except ValueError as error:  # what the describing of a phone raises
        return " ".join(str(error).split())
    raise AssertionError(f"it was let in: {let_in!r:.200}")


@asynccontextmanager
async def doors(folder: Path) -> AsyncIterator[Doors]:
    box = FarmBox(folder / "store.sqlite")
    box.farm.register(builders.registration())
    access = Access(box.store, "0123", box.clock)
    options = ApiOptions(access=access, metrics_token="4567", port=0)
    runner = await serve_api(box.farm, Feed(), list, options)
    try:
        yield Doors(box, url_of(runner))
    finally:
        await runner.cleanup()
        box.close()


async def test_each_is_refused_with_one_line_and_nothing_is_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    canary = tmp_path / "canary"
    cases = list(corpus(canary))
    assert len({(c.door, c.name) for c in cases}) == len(cases) >= 200
    started: list[str] = []
    watching = True
    sys.addaudithook(
        lambda event, _: started.append(event) if watching and event in STARTING else None
    )
    async with doors(tmp_path) as inside:
        before = inside.box.farm.state()
        for case in cases:
            said = await inside.refusal(case)
            assert said, case
            assert len(said.splitlines()) == 1, (case.door, case.name, said)
            assert len(said) < 13_000, (case.door, case.name)
        assert started == []
        assert not canary.exists()
        after = inside.box.farm.state()
        assert (after.agents, after.devices, after.open_runs) == (
            *(before.agents, before.devices, before.open_runs),
        )
        assert_it_works(inside.box)
    watching = False
    crashes = [e for record in caplog.records if record.exc_info and (e := record.exc_info[1])]
    assert [e for e in crashes if not isinstance(e, HttpProcessingError)] == [], "nothing crashed"


def assert_it_works(box: FarmBox) -> None:
    """See that a sweep runs to its end and a scrape can be read."""
    box.submit(builders.sweep())
    (job,) = box.ask().run
    box.report(job.ref, builders.result())
    catalog = builders.catalog()
    metrics = FarmMetrics(catalog, box.store.newest_results(catalog))
    text = gauge_text(metrics.expose(box.farm.state()).gauges)
    assert len(list(text_string_to_metric_families(text))) > 10


@pytest.mark.parametrize("text", [t for t in HOSTILE.values() if t])
def test_what_a_phone_says_of_itself_is_shown_on_one_line(text: str) -> None:
    said = f"[ro.serialno]: [good]\n[ro.product.model]: [{text}]\n[ro.soc.model]: [x]\n"
    device = device_of(parse_properties(said), "0-7", "", shell_v2=True)
    model = str(device.facts["model"])
    assert device.facts["soc"] == "x"
    assert model.isprintable()
    assert len(model) <= 200


def test_a_complaint_over_http_is_short() -> None:
    error = SweepInvalid("a\nb", "x" * 100_000, "")
    assert len(str(ErrorPayload.of(error).error())) < 5000
