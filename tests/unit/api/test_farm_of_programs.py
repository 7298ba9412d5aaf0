"""The client for programs, exports as files, and a sweep's events."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller.api.contexts import FarmContext, keep_context
from controller.api.farm_client import ApiFarmClient
from controller.api.options import ApiOptions
from controller.api.reader import lines_of
from controller.async_client import AsyncFarm, AsyncResults
from controller.client import Farm, Results
from controller.contracts.errors import FarmUnavailable, NotFound, SweepInvalid, UserError
from controller.contracts.records import Scope, StoredResult
from controller.contracts.sweep import Sweep
from controller.contracts.wire import RunEvent, Submission
from controller.reports.arrow import SCHEMA, parquet_pieces
from controller.runtime.addresses import Address
from controller.runtime.client import joined
from controller.store.flat_reading import READ_AT_ONCE
from controller.store.sqlite import SqliteStore
from tests.support.api import SECRETS, Served, prepared, served
from tests.support.command_line import printed_by
from tests.support.contract_tables import contract_table
from tests.support.fake_controller import Told, telling_controller
from tests.support.figures import Figure
from tests.support.http_peer import Peer, answering
from tests.support.page_store import add_large
from tests.support.store_examples import runs_for, sweep_record

SWEEP = sweep_record(generation=2, repeats=12).sweep_id


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(prepared(tmp_path_factory.mktemp("farm") / "home")) as served_api:
        yield served_api


@pytest.fixture(scope="module")
def stored(api: Served) -> list[StoredResult]:
    with closing(SqliteStore.open_reader(api.home.store)) as reader:
        return reader.results()


@pytest.fixture
def farm(api: Served) -> Farm:
    return farm_of(api, Scope.SUBMITTER)


def farm_of(api: Served, scope: Scope = Scope.VIEWER) -> Farm:
    return Farm(FarmContext(url=api.url, token=SECRETS[scope]))


def test_results_are_the_store_s(farm: Farm, stored: list[StoredResult]) -> None:
    assert [one.run_id for one in farm.results()] == [one.run_id for one in stored]
    assert farm.results().to_list()[0].metrics == stored[0].metrics
    of_phone = farm.results(device="phone-1", tags=["paper", "g1"], knobs={"precision": "fp32"})
    expected = [one for one in stored if one.device == "phone-1" and "g1" in one.tags]
    expected = [one for one in expected if one.knobs.get("precision") == "fp32"]
    assert [one.run_id for one in of_phone] == [one.run_id for one in expected]


def test_a_table_has_a_row_for_each_metric(farm: Farm, stored: list[StoredResult]) -> None:
    table = farm.results(samples=True).to_arrow()
    assert table.schema.remove_metadata() == SCHEMA
    said = {(row["run_id"], row["attempt"], row["metric"]): row for row in table.to_pylist()}
    assert len(said) == table.num_rows == sum(len(one.metrics) for one in stored)
    for one in stored:
        for name, measured in one.metrics.items():
            row = said[one.run_id, one.attempt, name]
            assert (row["value"], row["unit"]) == (measured.value, measured.unit)
            assert tuple(row["samples"]) == measured.samples
            assert json.loads(row["knobs"]) == one.knobs
            assert json.loads(row["environment"]) == json.loads(json.dumps(one.environment))
            assert row["started_at"].timestamp() == pytest.approx(one.started_at, abs=0.001)
            assert (row["validity"], row["counted"]) == (one.validity, one.counted)
    bare = farm.results(validity="INVALID").to_arrow()
    assert set(map(len, bare["samples"].to_pylist())) == {0}
    assert set(bare["validity"].to_pylist()) == {"INVALID"}
    assert farm.results(workload="none").to_arrow().num_rows == 0


class Chunk(bytes):
    """A part of an answer that is added to the parts before, and not they to it: that would copy
    them with each part."""

    def __radd__(self, before: Any) -> Any:  # noqa: ANN401
        if isinstance(before, bytearray):
            return NotImplemented  # which grows where it is
        raise AssertionError("all that came before is copied")


def test_what_came_of_an_answer_is_not_copied_with_each_part() -> None:
    chunks = [Chunk(text) for text in (b"ab", b"c\nd", b"", b"e\n\nf", b"\n")]
    assert joined(chunks, 10) == b"abc\nde\n\nf\n"
    assert joined(chunks, 9) is None
    assert [*lines_of(chunks)] == [b"abc", b"de", b"", b"f"]
    with pytest.raises(ValueError, match="not whole"):
        [*lines_of(chunks[:2])]


def test_a_table_may_be_larger_than_any_other_answer() -> None:
    piece = bytes(2**24)
    with answering(Peer(pieces=[piece] * 17, headers={"Benchfarm-Total": "1"})) as peer:
        there = Farm(FarmContext(url=peer.url, token=SECRETS[Scope.VIEWER]))
        assert len(there.results().to_parquet()) == 17 * len(piece)
        with pytest.raises(UserError, match=r"longer than 256 MiB\. .*results export") as told:
            there.devices()
    assert "listens there" not in str(told.value)


def test_a_data_frame_needs_pandas(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pandas is not installed"):
        farm.results().to_pandas()


async def test_a_data_frame_is_the_table(farm: Farm) -> None:
    pytest.importorskip("pandas", reason="benchfarm does not depend on pandas")
    chosen = farm.results(samples=True)
    frame, table = chosen.to_pandas(), chosen.to_arrow()
    assert [*frame.columns] == SCHEMA.names
    assert frame["started_at"].dt.tz is not None
    assert [f"{dtype}" for dtype in frame[["value", "counted"]].dtypes] == ["float64", "bool"]
    for name in ("run_id", "device_name", "metric", "value", "knobs"):
        assert frame[name].tolist() == table[name].to_pylist()
    assert [*map(list, frame["samples"])] == table["samples"].to_pylist()
    waited = await AsyncFarm(farm).results(samples=True).to_pandas()
    assert waited.drop(columns="samples").equals(frame.drop(columns="samples"))


@pytest.mark.parametrize(
    "conditions", [{"colour": "red"}, {"validity": "GOOD"}, {"knobs": "{"}, {"since": "monday"}]
)
def test_a_wrong_condition_is_named(farm: Farm, conditions: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(conditions))):
        farm.results(**conditions)


def test_the_rest_of_the_farm(farm: Farm) -> None:
    assert SWEEP in [record.sweep_id for record in farm.sweeps()]
    assert sum(farm.sweep(SWEEP).tally.runs.values()) == len(farm.runs(SWEEP)) == 12
    assert [each.device.id for each in farm.devices()] == ["host-1", "phone-1"]
    assert [known.agent.id for known in farm.agents()] == ["host-1"]
    assert {one.sweep_id for one in farm.failures(sweep=SWEEP)} == {SWEEP}
    assert farm.history("phone-1")[0].why == "by hand"
    assert farm.profiles() == []
    with pytest.raises(NotFound, match="there is none with this id"):
        farm.sweep("none")
    with pytest.raises(NotFound, match="no VALID result is stored"):
        farm.compare("eager", "torch", "none")
    with pytest.raises(SweepInvalid):
        farm.submit({"name": "x"})
    with pytest.raises(FarmUnavailable):
        farm.cancel(SWEEP)


def test_a_sweep_may_say_what_is_beyond_the_basic_plane(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Sweep] = []

    def submit(_: ApiFarmClient, sweep: Sweep, *, again: bool) -> Submission:
        given.append(sweep)
        return Submission(sweep_id="x", new_runs=1, known_runs=int(again))

    monkeypatch.setattr(ApiFarmClient, "submit", submit)
    keys = sweep_record().sweep.model_dump(mode="json", exclude_unset=True)
    farm.submit({**keys, "description": "\U0001f680"})
    assert [sweep.description for sweep in given] == ["\U0001f680"]


async def test_what_is_awaited_is_the_same(farm: Farm) -> None:
    waiting = AsyncFarm(farm)
    sweeps, devices, table = await asyncio.gather(
        waiting.sweeps(), waiting.devices(), waiting.results(sweep=SWEEP).to_arrow()
    )
    assert (sweeps, devices) == (farm.sweeps(), farm.devices())
    assert table.equals(farm.results(sweep=SWEEP).to_arrow())


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_what_cannot_be_awaited_is_known(farm: Farm) -> None:
    assert public(Farm) - public(AsyncFarm) == {"context", "connection", "reader"}
    assert public(AsyncFarm) - public(Farm) == {"farm"}
    assert public(Results) - public(AsyncResults) == {"farm", "wanted", "samples"}
    assert "`reader`" in (AsyncFarm.__doc__ or "")


async def test_results_are_awaited_one_by_one_and_as_a_file(farm: Farm) -> None:
    waiting = AsyncFarm(farm).results(sweep=SWEEP)
    assert [one async for one in waiting] == farm.results(sweep=SWEEP).to_list()
    assert await waiting.to_parquet() == farm.results(sweep=SWEEP).to_parquet()


def test_a_context_names_the_farm(
    api: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("BENCHFARM_CONTEXT", "lab")
    keep_context("lab", farm_of(api).context, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert Farm.of_context() == Farm.of_context("lab") == farm_of(api)
    assert SECRETS[Scope.VIEWER] not in repr(Farm.of_context())


def test_a_farm_is_reached_over_ipv6(api: Served) -> None:
    address = Address.to_listen("--listen", "[::1]:8443")
    assert (address.host, address.port, str(address)) == ("::1", 8443, "[::1]:8443")
    with served(api.home, ApiOptions(address.host, 0)) as there:
        assert there.url.startswith("http://[::1]:")
        assert farm_of(there).sweeps() == farm_of(api).sweeps()


@pytest.mark.parametrize("text", ["[::]:1", "[::1]", "[::1]:0", "[1.2.3.4]:5", "[fe80]:5", "::1:5"])
def test_what_is_no_address_to_listen_on_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--listen"):
        Address.to_listen("--listen", text)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_results_are_exported(
    api: Served, tmp_path: Path, stored: list[StoredResult], form: str
) -> None:
    file = tmp_path / "out"
    said = printed_by(api.home.path, "results", "export", str(file), "--format", form)
    assert f"{len(stored)} results written" in said
    if form == "jsonl":
        lines = file.read_text().splitlines()
        assert lines == [one.model_dump_json() for one in stored]
    else:
        assert pq.read_table(file).equals(contract_table(stored))


def test_a_file_of_no_results_is_one() -> None:
    assert pq.read_table(pa.BufferReader(b"".join(parquet_pieces([])))).schema == SCHEMA


EVENT = RunEvent.of(runs_for(sweep_record())[0])


def test_events_come_as_the_controller_tells_them(api: Served) -> None:
    with telling_controller(api.home, [EVENT, None, EVENT]) as told:
        assert [*farm_of(api).events(SWEEP)] == [EVENT, EVENT]
        assert told == Told(path=f"/v1/sweeps/{SWEEP}/events", asked=1)
        answer = api.get(f"/sweeps/{SWEEP}/events")
        assert answer.headers["Content-Type"] == "text/event-stream"
        data = f"event: run\ndata: {EVENT.model_dump_json()}\n\n"
        assert answer.text == f"{data}: nothing new\n\n{data}"
        assert api.get("/sweeps/none/events").status_code == 404
        assert told.asked == 2
    assert api.get(f"/sweeps/{SWEEP}/events").status_code == 503


async def test_events_are_awaited(api: Served) -> None:
    with telling_controller(api.home, [EVENT, None, EVENT]):
        waiting = AsyncFarm(farm_of(api))
        assert [event async for event in waiting.events(SWEEP)] == [EVENT, EVENT]
        async for event in waiting.events(SWEEP):
            assert event == EVENT
            break  # its thread ends by itself
    with pytest.raises(FarmUnavailable):
        await anext(waiting.events(SWEEP))


async def test_events_that_nobody_awaits_any_more_hold_up_no_other_call(api: Served) -> None:
    beat = f"data: {EVENT.model_dump_json()}\n\n".encode()
    with answering(Peer(pieces=[beat], silent=True)) as peer:
        waiting = AsyncFarm(Farm(FarmContext(url=peer.url, token=SECRETS[Scope.VIEWER])))
        for _ in range(40):  # more than asyncio has threads
            events = waiting.events(SWEEP)
            assert await anext(events) == EVENT
            following = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            following.cancel()
            with pytest.raises(asyncio.CancelledError):
                await following
        assert await AsyncFarm(farm_of(api)).sweeps() == farm_of(api).sweeps()


MANY, SOME = 100_000, 2100
"""Results of which `make bench` tells the figures, and those that other runs look at."""


def test_all_results_as_parquet(
    tmp_path: Path, figure: Figure, pytestconfig: pytest.Config
) -> None:
    """They are read page by page, and there are as many as were stored."""
    many = MANY if pytestconfig.getoption("figures") else SOME
    home = prepared(tmp_path / "home", sweeps=0)
    add_large(home, many, devices=4)
    with served(home) as api, httpx.Client() as client:
        headers = {"Authorization": f"Bearer {SECRETS[Scope.VIEWER]}"}
        seconds = {}
        for path in ("results?validity=VALID&limit=200", "results/export?format=parquet"):
            with client.stream(
                "GET", f"{api.url}/api/v1/{path}", headers=headers, timeout=None
            ) as answer:
                content = b"".join(answer.iter_raw())
                assert answer.status_code == 200
            seconds[path] = answer.elapsed.total_seconds()
    page, parquet = seconds.values()
    figure(f"API: a filtered page of {many} results, s", page, "0.2")
    figure(f"API: {many} results as Parquet, s", parquet, "5")
    assert pq.read_table(pa.BufferReader(content)).num_rows >= many
    assert many > READ_AT_ONCE
