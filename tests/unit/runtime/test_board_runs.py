"""Logs in a board: only those of the run itself, whole, with checksums, by the head's copies."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from controller.contracts.records import StoredResult
from controller.runtime.board_runs import BoardRuns, Caps
from tests.support.artefacts import Head, announce, bring_home, copy_of, swap
from tests.support.sweep_examples import result

DETAIL = "mlperf_log_detail.txt"
NAME = f"performance/{DETAIL}"
LOG = b":::MLLOG {}\n" * 9


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose head has the logs of two runs, which their agent has no longer."""
    home = tmp_path_factory.mktemp("kept") / "home"
    for run, attempt, name in (
        *(("run-1", 1, NAME), ("run-1", 2, NAME), ("run-2", 1, NAME)),
        *(("run-1", 1, f"other/{DETAIL}"), ("run-1", 1, DETAIL)),
    ):
        kept = log_of(home, run, attempt, name)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(LOG if name == NAME and attempt == 1 else b"secret")
    bring_home(home)
    shutil.rmtree(home / "agent")
    return home


@pytest.fixture
def mine(home: Path, tmp_path: Path) -> Path:
    """A copy of the home that a test may damage."""
    return Path(shutil.copytree(home, tmp_path / "mine"))


def log_of(home: Path, run: str = "run-1", attempt: int = 1, name: str = NAME) -> Path:
    return home / "agent" / "host-1" / "runs" / run / str(attempt) / name


def run_with(artefact: Path | str, run_id: str = "run-1", attempt: int = 1) -> StoredResult:
    return result(run_id=run_id, attempt=attempt, artefacts={"performance_detail": str(artefact)})


def board_in(tmp_path: Path) -> Path:
    board = tmp_path / "board"
    board.mkdir()
    return board


def test_a_run_has_one_folder_with_its_result_and_logs(tmp_path: Path, home: Path) -> None:
    board = board_in(tmp_path)
    told = BoardRuns(board, Head(home)).add(run_with(log_of(home)))
    assert (told.folder, told.absent) == ("runs/run-1", {})
    assert [file.name for file in told.files] == ["result.json", NAME]
    for file in told.files:
        content = board.joinpath(told.folder, file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
    assert board.joinpath(told.folder, NAME).read_bytes() == LOG
    stored = json.loads(board.joinpath(told.folder, "result.json").read_text())
    assert stored["artefacts"] == {"performance_detail": NAME}
    assert stored["metrics"]["step_time"]["samples"] == [0.5, 0.5, 0.5]
    assert str(tmp_path) not in json.dumps(stored)


def refused(board: Path, home: Path, of: StoredResult, caps: Caps | None = None) -> str:
    """Add a run; return why its log is absent, and check that nothing of it is in the board."""
    told = BoardRuns(board, Head(home), caps or Caps()).add(of)
    assert [file.name for file in told.files] == ["result.json"]
    files = [path.name for path in board.rglob("*") if path.is_file()]
    assert files == ["result.json"]
    return told.absent["performance_detail"]


@pytest.mark.parametrize(
    "place",
    [
        *(f"../{DETAIL}", f"host-1/runs/run-2/1/{NAME}", f"host-1/runs/run-1/2/{NAME}"),
        *(f"host-1/runs/run-1/1/{DETAIL}", f"host-1/runs/run-1/1/other/{DETAIL}"),
        *(f"x/../../{DETAIL}", f"\0/{DETAIL}", f"/elsewhere/{DETAIL}"),
        f"host-1/runs/run-1/1/performance/../../../../../../{DETAIL}",
    ],
)
def test_no_file_but_a_log_of_the_attempt_is_read(place: str, tmp_path: Path, home: Path) -> None:
    why = refused(board_in(tmp_path), home, run_with(f"{home}/agent/{place}"))
    assert why == "it is not a log in the run's own folder"


def test_other_artefacts_are_not_even_mentioned(tmp_path: Path, home: Path) -> None:
    told = BoardRuns(board_in(tmp_path), Head(home)).add(run_with(home / "api-token"))
    assert (len(told.files), told.absent) == (1, {})


def test_a_log_that_the_head_has_not_is_said(tmp_path: Path, mine: Path) -> None:
    board = board_in(tmp_path)
    why = refused(board, mine, run_with(log_of(mine, "run-3"), "run-3"))
    assert why == "the head has no copy of it"
    shutil.rmtree(board / "runs")
    announce(mine, NAME, "run-4")
    why = refused(board, mine, run_with(log_of(mine, "run-4"), "run-4"))
    assert why == "it is still with agent host-1"
    shutil.rmtree(board / "runs")
    copy_of(mine, NAME, "run-2").unlink()
    why = refused(board, mine, run_with(log_of(mine, "run-2"), "run-2"))
    assert why == "the head has kept it no longer"


def test_a_damaged_copy_is_not_published(tmp_path: Path, mine: Path) -> None:
    swap(mine, NAME, "run-2", LOG[:-1] + b"x")
    why = refused(board_in(tmp_path), mine, run_with(log_of(mine, "run-2"), "run-2"))
    assert why == "the head's copy is not what its checksum says"


@pytest.mark.parametrize(
    ("caps", "why"),
    [
        (Caps(file=len(LOG) - 1), f"it has {len(LOG)} bytes; at most {len(LOG) - 1} are copied"),
        (Caps(board=len(LOG) - 1), f"no room in the {len(LOG) - 1} bytes of logs of a board"),
    ],
)
def test_a_log_beyond_a_cap_is_left_out_whole(
    caps: Caps, why: str, tmp_path: Path, home: Path
) -> None:
    assert refused(board_in(tmp_path), home, run_with(log_of(home)), caps) == why


def test_the_cap_of_the_board_counts_the_logs_of_all_runs(tmp_path: Path, home: Path) -> None:
    runs = BoardRuns(board_in(tmp_path), Head(home), Caps(board=len(LOG) + 1))
    first = runs.add(run_with(log_of(home)))
    second = runs.add(run_with(log_of(home, "run-2"), "run-2"))
    assert (len(first.files), len(second.files)) == (2, 1)


@pytest.mark.parametrize("run_id", ["../../x", "..", "", ".x", "a b", "a/b", "<img>", "x" * 200])
def test_a_hostile_run_id_is_no_path(run_id: str, tmp_path: Path, home: Path) -> None:
    board = board_in(tmp_path)
    told = BoardRuns(board, Head(home)).add(run_with(log_of(home), run_id))
    (folder,) = board.joinpath("runs").iterdir()
    assert told.folder == f"runs/{folder.name}"
    assert len(folder.name) == 16
    assert {path.name for path in tmp_path.iterdir()} == {"board"}
