"""Every route over HTTP: what it returns, its filters, its ETags and its refusals."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.api.routes import PREFIX, READS, WRITES
from controller.contracts.device import RegisteredDevice
from controller.contracts.records import Scope
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore
from tests.support.api import Described, Served, prepared, served
from tests.support.store_examples import AGENT, CPU, runs_for, sweep_record

HOSTILE_TEXTS = (
    "</script><img src=x onerror=alert(1)>",
    '"}], "next": null, "x": [{"a": "',
    "'; DROP TABLE results; --",
    "$(reboot) `reboot` {0.__class__} %s%n",
    "\u202etxt.exe \u2028 \ufeff",
    "\\u0000 \\",
    "=cmd|' /C calc'!A0",
    "../../etc/passwd",
)
RECORD = sweep_record(generation=2, repeats=12)
SWEEP = RECORD.sweep_id


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(prepared(tmp_path_factory.mktemp("api") / "home")) as served_api:
        yield served_api


@pytest.fixture
def store(api: Served) -> Iterator[SqliteReader]:
    with closing(SqliteStore.open_reader(api.home.store)) as reader:
        yield reader


def test_results_are_those_of_the_store_with_samples_where_asked(
    api: Served, store: SqliteReader
) -> None:
    listed = api.every("/results", limit=5, samples="true")
    expected = [json.loads(one.model_dump_json()) for one in store.results()]
    assert listed == expected
    bare = api.every("/results", limit=200)
    assert [one["run_id"] for one in bare] == [one["run_id"] for one in expected]
    assert {tuple(m["samples"]) for one in bare for m in one["metrics"].values()} == {()}
    assert any(m["samples"] for one in expected for m in one["metrics"].values())


@pytest.mark.parametrize(
    ("params", "count"),
    [
        ({"sweep": SWEEP}, 9),
        ({"workload": "retinanet"}, 36),
        ({"workload": "retina"}, 0),
        ({"stack": "eager"}, 36),
        ({"stack": "Eager"}, 0),
        ({"device": "phone-1"}, 12),
        ({"scenario": "training"}, 36),
        ({"scenario": "offline"}, 0),
        ({"validity": "INVALID"}, 4),
        ({"virtual": "true"}, 12),
        ({"virtual": "false", "sweep": SWEEP}, 6),
        ({"sweep": f"{SWEEP}%"}, 0),
    ],
)
def test_filters_of_results(api: Served, params: dict[str, str], count: int) -> None:
    found = api.every("/results", **params)
    assert len(found) == count
    for one in found:
        said = {**one, "sweep": one["sweep_id"], "virtual": str(one["virtual"]).lower()}
        assert params.items() <= said.items()


@pytest.mark.parametrize("sort", ["stored", "-stored", "started", "-started"])
def test_results_have_an_order(api: Served, store: SqliteReader, sort: str) -> None:
    listed = [one["run_id"] for one in api.every("/results", sort=sort, limit=7)]
    by_store = store.results()
    if sort.endswith("started"):
        by_store.sort(key=lambda one: one.started_at)
    expected = [one.run_id for one in by_store]
    if sort.startswith("-"):
        expected.reverse()
    if sort.endswith("stored"):
        assert listed == expected
    else:  # of those that began together, the earlier stored one is first
        assert set(listed) == set(expected)
        starts = [one["started_at"] for one in api.every("/results", sort=sort)]
        assert starts == sorted(starts, reverse=sort.startswith("-"))


def test_sweeps_runs_and_attempts(api: Served, store: SqliteReader) -> None:
    sweeps = api.every("/sweeps", limit=3)
    assert [one["sweep_id"] for one in sweeps] == sorted(r.sweep_id for r in store.sweeps())
    newest = api.every("/sweeps", sort="-submitted")
    assert newest == sweeps[::-1]
    assert api.every("/sweeps", name="demo", user="admin") == sweeps
    assert api.every("/sweeps", user="eve") == []
    detail = api.get(f"/sweeps/{SWEEP}").json()
    assert detail["record"]["sweep_id"] == SWEEP
    assert sum(detail["tally"]["runs"].values()) == 12
    assert "paper" in detail["tags"]
    assert [note["text"] for note in detail["notes"]] == ["=1+1 <b>törö</b>"]
    runs = api.every("/runs", sweep=SWEEP, limit=5)
    assert [run["position"] for run in runs] == list(range(12))
    states = {state: len(api.every("/runs", sweep=SWEEP, state=state)) for state in ("done",)}
    assert states == {"done": sum(run["state"] == "done" for run in runs)}
    assert api.every("/runs", sweep=SWEEP, stack="ipex") == []
    tried = max(runs, key=lambda run: len(run["attempts"]))
    assert len(tried["attempts"]) == 2
    assert api.get(f"/runs/{tried['run_id']}").json() == tried
    assert api.every(f"/runs/{tried['run_id']}/attempts", limit=1) == tried["attempts"]


def test_devices_and_agents_are_lost_while_the_farm_is_down(api: Served) -> None:
    devices = api.every("/devices", limit=1)
    assert [each["device"]["id"] for each in devices] == ["host-1", "phone-1"]
    assert {each["state"] for each in devices} <= {"lost", "quarantined"}
    assert [e["device"]["id"] for e in api.every("/devices", virtual="true")] == ["phone-1"]
    assert [e["device"]["id"] for e in api.every("/devices", kind="cpu_host")] == ["host-1"]
    assert api.every("/devices", state="ready") == []
    assert [each["agent"]["id"] for each in api.every("/agents")] == ["host-1"]
    assert api.every("/agents", online="true") == []


def test_an_answer_that_the_caller_has_is_not_sent_again(api: Served) -> None:
    first = api.get("/results", params={"limit": 3})
    tag = first.headers["ETag"]
    assert tag.startswith('"')
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = api.get("/results", params={"limit": 3}, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == tag
    for other in ('"other"', tag.strip('"'), ""):
        again = api.get("/results", params={"limit": 3}, headers={"If-None-Match": other})
        assert (again.status_code, again.content) == (200, first.content)
    assert api.get("/results", params={"limit": 2}).headers["ETag"] != tag


def test_a_tag_changes_with_what_is_stored(tmp_path: Path) -> None:
    with served(prepared(tmp_path / "home", sweeps=1)) as api:
        tag = api.get("/sweeps").headers["ETag"]
        with closing(SqliteStore.open(api.home.store)) as store:
            record = sweep_record("another")
            store.add_sweep(record, runs_for(record))
        again = api.get("/sweeps", headers={"If-None-Match": tag})
        assert again.status_code == 200
        assert again.headers["ETag"] != tag


@pytest.mark.parametrize(
    ("path", "params", "said"),
    [
        ("/results", {"validity": "valid"}, "validity"),
        ("/results", {"virtual": "perhaps"}, "virtual"),
        ("/results", {"sort": "value"}, "sort"),
        ("/results", {"limit": "0"}, "limit"),
        ("/results", {"limit": "201"}, "limit"),
        ("/results", {"cursor": "x"}, "cursor"),
        ("/results", {"device": "x" * 201}, "device"),
        ("/results", {"user": "ann"}, "user"),
        ("/took", {}, "workload"),
        ("/sweeps/x", {"limit": "1"}, "limit"),
        ("/openapi.json", {"format": "yaml"}, "format"),
    ],
)
def test_a_wrong_parameter_is_named(
    api: Served, path: str, params: dict[str, str], said: str
) -> None:
    answer = api.get(path, params=params)
    assert answer.status_code == 422
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    body = answer.json()
    assert body["type"] == "urn:benchfarm:problem:invalid-request"
    assert f"use parameter '{said}'" in body["detail"]
    assert body["remedy"]


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("/devices/host-1/history", "/devices/phone-1/history"),
        (
            f"/runs/{runs_for(RECORD)[0].run_id}/artefacts",
            f"/runs/{runs_for(RECORD)[1].run_id}/artefacts",
        ),
    ],
)
def test_a_cursor_of_another_item_s_list_is_refused(api: Served, path: str, other: str) -> None:
    params = {"limit": "1", "cursor": api.get(path, params={"limit": "1"}).json()["next"]}
    assert api.get(path, params=params).status_code == 200
    refused = api.get(other, params=params)
    assert refused.status_code == 422
    assert "it belongs to another list" in refused.json()["detail"]


def test_the_list_of_a_run_s_attempts_goes_on_only_in_its_own(api: Served) -> None:
    with closing(SqliteStore.open_reader(api.home.store)) as store:
        retried = [run.run_id for run in store.runs() if len(run.attempts) > 1]
    first, second = (f"/runs/{run_id}/attempts" for run_id in retried[:2])
    params = {"limit": "1", "cursor": api.get(first, params={"limit": "1"}).json()["next"]}
    assert [one["number"] for one in api.get(first, params=params).json()["items"]] == [2]
    assert api.get(second, params=params).status_code == 422


def test_a_parameter_that_is_given_twice_is_refused(api: Served) -> None:
    answer = api.get("/results?device=a&device=b")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "cannot use parameter 'device': it is given twice",
    )


@pytest.mark.parametrize(
    "path",
    ["/sweeps/none", f"/sweeps/{SWEEP[:-1]}", "/runs/none", "/runs/none/attempts", "/x", "/"],
)
def test_what_there_is_not_is_a_problem(api: Served, path: str) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:benchfarm:problem:not-found")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS"])
def test_another_method_is_a_problem(api: Served, method: str) -> None:
    answer = api.ask(method, "/sweeps", Scope.VIEWER)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, POST"


def test_the_description_has_every_route_and_valid_schemas(api: Served) -> None:
    described = api.get("/openapi.json").json()
    assert described == Described().document
    routes = {(f"{PREFIX}{route.path}", "get") for route in READS}
    routes |= {(f"{PREFIX}{route.path}", route.method.lower()) for route in WRITES}
    assert routes < {(path, verb) for path, found in described["paths"].items() for verb in found}
    names = [o["operationId"] for found in described["paths"].values() for o in found.values()]
    assert len(set(names)) == len(names)
    text = json.dumps(described)
    for part in text.split('"$ref": "')[1:]:
        name = part.partition('"')[0].removeprefix("#/components/schemas/")
        assert name in described["components"]["schemas"]


def test_hostile_names_are_json_strings_and_nothing_else(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=0)
    labels = {f"l{number}": text for number, text in enumerate(HOSTILE_TEXTS)}
    device = CPU.device.model_copy(update={"labels": labels})
    with closing(SqliteStore.open(home.store)) as store:
        store.save_agent(AGENT, [RegisteredDevice(**{**dict(CPU), "device": device})])
    with served(home) as api:
        answer = api.get("/devices")
        (listed,) = answer.json()["items"]
        assert listed["device"]["labels"] == labels
        assert answer.headers["Content-Type"].startswith("application/json")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert Described().objection("GET", "/devices", answer) == ""


def test_damaged_results_are_left_out_and_counted(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    with closing(sqlite3.connect(home.store)) as connection, connection:
        connection.execute(
            "UPDATE measurements SET value = value + 1 WHERE run_id IN"
            " (SELECT run_id FROM outcomes WHERE type = 'result' LIMIT 2)"
        )
    with served(home) as api:
        page = api.get("/results", params={"limit": 200}).json()
        assert (len(page["items"]), page["left_out"], page["next"]) == (7, 2, None)
        assert len(api.every("/results", limit=1)) == 7
