"""`benchfarm suite`: sessions are read from the store; mistakes are one line."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from controller.cli import session_farm, suite_run
from controller.cli.suite_view import show_session
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device, DeviceKind, DeviceState, RegisteredDevice
from controller.contracts.errors import UserError
from controller.contracts.records import SweepRecord
from controller.contracts.result import Blame, Failure, Measurement, Result, Validity
from controller.contracts.run import Run
from controller.contracts.suite_rules import load_suites
from controller.contracts.suite_session import NOT_VERIFIED, SessionSummary
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit
from controller.runtime.fleet import DeviceOverview
from controller.runtime.suite_runner import SessionRunner, Timer
from controller.runtime.suite_sessions import by_name, read_sessions, session_ids
from controller.scheduling.binding import runs_of
from controller.scheduling.model_files import needed_files
from controller.scheduling.suite_plan import Place, SuitePlan, parts_of
from controller.scheduling.suite_session import Session, Span
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import complaint_of, outcome_of, printed_by
from tests.support.store_examples import AGENT, grant, report
from tests.support.suite_sessions import ID, PHONE, PLAN, SUITE, environment, flawless

CATALOG = load_catalog()
DEVICE = RegisteredDevice(
    device=Device(id=PHONE, kind=DeviceKind.ANDROID, virtual=True, facts={"abi": "x86_64"}),
    agent_id="host-1",
    online=True,
    since=1.0,
)


def measured(speed: float) -> Result:
    return Result(
        validity=Validity.VALID,
        metrics={
            "latency_p90": Measurement(value=speed, unit=Unit.SECONDS),
            "top1": Measurement(value=0.76, unit=Unit.FRACTION),
        },
        environment=environment(meets_run_rules=False, run_rules_missed=("virtual device",)),
    )


def queued(place: Place, store: SqliteStore, generation: int = 1, **changes: object) -> Run:
    part, sweep = PLAN.parts[place.part], PLAN.sweep(place).model_copy(update=changes)
    record = SweepRecord(
        sweep_id=sweep.sweep_id(generation),
        sweep=sweep,
        generation=generation,
        submitted_at=1000.0 + place.number,
    )
    cell = Cell(
        workload=part.workload,
        stack=PLAN.stack,
        scenario=part.scenario,
        knobs=part.knobs,
        selector=f'device == "{PHONE}"',
    )
    (run,) = store.add_sweep(record, runs_of(sweep, record.sweep_id, [cell], now=1000.0))
    return run


def ended(run: Run, outcome: Result | Failure, start: float, store: SqliteStore) -> None:
    leased = grant(run, DEVICE, start)
    store.save_runs([leased])
    store.save_runs([report(leased.run, outcome, now=start + 90)])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a session of which one part is measured twice, and another failed."""
    home = tmp_path_factory.mktemp("suite")
    with closing(SqliteStore.open(home / "store.sqlite")) as store:
        store.save_agent(AGENT, [DEVICE, store_examples.CPU])
        ended(queued(Place(ID, 1, 0), store), measured(0.030), 2000.0, store)
        failure = Failure(blame=Blame.USER, kind="model", message="no mosaic in the store")
        ended(queued(Place(ID, 1, 3), store), failure, 2400.0, store)
        ended(queued(Place(ID, 2, 0), store), measured(0.033), 3000.0, store)
        queued(Place(ID, 2, 1), store)
        other = store_examples.sweep_record()
        (run, *_) = store.add_sweep(other, store_examples.runs_for(other))
        ended(run, store_examples.result(), 2100.0, store)
    return home


def summary(home: Path) -> SessionSummary:
    return SessionSummary.model_validate_json(printed_by(home, "suite", "show", ID, "--json"))


def test_a_session_is_read_from_its_sweeps_alone(home: Path) -> None:
    with closing(SqliteStore.open_reader(home / "store.sqlite")) as store:
        assert session_ids(store) == [ID]
        (session,) = read_sessions(store, [ID])
    assert [run.place for run in session.runs] == [
        Place(ID, 1, 0),
        Place(ID, 1, 3),
        Place(ID, 2, 0),
        Place(ID, 2, 1),
    ]
    assert session.runs[0].spans == (Span(PHONE, 2000.0, 2090.0),)
    assert [run.failure for run in session.runs if run.failure] == ["user: no mosaic in the store"]
    assert [span.start for span in session.others] == [2100.0]


def test_the_summary_says_what_was_measured_and_what_was_missed(home: Path) -> None:
    found = summary(home)
    assert (found.device, found.virtual, found.surrogates) == (PHONE, True, False)
    assert (found.tries, found.is_running, found.meets_rules) == (2, True, False)
    assert (found.verification, found.note) == ("unverified", NOT_VERIFIED)
    first = found.parts[0]
    assert [tried.value for tried in first.tries] == [0.030, 0.033]
    assert first.spread == pytest.approx(0.1)  # of floats
    why = {rule.rule: rule.why for rule in found.rules}
    assert "mosaic single_stream, try 1: failed: user: no mosaic in the store" in why["whole suite"]
    assert why["run rules of each result"] == ("all 2 results: virtual device",)
    assert why["pauses between tasks"][0].startswith("5:10 min before mosaic")
    assert why["nothing else on the device"] == ("1 other runs, the first at 1970-01-01 00:35 UTC",)
    assert why["replication"][0].startswith("mobilenet_edgetpu single_stream: latency_p90 differs")


def test_tables_say_unverified_and_virtual(home: Path) -> None:
    shown = printed_by(home, "suite", "show", ID[:8])
    assert shown.startswith(f"MLPerf Mobile v3.1 (unverified) on {PHONE} (virtual)\n")
    assert f"session {ID}: 2 of 5 tries" in shown
    assert "result (unverified)" in shown
    assert "33 ms" in shown
    assert shown.endswith(f"{NOT_VERIFIED}\n")
    listed = printed_by(home, "suite", "status")
    assert f"{PHONE} (virtual)" in listed
    assert "MLPerf Mobile v3.1 (unverified)" in listed
    (one,) = json.loads(printed_by(home, "suite", "status", "--json"))
    assert SessionSummary.model_validate(one) == summary(home)


def test_an_accuracy_without_a_target_says_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = summary(home)
    assert "no target printed" not in printed_by(home, "suite", "show", ID[:8])
    first = found.parts[0].model_copy(update={"target_unknown": "v6.0 prints none"})
    show_session(found.model_copy(update={"parts": (first,)}), PHONE)
    assert "76.00%, no target printed" in " ".join(capsys.readouterr().out.split())


def test_versions_are_listed(home: Path) -> None:
    versions = [one["version"] for one in json.loads(printed_by(home, "suite", "list", "--json"))]
    assert versions == [rules.version for rules in load_suites()]
    listed = printed_by(home, "suite", "list")
    assert NOT_VERIFIED in listed
    assert "single_stream, offline (optional)" in listed


def test_without_a_session_it_says_how_to_start_one(tmp_path: Path) -> None:
    with closing(SqliteStore.open(tmp_path / "store.sqlite")):
        pass
    assert printed_by(tmp_path, "suite", "status").startswith("no session yet; start one with: ")


RUN = ("suite", "run", "v3.1", "--device", PHONE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("suite", "run", "v9.9", "--device", PHONE), "cannot find v9.9: there is no such version"),
        (("suite", "run", "v3.1", "--device", "phone-9"), "there is no such device"),
        ((*RUN, "--task", "mobilenet_v4"), "MLPerf Mobile v3.1 has no such task. Known: "),
        (
            ("suite", "run", "v4.0", "--device", PHONE, "--surrogates"),
            "cannot use --surrogates: there is none of mobilenet_v4",
        ),
        ((*RUN, "--numerics", "mosaic="), "cannot use --numerics 'mosaic=': it is empty."),
        ((*RUN, "--dataset", "retinanet=full"), "that task is not run. Known: "),
        ((*RUN, "--numerics", "fp64"), "fp64"),
        ((*RUN, "--try-pause", "soon"), "cannot use --try-pause 'soon'"),
        ((*RUN, "--stack", "torch"), "stack torch"),
        (("suite", "show", "v1.0-000000-1"), "there is no such session. Known: "),
    ],
)
def test_a_mistake_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    assert said in complaint_of(home, *words)


def cells_of_mosaic() -> list[Cell]:
    parts = parts_of(SUITE, ["mosaic"], {}, length="normal", surrogates=False)
    plan = SuitePlan(suite="S", version="v3.1", device=PHONE, stack="litert", parts=parts)
    return suite_run._cells(plan, CATALOG)


def test_missing_files_are_named_before_anything_runs() -> None:
    with pytest.raises(UserError) as caught:
        suite_run._require_files(
            DEVICE, [AGENT], cells_of_mosaic(), CATALOG, lambda: {"host-1": ()}
        )
    assert str(caught.value) == (
        f"cannot run the suite on {PHONE}: its host host-1 lacks mosaic/models/uint8,"
        " mosaic/full/samples, mosaic/full/truth. There, run `benchfarm models fetch mosaic`."
    )


def test_files_that_are_there_or_not_needed_are_not_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = cells_of_mosaic()
    needed = [checksum or key for key, checksum in needed_files(cells[0], CATALOG).items()]
    suite_run._require_files(DEVICE, [AGENT], cells, CATALOG, lambda: {"host-1": needed})
    suite_run._require_files(DEVICE, [AGENT], [], CATALOG, lambda: {"host-1": ()})
    assert capsys.readouterr().out == ""
    suite_run._require_files(DEVICE, [AGENT], cells, CATALOG, dict)
    assert "unknown whether it has mosaic/models/uint8" in capsys.readouterr().out


def test_a_session_with_more_tries_than_the_call_asks_for_is_counted_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    suite_run._say_continued(flawless(tries=2), runs=6)
    assert capsys.readouterr().out.startswith("continued: 12 of 12 runs have ended")


def test_a_session_of_a_version_without_known_seeds_says_so_at_once(home: Path) -> None:
    words = ("suite", "run", "v0.7", "--device", PHONE, "--task", "mobilebert")
    out, _, _ = outcome_of(home, *words)
    said = "the seeds of MLPerf Mobile v0.7 are not known, so no result can meet its rules\n"
    assert said in out
    assert "are not known" not in outcome_of(home, *RUN, "--again", "--task", "mosaic")[0]


def test_a_session_without_optional_parts_is_another(home: Path) -> None:
    words = ("suite", "run", "v4.0", "--device", PHONE, "--task")
    without = "--without-optional"
    shown = {
        task: [outcome_of(home, *words, task, *more)[0] for more in ((), (without,))]
        for task in ("mobilenet_v4", "mobilenet_edgetpu")
    }
    assert all(": session v4.0-" in out for both in shown.values() for out in both)
    whole, less = shown["mobilenet_v4"]
    assert whole != less
    assert shown["mobilenet_edgetpu"][0] == shown["mobilenet_edgetpu"][1], "nothing is optional"


def test_a_device_that_is_away_ends_the_call_with_how_to_go_on(home: Path) -> None:
    out, complaint, status = outcome_of(home, *RUN, "--again", "--task", "mosaic")
    assert status == 2
    assert complaint.count("\n") == 1
    assert f"on {PHONE}: it is lost" in complaint
    again = f"benchfarm suite run v3.1 --device {PHONE} --again --task mosaic"
    assert f"continue with `{again}`" in complaint, "without --again, an older session goes on"
    assert out.startswith(f"MLPerf Mobile v3.1 (unverified) on {PHONE} (virtual): session v3.1-")


def test_control_c_says_how_to_go_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SessionRunner, "run", interrupted)
    for more in ((), ("--again",)):
        _, complaint, status = outcome_of(home, *RUN, *more)
        assert status == 130
        call = " ".join(("benchfarm", *RUN, *more))
        assert f"continue the session with: {call}\n" in complaint


def test_a_session_that_has_begun_goes_on_without_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchfarm", "suite", "run", "v3.1", "--again"])
    begun = flawless(tries=1)
    assert session_farm.continuing_call(begun) == "benchfarm suite run v3.1"
    nothing = Session(begun.id, ())
    assert session_farm.continuing_call(nothing) == "benchfarm suite run v3.1 --again"


def test_a_sweep_of_anybody_with_such_a_name_is_of_no_session_that_goes_on(tmp_path: Path) -> None:
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        store.save_agent(AGENT, [DEVICE])
        queued(Place(ID, 1, 0), store, deadline_s=1.0)
        queued(Place(PLAN.session(999_999), 1, 0), store, deadline_s=1.0)
        assert read_sessions(store, [ID])[0].runs, "by its name, it is"
        assert read_sessions(store, [ID], PLAN.place_of)[0].runs == ()
        assert session_ids(store, PLAN.place_of) == []
    for more in ((), ("--again",)):
        out, complaint, status = outcome_of(tmp_path, *RUN, *more)
        assert (status, complaint.count("\n")) == (2, 1), complaint
        assert f"carry on session {ID} on {PHONE}: it is lost" in complaint, "before its first part"
        assert f"session {ID}\n" in out
        assert "continued" not in out


def test_a_part_that_is_submitted_again_only_used_the_device(tmp_path: Path) -> None:
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        store.save_agent(AGENT, [DEVICE])
        ended(queued(Place(ID, 1, 0), store), measured(0.030), 2000.0, store)
        ended(queued(Place(ID, 1, 0), store, generation=2), measured(0.020), 3000.0, store)
        for place_of in (by_name, PLAN.place_of):
            (session,) = read_sessions(store, [ID], place_of)
            (run,) = session.runs
            assert run.result
            assert run.result.metrics["latency_p90"].value == 0.030
            assert [span.start for span in session.others] == [3000.0]


def test_after_the_last_number_no_session_is_started(tmp_path: Path) -> None:
    last = PLAN.session(999_999)
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        store.save_agent(AGENT, [DEVICE])
        queued(Place(last, 1, 0), store)
    complaint = complaint_of(tmp_path, *RUN, "--again")
    assert "sessions are numbered up to 999999, and that one exists. Leave out --again" in complaint


def test_an_option_for_one_task_wins_over_that_for_all() -> None:
    tasks = ["mosaic", "edsr"]
    found = suite_run._by_task("numerics", ["edsr=fp32", "int8"], tasks)
    assert found == {"mosaic": "int8", "edsr": "fp32"}


def seen(state: DeviceState) -> DeviceOverview:
    return DeviceOverview(
        device=DEVICE.device,
        name=PHONE,
        agent_id=AGENT.agent.id,
        state=state,
        since=1.0,
        who="",
        why="unplugged",
        run_id=None,
    )


@pytest.mark.parametrize(
    ("states", "end", "slept"),
    [
        ([DeviceState.READY], DeviceState.READY, 0),
        ([DeviceState.QUARANTINED], DeviceState.QUARANTINED, 0),
        ([DeviceState.OFFLINE, DeviceState.LOST, DeviceState.BUSY], DeviceState.BUSY, 2),
        ([DeviceState.OFFLINE] * 1000, DeviceState.OFFLINE, session_farm.RETURN_S),
    ],
)
def test_a_device_that_is_away_is_waited_for_a_while(
    states: list[DeviceState],
    end: DeviceState,
    slept: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    naps: list[float] = []
    looks = map(seen, states)
    timer = Timer(lambda: sum(naps), naps.append)
    assert session_farm.once_back(lambda: next(looks), timer).state is end
    assert sum(naps) == slept
    assert ("(unplugged); waiting 120 s for it" in capsys.readouterr().out) == bool(slept)
