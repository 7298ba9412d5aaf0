"""A farm over its API is what it is on the head: each read, and what each verb prints."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.api.contexts import FarmContext, keep_context
from controller.api.farm_client import asked_for
from controller.api.reader import ApiReader
from controller.api.route_kinds import TOTAL, WriteRoute
from controller.api.routes import CONTENT, EVENTS, EXPORTS, READS, WRITES
from controller.cli.common import reading
from controller.contracts.base import Contract
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter
from controller.contracts.records import Scope
from controller.contracts.result import Validity
from controller.store.protocol import FarmReader
from controller.store.sqlite import SqliteStore
from tests.support.api import REVOKED, SECRETS, Served, prepared, served
from tests.support.artefacts import TRACE
from tests.support.command_line import complaint_of, printed_by
from tests.support.sample_store import CELL
from tests.support.store_examples import runs_for, sweep_record

RECORD = sweep_record(generation=2, repeats=12)
SWEEP = RECORD.sweep_id
RUN = runs_for(RECORD)[0].run_id
SHA256 = hashlib.sha256(TRACE).hexdigest()
FILTERS = (
    OutcomeFilter(),
    OutcomeFilter(sweep_id=SWEEP, device="phone-1"),
    OutcomeFilter(tags=frozenset({"g1", "paper"}), virtual=False),
    OutcomeFilter(tags=frozenset({"none"})),
    OutcomeFilter(cell=CellFilter(workload="retinanet", stack="eager", scenario="training")),
    OutcomeFilter(cell=CellFilter(knobs={"precision": "fp32"})),
    OutcomeFilter(cell=CellFilter(knobs={"precision": 'x"\\u0000é,='})),
    OutcomeFilter(validity=Validity.INVALID),
    OutcomeFilter(since=2300.25, until=2700.5),
)
READ: dict[str, Callable[[FarmReader], object]] = {
    "sweeps": lambda farm: farm.sweeps(),
    "annotations": lambda farm: farm.annotations(),
    "annotations of one": lambda farm: farm.annotations(SWEEP),
    "runs": lambda farm: farm.runs(),
    "runs of one": lambda farm: farm.runs(SWEEP),
    "open runs": lambda farm: farm.runs(open_only=True),
    "a run": lambda farm: [farm.run(RUN), farm.run("none"), farm.run("a/b")],
    "tally": lambda farm: farm.tally(SWEEP),
    "results": lambda farm: farm.results(),
    "results of one": lambda farm: farm.results(SWEEP),
    "failures": lambda farm: farm.failures(),
    "failures of one": lambda farm: farm.failures(SWEEP),
    "fleet": lambda farm: [*farm.fleet()],
    "forgotten": lambda farm: farm.forgotten(),
    "history": lambda farm: [farm.history("phone-1"), farm.history("none")],
    "spent": lambda farm: farm.spent(2500.0),
    "took": lambda farm: farm.took([CELL]),
    "artefacts": lambda farm: [farm.artefacts(RUN), farm.artefacts("none")],
    "an artefact": lambda farm: [b"".join(farm.artefact(SHA256)).hex()],
    "the end of an artefact": lambda farm: [b"".join(farm.artefact(SHA256, 150_000)).hex()],
    "damage": lambda farm: farm.damage(),
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(prepared(tmp_path_factory.mktemp("farm") / "home")) as served_api:
        yield served_api


@pytest.fixture(scope="module", params=["file", "api"])
def farm(request: pytest.FixtureRequest, api: Served) -> Iterator[FarmReader]:
    """Both implementations of FarmReader."""
    if request.param == "file":
        with closing(SqliteStore.open_reader(api.home.store)) as reader:
            yield reader
        return
    with closing(ApiReader(context_of(api), pytest.fail)) as elsewhere:
        yield elsewhere


def context_of(api: Served, scope: Scope = Scope.VIEWER) -> FarmContext:
    return FarmContext(url=api.url, token=SECRETS[scope])


@pytest.mark.parametrize("what", READ)
def test_each_read_is_the_file_s(farm: FarmReader, api: Served, what: str) -> None:
    with closing(SqliteStore.open_reader(api.home.store)) as reader:
        expected = plain(READ[what](reader))
    assert plain(READ[what](farm)) == expected
    assert expected != [] or what in ("forgotten", "damage"), "the store has some of it"


@pytest.mark.parametrize("wanted", FILTERS, ids=range(len(FILTERS)))
@pytest.mark.parametrize("newest", [None, 1, 5])
def test_what_a_filter_keeps_is_the_file_s(
    farm: FarmReader, api: Served, wanted: OutcomeFilter, newest: int | None
) -> None:
    with closing(SqliteStore.open_reader(api.home.store)) as reader:
        expected = [
            *map(plain, reader.selected_results(wanted, newest)),
            *map(plain, reader.selected_failures(wanted, newest)),
        ]
    assert [
        *map(plain, farm.selected_results(wanted, newest)),
        *map(plain, farm.selected_failures(wanted, newest)),
    ] == expected


def plain(found: object) -> object:
    """Return records as JSON has them: times to the millisecond."""
    if isinstance(found, Contract):
        return found.model_dump(mode="json")
    if isinstance(found, dict):
        return {name: plain(one) for name, one in found.items()}
    return [plain(one) for one in found] if isinstance(found, list | tuple) else found


NEWEST = (
    "UPDATE outcomes SET device_id = 'none'"
    " WHERE number = (SELECT max(number) FROM outcomes WHERE type = '{}')"
)
DAMAGED: dict[str, tuple[str, Callable[[ApiReader], object]]] = {
    "sweeps": (
        "UPDATE sweeps SET submitted_at = 5 WHERE number = 2",
        lambda farm: farm.sweeps(),
    ),
    "runs": (
        "UPDATE runs SET position = 5 WHERE run_id = :run",
        lambda farm: [farm.runs(SWEEP), farm.runs()],
    ),
    "results": (
        NEWEST.format("result"),
        lambda farm: farm.results(),
    ),
    "failures": (
        NEWEST.format("failure"),
        lambda farm: farm.failures(),
    ),
}


@pytest.mark.parametrize("noun", DAMAGED)
def test_damage_is_told_of_elsewhere_too(tmp_path: Path, noun: str) -> None:
    statement, read = DAMAGED[noun]
    home, told = prepared(tmp_path / "home"), list[str]()
    with closing(sqlite3.connect(home.store)) as connection, connection:
        assert connection.execute(statement, {"run": RUN}).rowcount == 1
    with served(home) as api, closing(ApiReader(context_of(api), told.append)) as farm:
        read(farm)
        assert farm.damage() == [f"1 of the farm's {noun} cannot be read there"]
        assert len(told) == 1


@pytest.mark.parametrize("path", ["/results/export", "/failures/export", "/runs/export"])
def test_the_total_of_an_export_counts_what_is_damaged(tmp_path: Path, path: str) -> None:
    home = prepared(tmp_path / "home")
    with served(home) as api:
        total = api.get(path).headers[TOTAL]
    with closing(sqlite3.connect(home.store)) as connection, connection:
        connection.execute(DAMAGED[path.split("/")[1]][0], {"run": RUN})
    with served(home) as api:
        for params in ({}, {"format": "parquet"}) if "results" in path else ({},):
            answer = api.get(path, params=params)
            assert (answer.status_code, answer.headers[TOTAL]) == (200, total)


def test_so_does_that_of_one_device(tmp_path: Path) -> None:
    home, device = prepared(tmp_path / "home"), {"device": "phone-1"}
    with served(home) as api:
        answer = api.get("/results/export", params=device)
        total, run = answer.headers[TOTAL], json.loads(answer.text.splitlines()[0])["run_id"]
    with closing(sqlite3.connect(home.store)) as connection, connection:
        of_run = "UPDATE outcomes SET device_id = 'none' WHERE run_id = ?"
        assert connection.execute(of_run, [run]).rowcount == 1
    with served(home) as api, closing(ApiReader(context_of(api), lambda _: None)) as farm:
        left = api.get("/results/export", params=device)
        assert (left.headers[TOTAL], len(left.text.splitlines())) == (total, int(total) - 1)
        shown, count = farm.selected_results(OutcomeFilter(device="phone-1"))
        assert len(shown) == count == int(total) - 1, "no more are there to be asked for"


@pytest.mark.parametrize("runs", ["'12x'", "9223372036854775807", "1000000"])
def test_a_damaged_sweep_does_not_say_how_many_runs_there_are(tmp_path: Path, runs: str) -> None:
    home = prepared(tmp_path / "home")
    with closing(sqlite3.connect(home.store)) as connection, connection:
        others = "SELECT sum(runs) FROM sweeps WHERE number > 1"
        rows = "SELECT count(*) FROM runs JOIN sweeps USING (sweep_id) WHERE number = 1"
        stored = sum(connection.execute(query).fetchone()[0] for query in (others, rows))
        changed = f"UPDATE sweeps SET runs = {runs} WHERE number = 1"
        assert connection.execute(changed).rowcount == 1
    with served(home) as api:
        answer = api.get("/runs/export")
        assert (answer.status_code, int(answer.headers[TOTAL])) == (200, stored)


CALLS = (
    ("results", "list"),
    ("results", "list", "--json"),
    ("results", "list", "--csv", "--tag", "paper", "--validity", "INVALID"),
    ("results", "list", "--failures"),
    ("results", "list", "--last", "3", "--knob", "precision=fp32"),
    ("results", "show", RUN[:-3]),
    ("results", "show", RUN, "--json"),
    ("results", "artifacts", RUN[:-3]),
    ("results", "artifacts", RUN, "--json"),
    ("device", "list"),
    ("device", "list", "--json"),
    ("device", "show", "phone"),
    ("device", "history", "phone-1"),
    ("device", "bookings"),
    ("device", "capabilities", "phone-1"),
    ("agent", "list"),
    ("agent", "list", "--json"),
    ("sweep", "status"),
    ("sweep", "status", "--json"),
    ("sweep", "status", SWEEP),
    ("sweep", "status", SWEEP, "--csv"),
    ("sweep", "tag", SWEEP),
    ("sweep", "note", SWEEP),
    ("suite", "status"),
)


@pytest.fixture
def laptop(tmp_path: Path, api: Served) -> Callable[..., str]:
    """What prints what a call prints on a host without a farm."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BENCHFARM_TOKEN": ""}
    for scope in Scope:
        keep_context(scope.value, context_of(api, scope), environ)

    def call(*words: str, context: str = "viewer", complains: bool = False) -> str:
        how = complaint_of if complains else printed_by
        return how(tmp_path / "home", *words, BENCHFARM_CONTEXT=context, **environ)

    return call


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_a_verb_prints_the_same_as_on_the_head(
    api: Served, laptop: Callable[..., str], call: tuple[str, ...]
) -> None:
    assert laptop(*call) == printed_by(api.home.path, *call)
    assert laptop(*call) != ""


@pytest.mark.parametrize(
    ("call", "scope", "said"),
    [
        (("sweep", "cancel", SWEEP), "viewer", "the token of viewer is of scope viewer"),
        (("sweep", "resume", SWEEP), "viewer", "the token of viewer is of scope viewer"),
        (("sweep", "tag", SWEEP, "x"), "viewer", "the token of viewer is of scope viewer"),
        (
            ("device", "quarantine", "phone-1", "--why", "x"),
            "submitter",
            "Ask the administrator for one of",
        ),
        (("sweep", "cancel", SWEEP), "submitter", "the controller cannot be reached"),
        (("device", "label", "phone-1", "a=b"), "administrator", "controller cannot be reached"),
        (("agent", "drain", "host-1"), "administrator", "the controller cannot be reached"),
        (("sweep", "cancel", "none"), "submitter", "none"),
        (("results", "verify", RUN), "viewer", "its results have no logs of LoadGen"),
        (("results", "replicate", RUN), "viewer", "Run this on the head"),
    ],
)
def test_what_a_verb_may_not_or_cannot_do_is_said(
    laptop: Callable[..., str], call: tuple[str, ...], scope: str, said: str
) -> None:
    assert said in laptop(*call, context=scope, complains=True)


def test_a_context_beside_the_address_of_a_controller_is_not_meant(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFARM_HOME", str(api.home.path))
    monkeypatch.setenv("BENCHFARM_CONTEXT", "no such context")
    monkeypatch.setenv("BENCHFARM_URL", "http://127.0.0.1:1")
    with pytest.raises(Exception, match="BENCHFARM_URL names the farm"), reading():
        pass


# --- every route, with each kind of token --------------------------------------------------------

GETS = [*(route.path for route in READS), *(route.path for route in EXPORTS), CONTENT, EVENTS]
IDS = {
    "sweep_id": SWEEP,
    "run_id": RUN,
    "device_id": "phone-1",
    "agent_id": "host-1",
    "sha256": SHA256,
}


@pytest.mark.parametrize("token", [None, "Bearer x", f"Bearer {REVOKED}"], ids=repr)
@pytest.mark.parametrize(
    ("method", "path"),
    [*(("GET", path) for path in GETS), *((one.method, one.path) for one in WRITES)],
)
def test_without_a_valid_token_no_route_answers(
    api: Served, method: str, path: str, token: str | None
) -> None:
    headers = {} if token is None else {"Authorization": token}
    answer = api.ask(method, path.format_map(IDS), None, headers=headers, json={})
    assert answer.status_code == 401
    assert answer.json()["type"].endswith("no-valid-token")


@pytest.mark.parametrize("route", WRITES, ids=lambda route: f"{route.method} {route.path}")
def test_a_token_of_too_low_a_scope_changes_nothing(
    api: Served, route: WriteRoute[Contract]
) -> None:
    scopes = [scope for scope in Scope if not scope.allows(route.scope)]
    assert Scope.VIEWER in scopes
    for scope in scopes:
        answer = api.ask(route.method, route.path.format_map(IDS), scope, json={})
        assert answer.status_code == 403, scope


@pytest.mark.parametrize("path", GETS)
def test_a_viewer_reads_every_route(api: Served, path: str) -> None:
    params = {"workload": "retinanet", "stack": "eager", "scenario": "training"}
    asked = params if path == "/took" else {}
    answer = api.get(path.format_map(IDS), params=asked)
    # No controller runs here to tell of events, and a comparison needs its sides.
    unprofiled = {"/runs/{run_id}/profile": 404}
    expected = {EVENTS: 503, "/comparison": 422, **unprofiled}.get(path, 200)
    assert answer.status_code == expected, answer.text


@pytest.mark.parametrize(
    ("path", "method", "there"),
    [
        ("/v1/sweeps", "POST", ("POST", "/sweeps")),
        ("/v1/sweeps/s%2F1/cancel", "POST", ("DELETE", "/sweeps/s%2F1")),
        ("/v1/sweeps/s/resume", "POST", ("POST", "/sweeps/s/resume")),
        ("/v1/sweeps/s/notes/remove", "POST", ("POST", "/sweeps/s/notes/remove")),
        ("/v1/admin/devices/d/label", "POST", ("POST", "/devices/d/label")),
        ("/v1/admin/agents/a/drain", "GET", ("GET", "/agents/a/drain")),
    ],
)
def test_each_request_to_the_controller_has_a_route(
    path: str, method: str, there: tuple[str, str]
) -> None:
    asked = asked_for(method, path, {})
    assert (asked.method, asked.path) == there
