"""`benchfarm results verify` of a published board: its figures against the logs in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.scheduling.binding import runs_of
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.altered_logs import RECORDED
from tests.support.artefacts import bring_home
from tests.support.command_line import benchfarm, outcome_of
from tests.support.logged_results import CELL, logged_result

Json = dict[str, Any]
VERIFY = ("results", "verify")
BOARD = "data/board.json"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of two runs with logs and a training run without."""
    home = tmp_path_factory.mktemp("home")
    store = SqliteStore.open(home / "store.sqlite")
    try:
        store.save_agent(store_examples.AGENT, [store_examples.CPU])
        timed = store_examples.sweep_record("timed", repeats=2)
        for run in store.add_sweep(timed, runs_of(timed.sweep, timed.sweep_id, [CELL], now=1.0)):
            logs = home / "agent/host-1/runs" / run.run_id / "1/performance"
            shutil.copytree(RECORDED / "single_stream", logs)
            leased = store_examples.grant(run)
            store.save_runs([leased, store_examples.report(leased.run, logged_result(logs))])
        trained = store_examples.sweep_record("trained", repeats=1)
        for run in store.add_sweep(trained, store_examples.runs_for(trained)):
            leased = store_examples.grant(run)
            store.save_runs([leased, store_examples.report(leased.run, store_examples.result())])
    finally:
        store.close()
    bring_home(home)
    board = tmp_path_factory.mktemp("published") / "board"
    benchfarm(home, "publish", str(board))
    return board


@pytest.fixture
def board(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "board"))


def logged_run(board: Path) -> Path:
    return next(path.parent for path in sorted(board.glob("runs/*/performance")))


def training_run(board: Path) -> Path:
    return next(p for p in sorted(board.glob("runs/*")) if not (p / "performance").exists())


def differing(folder: Path) -> tuple[set[str], object]:
    """Return the figures that differ, and the status."""
    said, complained, status = outcome_of(folder.parent, *VERIFY, str(folder), "--json")
    assert complained == ""
    checks = [check for found in json.loads(said) for check in found["checks"]]
    return {check["figure"] for check in checks if check["verdict"] == "differs"}, status


def edited(path: Path, change: Callable[[Json], object]) -> None:
    """Change a JSON file in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def row_of(told: Json, scenario: str = "single_stream") -> Json:
    found: Json = next(r for r in told["rankings"] if r["scenario"] == scenario)["rows"][0]
    return found


def test_a_board_as_it_was_published_has_no_difference(board: Path) -> None:
    assert differing(board) == (set(), 0)
    said, _, status = outcome_of(board.parent, *VERIFY, str(board))
    assert status == 0
    assert said.count("0 different") == 2 + 3  # performance runs; results of runs


def test_a_training_run_is_told_what_cannot_be_checked(board: Path) -> None:
    said, complained, status = outcome_of(board.parent, *VERIFY, str(training_run(board)), "--json")
    assert (complained, status) == ("", 0)
    (found,) = json.loads(said)
    verdicts = {check["figure"]: check for check in found["checks"]}
    assert verdicts["step_time"]["verdict"] == "can't be checked"
    assert "no logs of LoadGen" in verdicts["step_time"]["by"]
    assert any(
        name.startswith(f"{BOARD}: ") and check["verdict"] == "same"
        for name, check in verdicts.items()
    )


@pytest.mark.parametrize(
    "metric", ["duration", "latency_p90", "latency_mean", "latency_max", "early_stopping_p90"]
)
def test_a_figure_altered_in_a_result_is_named(metric: str, board: Path) -> None:
    run = logged_run(board)

    def change(told: Json) -> None:
        told["metrics"][metric]["value"] *= 1 - 1e-6

    edited(run / "result.json", change)
    found, status = differing(run)
    assert status == 1
    assert metric in found


@pytest.mark.parametrize(
    ("field", "value", "figure"),
    [
        ("scenario", "multi_stream", "scenario"),
        ("validity", "DISTURBED", f"{BOARD}: validity"),
        ("run_id", "other", f"{BOARD}: run"),
        ("device", "other", f"{BOARD}: device"),
        ("cell_key", "other", f"{BOARD}: cell"),
    ],
)
def test_a_field_altered_in_a_result_is_named(
    field: str, value: str, figure: str, board: Path
) -> None:
    run = logged_run(board)
    edited(run / "result.json", lambda told: told.update({field: value, "reasons": ["x"]}))
    found, status = differing(run)
    assert status == 1
    assert figure in found


@pytest.mark.parametrize("scenario", ["single_stream", "training"])
@pytest.mark.parametrize("where", ["row", "run"])
def test_a_figure_altered_in_the_boards_data_is_named(
    scenario: str, where: str, board: Path
) -> None:
    def change(told: Json) -> None:
        row = row_of(told, scenario)
        of = row if where == "row" else row["runs"][0]
        of["value"] *= 2

    edited(board / BOARD, change)
    found, status = differing(board)
    assert status == 1
    assert any(figure.startswith(f"{BOARD}: ") for figure in found)
    assert all(figure.startswith(f"{BOARD}: ") for figure in found)


def forged_samples(board: Path) -> None:
    def result(told: Json) -> None:
        told["metrics"]["latency_p90"]["samples"] = [0.0001]

    def data(told: Json) -> None:
        row_of(told)["value"] = 0.0001

    edited(logged_run(board) / "result.json", result)
    edited(board / BOARD, data)


def test_samples_of_a_figure_that_loadgen_tells_are_a_difference(board: Path) -> None:
    forged_samples(board)
    found, status = differing(board)
    assert status == 1
    assert "latency_p90 samples" in found


def test_an_invalid_run_that_is_marked_as_used_is_a_difference(board: Path) -> None:
    run = logged_run(board)
    edited(run / "result.json", lambda told: told.update(validity="INVALID", reasons=["slow"]))

    def data(told: Json) -> None:
        row = row_of(told)
        of = next(each for each in row["runs"] if each["folder"].endswith(run.name))
        of["validity"] = "INVALID"
        row["results"].update(valid=1, invalid=1)

    edited(board / BOARD, data)
    found, status = differing(board)
    assert status == 1
    assert f"{BOARD}: used" in found


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        (lambda row: row["runs"][0].update(used=False), "used"),
        (lambda row: row.update(rank=2), "rank"),
        (lambda row: row.update(rank=None), "rank"),
        (lambda row: row.update(vs_best=0.5), "vs_best"),
        (lambda row: row.update(vs_best_interval=[0.5, 0.6]), "vs_best's interval"),
        (lambda row: row.update(interval=[0.5, 0.6]), "interval"),
        (lambda row: row["results"].update(valid=20), "valid"),
        (lambda row: row["results"].update(disturbed=1), "disturbed"),
        (lambda row: row["results"].update(invalid=1), "invalid"),
        (lambda row: row["device"].update(virtual=True), "device's virtual"),
        (lambda row: row["device"].update(imported_from="MLPerf"), "imported"),
        (lambda row: row.update(stack="other"), "stack"),
        (lambda row: row["knobs"].update(numerics="fp32"), "knobs"),
    ],
)
def test_what_a_row_says_of_its_results_is_compared(
    change: Callable[[Json], object], figure: str, board: Path
) -> None:
    edited(board / BOARD, lambda told: change(row_of(told)))
    assert differing(board) == ({f"{BOARD}: {figure}"}, 1)


@pytest.mark.parametrize(
    ("field", "value"), [("workload", "other"), ("virtual", True), ("scenario", "offline")]
)
def test_what_a_ranking_says_of_its_results_is_compared(
    field: str, value: object, board: Path
) -> None:
    def change(told: Json) -> None:
        next(r for r in told["rankings"] if r["scenario"] == "single_stream")[field] = value

    edited(board / BOARD, change)
    assert differing(board) == ({f"{BOARD}: {field}"}, 1)


def test_every_figure_of_a_row_is_compared(board: Path) -> None:
    told = json.loads((board / BOARD).read_text())
    names = row_of(told)["metrics"]
    assert names
    for name in names:

        def change(told: Json, name: str = name) -> None:
            row_of(told)["metrics"][name]["value"] *= 1.5

        kept = (board / BOARD).read_text()
        edited(board / BOARD, change)
        assert differing(logged_run(board)) == ({f"{BOARD}: row's {name}"}, 1)
        (board / BOARD).write_text(kept)


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (lambda board, run: (run / "result.json").unlink(), "result.json: no such file"),
        (lambda board, run: (run / "result.json").write_text("{"), "result.json: "),
        (lambda board, run: (run / "result.json").write_text("{}"), "result.json: "),
        (
            lambda board, run: shutil.rmtree(run),
            "it has no result.json, though data/board.json names",
        ),
        (lambda board, run: (board / BOARD).write_text("[]"), "not as benchfarm writes it"),
        (lambda board, run: (board / BOARD).write_text('{"rankings": 1}'), "not as benchfarm"),
        (lambda board, run: (board / BOARD).write_text("[" * 10_000), "data/board.json: "),
        (
            lambda board, run: edited(
                board / BOARD,
                lambda told: row_of(told)["runs"][0].update(folder="../../etc"),
            ),
            "is no folder of a run",
        ),
    ],
    ids=["result", "half", "other", "run", "board", "rankings", "deep", "outside"],
)
def test_a_damaged_board_is_told_in_lines(
    break_it: Callable[[Path, Path], object], expected: str, board: Path
) -> None:
    break_it(board, logged_run(board))
    said, complained, status = outcome_of(board.parent, *VERIFY, str(board))
    assert status == 2
    assert expected in complained
    assert all(line.startswith("benchfarm: cannot verify ") for line in complained.splitlines())
    assert "Traceback" not in said + complained


def test_the_folder_of_a_run_alone_is_checked_by_its_logs(board: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(logged_run(board), tmp_path / "alone"))
    assert differing(alone) == (set(), 0)

    def change(told: Json) -> None:
        told["metrics"]["latency_p90"]["value"] /= 2

    edited(alone / "result.json", change)
    assert differing(alone) == ({"latency_p90"}, 1)


def test_the_result_of_another_program_beside_logs_is_left_alone(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RECORDED / "single_stream", tmp_path / "x" / "performance"))
    (folder.parent / "result.json").write_text('{"meta": {}, "results": []}')
    assert differing(folder.parent) == (set(), 0)
