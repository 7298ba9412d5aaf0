"""Logs in a board: only those of the run itself, whole, with their checksums."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from controller.contracts.records import StoredResult
from controller.runtime.board_runs import BoardRuns, Caps
from tests.support.sweep_examples import result

DETAIL = "mlperf_log_detail.txt"
LOG = b":::MLLOG {}\n" * 9


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """The folder of a host's agents, with the logs of one run."""
    folder = tmp_path / "home" / "agent"
    kept = folder / "host-1" / "runs" / "run-1" / "1" / "performance"
    kept.mkdir(parents=True)
    kept.joinpath(DETAIL).write_bytes(LOG)
    tmp_path.joinpath("home", "api-token").write_text("secret")
    tmp_path.joinpath("home", DETAIL).write_text("secret")
    return folder


def log_of(agents: Path, run: str = "run-1", attempt: int = 1) -> Path:
    return agents / "host-1" / "runs" / run / str(attempt) / "performance" / DETAIL


def run_with(artefact: Path | str, run_id: str = "run-1", attempt: int = 1) -> StoredResult:
    return result(run_id=run_id, attempt=attempt, artefacts={"performance_detail": str(artefact)})


def board_in(tmp_path: Path) -> Path:
    board = tmp_path / "board"
    board.mkdir()
    return board


def test_a_run_has_one_folder_with_its_result_and_logs(tmp_path: Path, agents: Path) -> None:
    board = board_in(tmp_path)
    told = BoardRuns(board, agents).add(run_with(log_of(agents)))
    assert (told.folder, told.absent) == ("runs/run-1", {})
    assert [file.name for file in told.files] == ["result.json", f"performance/{DETAIL}"]
    for file in told.files:
        content = board.joinpath(told.folder, file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
    assert board.joinpath(told.folder, "performance", DETAIL).read_bytes() == LOG
    stored = json.loads(board.joinpath(told.folder, "result.json").read_text())
    assert stored["artefacts"] == {"performance_detail": f"performance/{DETAIL}"}
    assert stored["metrics"]["step_time"]["samples"] == [0.5, 0.5, 0.5]
    assert str(tmp_path) not in json.dumps(stored)


def refused(board: Path, agents: Path, of: StoredResult, caps: Caps | None = None) -> str:
    """Add a run; return why its log is absent, and check that nothing of it is in the board."""
    told = BoardRuns(board, agents, caps or Caps()).add(of)
    assert [file.name for file in told.files] == ["result.json"]
    files = [path.name for path in board.rglob("*") if path.is_file()]
    assert files == ["result.json"]
    return told.absent["performance_detail"]


@pytest.mark.parametrize(
    "place",
    [
        *(f"../{DETAIL}", "host-1/runs/run-2/1/performance/" + DETAIL),
        *("host-1/runs/run-1/2/performance/" + DETAIL, "host-1/runs/run-1/1/" + DETAIL),
        *("host-1/runs/run-1/1/other/" + DETAIL, f"x/../../{DETAIL}", f"\0/{DETAIL}"),
        "host-1/runs/run-1/1/performance/../../../../../../" + DETAIL,
    ],
)
def test_no_file_but_a_log_of_the_attempt_is_read(place: str, tmp_path: Path, agents: Path) -> None:
    for other in (
        *("runs/run-2/1/performance", "runs/run-1/2/performance", "runs/run-1/1"),
        "runs/run-1/1/other",
    ):
        agents.joinpath("host-1", other).mkdir(parents=True, exist_ok=True)
        agents.joinpath("host-1", other, DETAIL).write_text("secret")
    why = refused(board_in(tmp_path), agents, run_with(f"{agents}/{place}"))
    assert why.startswith("it is not ")


def test_a_folder_of_the_same_shape_elsewhere_is_not_this_hosts(
    tmp_path: Path, agents: Path
) -> None:
    like = tmp_path / "elsewhere" / log_of(agents).relative_to(agents)
    like.parent.mkdir(parents=True)
    like.write_text("secret")
    why = refused(board_in(tmp_path), agents, run_with(like))
    assert why == "it is not a log in this host's folder of the run"


def test_other_artefacts_are_not_even_mentioned(tmp_path: Path, agents: Path) -> None:
    told = BoardRuns(board_in(tmp_path), agents).add(run_with(agents.parent / "api-token"))
    assert (len(told.files), told.absent) == (1, {})


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, agents: Path) -> None:
    log_of(agents).unlink()
    log_of(agents).symlink_to(agents.parent / DETAIL)
    why = refused(board_in(tmp_path), agents, run_with(log_of(agents)))
    assert why == "it is not a log in this host's folder of the run"


def test_a_pipe_in_place_of_a_log_blocks_nothing(tmp_path: Path, agents: Path) -> None:
    log_of(agents).unlink()
    os.mkfifo(log_of(agents))
    why = refused(board_in(tmp_path), agents, run_with(log_of(agents)))
    assert why == "it is not a regular file"


def test_a_log_of_another_host_is_said_to_be_there(tmp_path: Path, agents: Path) -> None:
    why = refused(board_in(tmp_path), agents, run_with("/elsewhere/" + DETAIL))
    assert why == "it is not kept on this host"


@pytest.mark.parametrize(
    ("caps", "why"),
    [
        (Caps(file=len(LOG) - 1), f"it has {len(LOG)} bytes; at most {len(LOG) - 1} are copied"),
        (Caps(board=len(LOG) - 1), f"no room in the {len(LOG) - 1} bytes of logs of a board"),
    ],
)
def test_a_log_beyond_a_cap_is_left_out_whole(
    caps: Caps, why: str, tmp_path: Path, agents: Path
) -> None:
    assert refused(board_in(tmp_path), agents, run_with(log_of(agents)), caps) == why


def test_the_cap_of_the_board_counts_the_logs_of_all_runs(tmp_path: Path, agents: Path) -> None:
    log_of(agents, "run-2").parent.mkdir(parents=True)
    log_of(agents, "run-2").write_bytes(LOG)
    runs = BoardRuns(board_in(tmp_path), agents, Caps(board=len(LOG) + 1))
    first = runs.add(run_with(log_of(agents)))
    second = runs.add(run_with(log_of(agents, "run-2"), "run-2"))
    assert (len(first.files), len(second.files)) == (2, 1)


@pytest.mark.parametrize("run_id", ["../../x", "..", "", ".x", "a b", "a/b", "<img>", "x" * 200])
def test_a_hostile_run_id_is_no_path(run_id: str, tmp_path: Path, agents: Path) -> None:
    board = board_in(tmp_path)
    told = BoardRuns(board, agents).add(run_with(log_of(agents), run_id))
    (folder,) = board.joinpath("runs").iterdir()
    assert told.folder == f"runs/{folder.name}"
    assert len(folder.name) == 16
    assert {path.name for path in tmp_path.iterdir()} == {"home", "board"}
