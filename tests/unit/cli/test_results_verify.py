"""`benchfarm results verify` of folders: its table, its JSON and its exit status."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.run import Run
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit
from controller.loadgen import logs
from controller.loadgen.logs import DETAIL, DetailLog
from controller.scheduling.binding import runs_of
from controller.store.sqlite import SqliteStore
from tests.support.altered_logs import RECORDED, copied, in_detail, plus
from tests.support.artefacts import announce, bring_home, copy_of, swap
from tests.support.command_line import complaint_of, outcome_of, printed_by
from tests.support.sample_store import make
from tests.support.store_examples import AGENT, CPU, grant, report, sweep_record

VERIFY = ("results", "verify")


def test_unaltered_logs_end_with_status_0(tmp_path: Path) -> None:
    said = printed_by(tmp_path, *VERIFY, str(RECORDED))
    assert said.count("0 different") == len([*RECORDED.iterdir()])
    assert "early_stopping_latency_ss" in said


def test_an_altered_figure_ends_with_status_1_and_its_name(tmp_path: Path) -> None:
    folder = copied("offline", tmp_path)
    in_detail(folder, "result_max_latency_ns", plus(1))
    said, complained, status = outcome_of(tmp_path, *VERIFY, str(folder), "--json")
    assert (complained, status) == ("", 1)
    (found,) = json.loads(said)
    assert found["where"] == str(folder)
    odd = [check for check in found["checks"] if check["verdict"] == "differs"]
    assert {check["figure"] for check in odd} >= {"result_max_latency_ns"}
    assert all(check["says"] and check["recomputed"] and check["by"] for check in odd)


def test_an_unreadable_log_ends_with_status_2_beside_others(tmp_path: Path) -> None:
    copied("offline", tmp_path)
    (copied("single_stream", tmp_path) / DETAIL).write_text("\x1b[2Jhello\n")
    said, complained, status = outcome_of(tmp_path, *VERIFY, str(tmp_path))
    assert status == 2
    assert complained.count("\n") == 1
    assert "not a log of LoadGen" in complained
    assert "\x1b" not in complained
    assert "0 different" in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("effective_scenario", "[]"),
        ("power_end", '"01-01-0001 00:00:00.000"'),
        ("requested_single_stream_expected_latency_ns", "1e-310"),
    ],
)
def test_a_value_that_loadgen_never_writes_is_one_line_beside_others(
    key: str, value: str, tmp_path: Path
) -> None:
    copied("offline", tmp_path)
    in_detail(copied("single_stream", tmp_path), key, lambda _: value)
    said, complained, status = outcome_of(tmp_path, *VERIFY, str(tmp_path))
    assert status in (1, 2)
    assert "Traceback" not in complained
    assert complained.count("\n") == (status == 2)
    assert "0 different" in said, "the other test is shown"


@pytest.mark.parametrize(
    ("options", "figure"),
    [
        (("--suite-version", "v4.0"), "effective_min_sample_count"),
        (("--suite-version", "v5.0"), "effective_qsl_rng_seed"),
        (("--suite-version", "v4.0", "--task", "mosaic"), "effective_scenario"),
    ],
)
def test_a_rule_of_a_round_that_is_broken_is_named(
    options: tuple[str, ...], figure: str, tmp_path: Path
) -> None:
    said, _, status = outcome_of(tmp_path, *VERIFY, str(RECORDED / "offline"), "--json", *options)
    assert status == 1
    odd = {c["figure"] for c in json.loads(said)[0]["checks"] if c["verdict"] == "differs"}
    assert figure in odd


def test_the_round_of_the_seeds_is_told(tmp_path: Path) -> None:
    said = printed_by(tmp_path, *VERIFY, str(RECORDED / "offline"))
    assert "MLPerf Mobile v4.0" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("{home}/none",), "there is no such folder"),
        (("{home}",), f"no folder of it has {DETAIL}"),
        (("{home}", "--task", "mosaic"), "--task says no round"),
        (("{home}", "--suite-version", "v9.9"), "there is no v9.9"),
        (("{home}", "--suite-version", "v4.0", "--task", "chess"), "v4.0 has no chess"),
    ],
)
def test_a_wrong_call_is_refused(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    given = [argument.format(home=tmp_path) for argument in arguments]
    assert expected in complaint_of(tmp_path, *VERIFY, *given)


CELL = Cell(
    workload="mobilenet_edgetpu",
    stack="litert",
    scenario="offline",
    knobs={"suite_version": "v4.0", "numerics": "int8", "dataset": "full"},
    selector="any",
)


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Path, str]:
    """A home whose head has the recorded logs of a run, which its agent has no longer; the run."""
    home = tmp_path / "home"
    home.mkdir()
    record = sweep_record(repeats=1)
    (run,) = runs_of(record.sweep, record.sweep_id, [CELL], now=1.0)
    folder = home / "agent" / "host-1" / "runs" / run.run_id / "1"
    folder.mkdir(parents=True)
    copied("accuracy", folder)
    copied("offline", folder).rename(folder / "performance")
    _store(home, run, _result(folder))
    bring_home(home)
    shutil.rmtree(home / "agent")
    return home, run.run_id


def _result(folder: Path, top1: float = 0.8) -> Result:
    """Return the result of a run, as the runner reads it from its logs."""
    log = DetailLog.parse(logs.read(folder / "performance", DETAIL))
    seconds = {"duration": logs.duration_s(log, "offline")}
    metrics = {name: Measurement(value=value, unit=Unit.SECONDS) for name, value in seconds.items()}
    metrics["throughput"] = Measurement(
        value=logs.throughput(log, "offline") or 0.0, unit=Unit.SAMPLES_PER_SECOND
    )
    metrics["top1"] = Measurement(value=top1, unit=Unit.FRACTION)
    return Result(
        validity=Validity.VALID,
        metrics=metrics,
        environment={"meets_run_rules": False, "loadgen_seeds": tuple(logs.seeds(log))},
        artefacts={
            f"{mode}_loadgen_detail": str(folder / mode / DETAIL)
            for mode in ("performance", "accuracy")
        },
    )


def _store(home: Path, run: Run, result: Result) -> None:
    with closing(SqliteStore.open(home / "store.sqlite")) as store:
        store.save_agent(AGENT, [CPU], [])
        (queued,) = store.add_sweep(sweep_record(repeats=1), [run])
        leased = grant(queued)
        store.save_runs([leased])
        store.save_runs([report(leased.run, result)])


def test_a_run_is_verified_with_all_its_tests(measured: tuple[Path, str]) -> None:
    home, run = measured
    said, complained, status = outcome_of(home, *VERIFY, run[:12], "--json")
    assert (complained, status) == ("", 0)
    performance, accuracy = json.loads(said)
    assert performance["where"].endswith("performance")
    verdicts = {c["figure"]: c["verdict"] for c in performance["checks"]}
    assert verdicts["throughput"] == verdicts["loadgen_seeds"] == "same"
    target = {c["figure"]: c for c in accuracy["checks"]}["top1"]
    assert (target["verdict"], target["recomputed"]) == ("same", "at least 0.746662")


def test_a_run_below_its_target_that_is_valid_is_named(tmp_path: Path) -> None:
    record = sweep_record(repeats=1)
    (run,) = runs_of(record.sweep, record.sweep_id, [CELL], now=1.0)
    folder = tmp_path / "agent" / "host-1" / "runs" / run.run_id / "1"
    folder.mkdir(parents=True)
    copied("accuracy", folder)
    copied("offline", folder).rename(folder / "performance")
    _store(tmp_path, run, _result(folder, top1=0.7))
    bring_home(tmp_path)
    said, _, status = outcome_of(tmp_path, *VERIFY, run.run_id, "--json")
    assert status == 1
    odd = [c["figure"] for c in json.loads(said)[1]["checks"] if c["verdict"] == "differs"]
    assert odd == ["top1"]


def _forged(home: Path, run: str) -> None:
    swap(home, f"performance/{DETAIL}", run, b":::MLLOG {}\n")


def _lost(home: Path, run: str) -> None:
    copy_of(home, f"performance/{DETAIL}", run).unlink()


def _awaited(home: Path, run: str) -> None:
    announce(home, "performance/latencies_ns.npy", run)


def _never_sent(home: Path, run: str) -> None:
    shutil.rmtree(home / "artefacts")


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (_forged, "the head's copy is not what its checksum says. Run `benchfarm store check`"),
        (_lost, "the head has kept it no longer. Look for it on its agent's host"),
        (_awaited, "latencies_ns.npy of run {run}: it is still with agent host-1. Repeat it"),
        (_never_sent, "the head has no copy of it. Repeat it later"),
    ],
)
def test_a_test_whose_logs_the_head_has_not_ends_with_status_2_and_a_line(
    measured: tuple[Path, str], plant: Callable[[Path, str], None], said: str
) -> None:
    home, run = measured
    plant(home, run)
    shown, complained, status = outcome_of(home, *VERIFY, run)
    assert status == 2
    lines = complained.splitlines()
    assert lines[0].startswith(f"benchfarm: cannot verify run {run}, attempt 1, performance: ")
    assert said.format(run=run) in lines[0]
    if plant is _never_sent:
        assert (len(lines), shown) == (2, "")
    else:
        assert len(lines) == 1
        assert "accuracy" in shown, "the other test is verified"


def test_a_run_without_logs_of_loadgen_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "store.sqlite")
    with closing(SqliteStore.open_reader(tmp_path / "store.sqlite", print)) as store:
        run = next(iter(store.results())).run_id
    assert "no logs of LoadGen" in complaint_of(tmp_path, *VERIFY, run)
    assert "cannot find run" in complaint_of(tmp_path, *VERIFY, "nosuchrun")
