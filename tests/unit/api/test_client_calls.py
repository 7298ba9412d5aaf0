"""Whatever a program does with a farm, in whatever order: it works as said, each answer is one that
the description has, and none is a server's error."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    rule,
    run_state_machine_as_test,
)

from controller.api.connection import Ask, Connection
from controller.api.contexts import FarmContext, keep_context
from controller.api.farm_client import ApiFarmClient
from controller.api.problems import problem_of, type_of
from controller.api.streams import _refusal
from controller.client import NO_HOME, Farm
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import (
    FarmUnavailable,
    NotAllowed,
    OverQuota,
    SweepInvalid,
    UserError,
)
from controller.contracts.records import Scope
from controller.contracts.result import Blame, Outcome
from controller.contracts.run import RunState
from controller.platform.atomic import write_private
from controller.runtime.client import TOKEN_VARIABLE, FarmClient, MaybeDone, Timings
from controller.runtime.home import Endpoint, Home
from controller.runtime.options import URL_VARIABLE
from tests.support import builders
from tests.support.api import SECRETS, Described, prepared, served
from tests.support.command_line import outcome_of, printed_by
from tests.support.http_peer import Peer, answering
from tests.support.noted_answers import NotedAnswer, noted_answers, route_of
from tests.support.whole_farm import WholeFarm, whole_farm

CASES, STEPS = 8, 20
DESCRIBED = Described()
QUICK = yaml.safe_load((Path(__file__).parents[3] / "sweeps/quick.yaml").read_text())
OUTCOMES: tuple[Outcome, ...] = (
    builders.result(),
    builders.result(0.5),
    builders.failure(Blame.USER),
    builders.failure(Blame.WORKLOAD),  # no device is put in quarantine
)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "workload": st.sampled_from([QUICK["workload"], "none"]),
        "stack": st.sampled_from(["torch", "ipex"]),
        "validity": st.sampled_from(["VALID", "INVALID"]),
        "knobs": st.sampled_from([{"steps": 3}, {"memory_format": "contiguous"}, {"steps": "3"}]),
        "device": st.sampled_from(["cpu-1", "none"]),
        "since": st.sampled_from([0.0, 1e12]),
        "virtual": st.booleans(),
    },
)
WRONG: tuple[dict[str, Any], ...] = ({"colour": 1}, {"validity": "GOOD"}, {"since": "monday"})
IDS = st.sampled_from(["none", "a/b", "%2F", "\x00", "é", "..", "x" * 300])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeFarm]:
    with whole_farm(tmp_path_factory.mktemp("whole") / "home") as farm:
        yield farm


class Calls(RuleBasedStateMachine):
    """A program that submits, looks and cancels, while an agent does its sweeps."""

    sweeps: Bundle[str] = Bundle("sweeps")
    whole: WholeFarm
    noted: list[NotedAnswer]
    seen: Counter[tuple[str, int]]

    @initialize()
    def meet(self) -> None:
        self.farm = self.whole.client()
        self.runs: dict[str, int] = {}

    @rule(
        target=sweeps,
        name=st.sampled_from(["quick", "nightly"]),
        repeats=st.integers(1, 2),
        again=st.booleans(),
    )
    def submit(self, name: str, repeats: int, again: bool) -> str:
        said = self.farm.submit({**QUICK, "name": name, "repeats": repeats}, again=again)
        cells = len(QUICK["recipes"])
        assert said.new_runs + said.known_runs == cells * repeats
        assert not (again and said.known_runs)
        self.runs[said.sweep_id] = cells * repeats
        return said.sweep_id

    @rule(text=st.sampled_from(["", "name: [", "name: x\nworkload: none", "- 1"]))
    def submit_what_is_no_sweep(self, text: str) -> None:
        with pytest.raises(SweepInvalid):
            self.farm.submit(text)

    @rule(outcome=st.sampled_from(OUTCOMES))
    def measure(self, outcome: Outcome) -> None:
        self.whole.measure(outcome)

    @rule(sweep=sweeps)
    def look(self, sweep: str) -> None:
        detail, runs = self.farm.sweep(sweep), self.farm.runs(sweep)
        assert Counter(run.state for run in runs) == Counter(detail.tally.runs)
        assert len(runs) == self.runs.get(sweep, len(runs))
        assert sweep in [record.sweep_id for record in self.farm.sweeps()]
        done = [run.run_id for run in runs if run.state is RunState.DONE]
        assert {one.run_id for one in self.farm.results(sweep=sweep) if one.counted} == {*done}

    @rule(sweep=sweeps)
    def cancel(self, sweep: str) -> None:
        before = self.farm.sweep(sweep).tally.runs
        is_open = [state for state in RunState if not state.terminal]
        assert self.farm.cancel(sweep) == sum(before.get(state, 0) for state in is_open)
        after = self.farm.sweep(sweep).tally.runs
        assert sum(after.get(state, 0) for state in is_open) == 0

    @rule(sweep=consumes(sweeps))
    def forget(self, sweep: str) -> None:
        """Leave a sweep alone, whatever is under way."""

    @rule(conditions=CONDITIONS, samples=st.booleans())
    def read_results(self, conditions: dict[str, Any], samples: bool) -> None:
        chosen = self.farm.results(samples=samples, **conditions)
        listed, table = chosen.to_list(), chosen.to_arrow()
        metrics = sum(len(one.metrics) for one in listed)
        assert table.num_rows == metrics
        assert {*table["run_id"].to_pylist()} == {one.run_id for one in listed}

    @rule(wrong=st.sampled_from(WRONG))
    def read_by_what_is_no_condition(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(UserError):
            self.farm.results(**wrong).to_list()

    @rule(conditions=CONDITIONS)
    def read_failures_and_profiles(self, conditions: dict[str, Any]) -> None:
        wanted = {**conditions}
        wanted.pop("validity", None)
        assert all(one.blame for one in self.farm.failures(**wanted))
        assert self.farm.profiles(**conditions) == []

    @rule()
    def read_the_fleet(self) -> None:
        assert [each.device.id for each in self.farm.devices()] == ["cpu-1"]
        assert [known.agent.id for known in self.farm.agents()] == ["host-1"]
        times = [entry.at for entry in self.farm.history("cpu-1")]
        assert times == sorted(times)

    @rule(id_=IDS)
    def ask_for_what_is_not_there(self, id_: str) -> None:
        with pytest.raises(UserError):
            self.farm.sweep(id_)
        with pytest.raises(UserError):
            self.farm.cancel(id_)

    @rule(force=st.booleans(), device=st.sampled_from([None, "cpu-1", "none"]))
    def compare(self, force: bool, device: str | None) -> None:
        sides = ("torch:memory_format=contiguous", "torch:memory_format=channels_last")
        try:
            said = self.farm.compare(*sides, QUICK["workload"], device=device, force=force)
        except UserError:
            return  # too few results, or of no such device
        assert said.ratio > 0
        assert device != "none"

    @rule(sweep=sweeps)
    def try_what_a_viewer_may_not(self, sweep: str) -> None:
        viewer = self.whole.client(Scope.VIEWER)
        assert viewer.sweep(sweep).record.sweep_id == sweep
        with pytest.raises(NotAllowed):
            viewer.cancel(sweep)
        with pytest.raises(NotAllowed):
            viewer.submit(QUICK)

    @rule()
    def come_as_a_stranger(self) -> None:
        stranger = Farm(FarmContext(url=self.whole.api.url, token="00" * 32))
        with pytest.raises(UserError, match="benchfarm login"):
            stranger.sweeps()

    def teardown(self) -> None:
        for noted in self.noted:
            try:
                route = route_of(noted.path, DESCRIBED.document["paths"])
            except LookupError:  # `..` leads elsewhere
                assert noted.answer.status_code == 404, noted
                continue
            self.seen[route, noted.answer.status_code] += 1
            assert noted.answer.status_code < 500, (noted, noted.answer.text)
            assert DESCRIBED.objection(noted.method, route, noted.answer) == "", noted
        self.noted.clear()


def test_whatever_a_program_does_each_answer_is_documented(whole: WholeFarm) -> None:
    seen = Counter[tuple[str, int]]()
    with noted_answers() as noted:

        class Here(Calls):
            pass

        Here.whole, Here.noted, Here.seen = whole, noted, seen
        run_state_machine_as_test(
            Here,
            settings=settings(
                max_examples=CASES, stateful_step_count=STEPS, deadline=None, derandomize=True
            ),
        )
    statuses = {status for _, status in seen}
    assert {200, 401, 403, 404} <= statuses, seen
    assert seen["/results/export", 200], "tables are read"
    assert seen.total() >= CASES * STEPS // 2


# --- a sweep that is followed to its end ---------------------------------------------------------


@pytest.fixture
def laptop(whole: WholeFarm, tmp_path: Path) -> dict[str, str]:
    """What makes a command on a host without a farm one about the farm."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BENCHFARM_TOKEN": ""}
    keep_context("lab", whole.context(), environ)
    return {**environ, "BENCHFARM_CONTEXT": "lab"}


def written(folder: Path, name: str) -> str:
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({**QUICK, "name": name}))  # JSON is YAML
    return str(file)


def test_a_sweep_is_submitted_and_followed_to_its_end_over_the_api(
    whole: WholeFarm, laptop: dict[str, str], tmp_path: Path
) -> None:
    with whole.busy(builders.result()):
        said = printed_by(
            tmp_path, "sweep", "submit", written(tmp_path, "good"), "--wait", **laptop
        )
    (record,) = [one for one in whole.client().sweeps() if one.sweep.name == "good"]
    assert f"sweep {record.sweep_id}: 2 runs queued" in said
    assert "250 ms  baseline" in said
    tally = whole.client().sweep(record.sweep_id).tally
    assert (tally.runs[RunState.DONE], tally.met_rules) == (2, 2)
    again = printed_by(tmp_path, "sweep", "watch", record.sweep_id, **laptop)
    assert said.endswith(again), "the summary is the same"


def test_a_sweep_is_watched_over_the_api_until_its_runs_have_failed(
    whole: WholeFarm,
    laptop: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed_by(tmp_path, "sweep", "submit", written(tmp_path, "bad"), **laptop)
    (record,) = [one for one in whole.client().sweeps() if one.sweep.name == "bad"]
    for name, value in laptop.items():
        monkeypatch.setenv(name, value)
    with whole.busy(builders.failure(Blame.USER)):
        said, complained, status = outcome_of(tmp_path, "sweep", "watch", record.sweep_id)
    assert (status, complained) == (1, "")
    assert "2 failed" in said
    assert whole.client().sweep(record.sweep_id).tally.runs[RunState.FAILED] == 2


# --- what a server says, or never says -----------------------------------------------------------


def context_of(peer: Peer) -> FarmContext:
    return FarmContext(url=peer.url, token=SECRETS[Scope.SUBMITTER])


def at(peer: Peer, timings: Timings) -> FarmClient:
    """Return the client of a controller that is a peer."""
    return FarmClient(NO_HOME, {URL_VARIABLE: peer.url, TOKEN_VARIABLE: "ann's"}, timings)


@contextmanager
def controlled_by(home: Home, peer: Peer) -> Iterator[None]:
    """Have a peer be a home's controller."""
    endpoint = Endpoint(url=peer.url, version="", pid=1)
    write_private(home.endpoint_file, endpoint.model_dump_json())
    yield
    home.endpoint_file.unlink()


def test_what_is_beyond_the_quota_is_said_at_once(tmp_path: Path) -> None:
    quota = OverQuota("submit the sweep", "ben has 6 open runs; 5 more would exceed 10", "Wait.")
    payload = ErrorPayload.of(quota).model_dump_json().encode()
    home = prepared(tmp_path / "home", sweeps=0)
    with (
        answering(Peer(429, [payload])) as controller,
        served(home) as api,
        controlled_by(home, controller),
    ):
        context = FarmContext(url=api.url, token=SECRETS[Scope.SUBMITTER])
        with pytest.raises(OverQuota, match=r"ben has 6 open runs.*10\. Wait\."):
            Farm(context).submit(QUICK)
        assert controller.asked == ["POST /v1/sweeps"]
        body = {"sweep": {**QUICK, "repeats": 1}}
        answer = api.ask("POST", "/sweeps", Scope.SUBMITTER, json=body)
        assert DESCRIBED.objection("POST", "/sweeps", answer) == ""
        assert answer.json()["type"] == "urn:benchfarm:problem:over-quota"
        assert "Retry-After" not in answer.headers
        environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BENCHFARM_TOKEN": ""}
        keep_context("lab", context, environ)
        file = written(tmp_path, "much")
        call = ("sweep", "submit", file)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**environ, "BENCHFARM_CONTEXT": "lab"}.items():
                patch.setenv(name, value)
            _, complained, status = outcome_of(tmp_path, *call)
        assert (status, "ben has 6 open runs" in complained) == (2, True)


def test_who_is_always_asked_to_wait_is_told_so() -> None:
    said = {
        "type": "urn:benchfarm:problem:too-many-requests",
        "title": "",
        "status": 429,
        "detail": "cannot answer the request: too many were made",
        "remedy": "Wait 1 s.",
    }
    with answering(Peer(429, [json.dumps(said).encode()], {"Retry-After": "0"})) as peer:
        with pytest.raises(UserError, match=r"too many were made\. Wait 1 s") as told:
            Farm(context_of(peer)).agents()
        assert len(peer.asked) == 20
    assert not isinstance(told.value, OverQuota)


def test_events_end_where_nothing_is_heard_for_too_long() -> None:
    short = Timings(restart_s=0.0, quiet_s=1.0)
    with (
        answering(Peer(pieces=[b": nothing new\n\n"], silent=True)) as peer,
        ApiFarmClient(NO_HOME, context_of(peer), short).beats("s-1") as beats,
    ):
        assert [*beats] == [None]
    with (
        answering(Peer(pieces=[b"\n"], silent=True)) as peer,
        at(peer, short).beats("s-1") as beats,
    ):
        assert [*beats] == [None]


MAYBE = r"may have been carried out \(.*\)\. Look at what is stored before you repeat it"


def test_a_lost_answer_leaves_open_what_was_done(tmp_path: Path) -> None:
    short = Timings(restart_s=0.0, reply_s=0.05)
    with answering(Peer(silent=True)) as peer:
        there = at(peer, short)
        with pytest.raises(MaybeDone, match=MAYBE) as lost:
            there.resume("s-1")
        with pytest.raises(FarmUnavailable) as safe:
            there.cancel("s-1")
        connection = Connection(context_of(peer), answer_s=0.05)
        with pytest.raises(FarmUnavailable, match=MAYBE):
            connection.fetch(Ask("POST", "/sweeps", body={"sweep": {}, "again": True}))
        with pytest.raises(FarmUnavailable, match=r"timed out\. Check the address"):
            connection.fetch(Ask("POST", "/sweeps", body={"sweep": {}, "again": False}))
    assert not isinstance(safe.value, MaybeDone)
    with pytest.raises(FarmUnavailable) as unsent:
        at(peer, short).resume("s-1")  # nobody listens any more
    assert not isinstance(unsent.value, MaybeDone)
    said, plain = problem_of(lost.value), problem_of(safe.value)
    assert (said.status, plain.status) == (503, 503)
    assert "may have done what was asked" in said.detail
    assert "before you repeat it" in said.remedy
    assert plain.remedy.startswith("Repeat it later")


async def test_a_stream_too_many_is_worth_another_try() -> None:
    payload = ErrorPayload.of(OverQuota("watch the sweep", "ann watches 32 already", "End one."))
    said = httpx.Response(429, content=payload.model_dump_json())
    refusal = await _refusal(said, "watch the sweep")
    assert problem_of(refusal).type == type_of(429)
