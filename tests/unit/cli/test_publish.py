"""`benchfarm publish` on a store that no farm is up for."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

from controller.contracts.result import Failure, Result
from controller.scheduling.binding import runs_of
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.altered_logs import RECORDED, in_detail, plus
from tests.support.artefacts import bring_home, copy_of
from tests.support.command_line import benchfarm, complaint_of, outcome_of
from tests.support.logged_results import CELL, logged_result


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two sweeps of a priced server and a phone, whose head has the runs' logs."""
    home = tmp_path_factory.mktemp("home")
    store = SqliteStore.open(home / "store.sqlite")
    priced = store_examples.CPU.device.model_copy(update={"labels": {"price_per_hour": "3.6"}})
    cpu = store_examples.CPU.model_copy(update={"device": priced})
    try:
        store.save_agent(store_examples.AGENT, [cpu, store_examples.PHONE])
        for generation in (1, 2):
            record = store_examples.sweep_record(generation=generation)
            made = runs_of(record.sweep, record.sweep_id, [CELL], now=1000.5)
            runs = store.add_sweep(record, made)
            devices = (cpu, cpu, store_examples.PHONE)
            for run, device, ends in zip(runs, devices, (True, False, True), strict=True):
                logs = home / "agent/host-1/runs" / run.run_id / "1/performance"
                shutil.copytree(RECORDED / "single_stream", logs)
                outcome: Result | Failure = (
                    logged_result(logs) if ends else store_examples.failure()
                )
                granted = store_examples.grant(run, device)
                store.save_runs([granted, store_examples.report(granted.run, outcome)])
    finally:
        store.close()
    bring_home(home)
    shutil.rmtree(home / "agent")  # what it keeps is another host's
    return home


def files_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_board_has_pages_data_logs_and_checksums(home: Path, tmp_path: Path) -> None:
    board = tmp_path / "above" / "board"
    done = benchfarm(home, "publish", str(board), "--currency", "EUR")
    assert f"board written to {board / 'index.html'}: 2 rankings" in done.stdout.decode()
    assert "unsigned: add --key FILE" in done.stdout.decode()
    assert [*board.parent.iterdir()] == [board]
    files = files_in(board)
    told = json.loads(files["data/board.json"])
    assert told["currency"] == "EUR"
    rows = [row for ranking in told["rankings"] for row in ranking["rows"]]
    runs = [run for row in rows for run in row["runs"]]
    assert len({run["sweep"] for run in runs}) == 2
    for run in runs:
        for file in run["files"]:
            assert len(files[f"{run['folder']}/{file['name']}"]) == file["size"]
        for log in (RECORDED / "single_stream").iterdir():
            assert files[f"{run['folder']}/performance/{log.name}"] == log.read_bytes()
    for row in rows:
        assert f"rows/{row['row']}.html" in files
        assert bool(row["costs"]) is (not row["device"]["virtual"])
    text = b"".join(files.values()).decode()
    assert str(home) not in text


def test_every_figure_can_be_computed_again_from_the_files_of_its_runs(
    home: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    benchfarm(home, "publish", str(board))
    told = json.loads(board.joinpath("data", "board.json").read_text())
    checked = 0
    for ranking in told["rankings"]:
        metric = ranking["metric"]["name"]
        for row in ranking["rows"]:
            files = [board / run["folder"] / "result.json" for run in row["runs"] if run["used"]]
            found = [json.loads(file.read_text())["metrics"][metric] for file in files]
            samples = [s for of in found for s in of["samples"] or [of["value"]]]
            assert row["value"] == (statistics.median(samples) if samples else None)
            checked += bool(samples)
    assert checked == 2


def test_results_verify_checks_the_runs_of_a_board_as_its_pages_say(
    home: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    benchfarm(home, "publish", str(board))
    told = json.loads(board.joinpath("data", "board.json").read_text())
    row = next(row for ranking in told["rankings"] for row in ranking["rows"] if row["runs"])
    folder = row["runs"][0]["folder"]
    page = board.joinpath("rows", f"{row['row']}.html").read_text()
    assert f"<code>benchfarm results verify {folder}</code>" in page
    said, complained, status = outcome_of(tmp_path, "results", "verify", str(board / folder))
    assert (complained, status) == ("", 0)
    assert "0 different" in said
    in_detail(board / folder / "performance", "result_max_latency_ns", plus(1))
    said, _, status = outcome_of(tmp_path, "results", "verify", str(board / folder))
    assert status == 1


def test_only_chosen_sweeps_are_published(home: Path, tmp_path: Path) -> None:
    chosen = store_examples.sweep_record(generation=2).sweep_id
    benchfarm(home, "publish", str(tmp_path / "board"), "--sweep", chosen, "--sweep", chosen)
    told = json.loads(tmp_path.joinpath("board", "data", "board.json").read_text())
    assert told["facts"]["Sweeps"] == chosen
    complaint = complaint_of(home, "publish", str(tmp_path / "other"), "--sweep", "nobody")
    assert "cannot find sweep nobody" in complaint
    assert not tmp_path.joinpath("other").exists()


def test_a_board_replaces_a_board_and_nothing_else(home: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    benchfarm(home, "publish", str(board))
    old = files_in(board)
    benchfarm(home, "publish", str(board), "--currency", "CHF")
    assert json.loads(files_in(board)["data/board.json"])["currency"] == "CHF"
    assert files_in(board).keys() == old.keys()
    assert [*tmp_path.iterdir()] == [board]
    board.joinpath("mine.txt").write_text("mine")
    before = files_in(board)
    complaint = complaint_of(home, "publish", str(board))
    assert "'mine.txt' is not part of the board in it. Move it elsewhere" in complaint
    assert files_in(board) == before
    strange = tmp_path / "strange"
    strange.mkdir()
    strange.joinpath("thesis.tex").write_text("years of work")
    complaint = complaint_of(home, "publish", str(strange))
    assert "it is not empty and holds no board. Name a new or an empty folder" in complaint
    assert strange.joinpath("thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("key", ["missing", "no key", "open to all"])
def test_a_failed_publish_leaves_the_old_board(key: str, home: Path, tmp_path: Path) -> None:
    if not shutil.which("ssh-keygen"):
        pytest.skip("openssh-client is not installed")
    board = tmp_path / "board"
    benchfarm(home, "publish", str(board))
    before = files_in(board)
    path = tmp_path / "key"
    if key == "no key":
        path.write_text("x")
    if key == "open to all":  # ssh-keygen tells its fingerprint, and signs with it no more
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
        path.chmod(0o644)
    complaint = complaint_of(home, "publish", str(board), "--key", str(path))
    assert f"cannot sign with {path}: " in complaint
    assert files_in(board) == before
    assert {*tmp_path.iterdir()} <= {board, path, path.with_suffix(".pub")}


def test_a_folder_that_cannot_be_written_is_said_in_a_line(home: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_text("x")
    complaint = complaint_of(home, "publish", str(tmp_path / "file" / "board"))
    assert complaint.startswith("benchfarm: cannot ")
    assert complaint.count("\n") == 1


def test_a_reader_checks_the_signature_as_the_page_says(home: Path, tmp_path: Path) -> None:
    if not shutil.which("ssh-keygen"):
        pytest.skip("openssh-client is not installed")
    key, board = tmp_path / "key", tmp_path / "board"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    done = benchfarm(home, "publish", str(board), "--key", str(key))
    (signer,) = [w for w in done.stdout.decode().split() if w.startswith("SHA256:")]
    assert signer in board.joinpath("index.html").read_text()
    told = "ssh-keygen -Y check-novalidate -n benchfarm -s SHA256SUMS.sig < SHA256SUMS"
    assert told.replace("<", "&lt;") in board.joinpath("index.html").read_text()
    checks = ["sha256sum --check --quiet SHA256SUMS", told]
    said = [
        subprocess.run(["sh", "-c", check], cwd=board, check=True, capture_output=True, text=True)
        for check in checks
    ]
    assert signer in said[1].stdout
    board.joinpath("SHA256SUMS").write_text("")
    done_again = subprocess.run(["sh", "-c", told], cwd=board, check=False, capture_output=True)
    assert done_again.returncode != 0


def test_runs_whose_logs_the_head_has_not_are_published_and_counted(
    home: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(home, tmp_path / "home")
    board = tmp_path / "board"
    _, complained, status = outcome_of(other, "publish", str(board))
    assert (complained, status) == ("", 0)
    told = json.loads(board.joinpath("data", "board.json").read_text())
    run = next(run for one in told["rankings"] for row in one["rows"] for run in row["runs"])
    name = "performance/mlperf_log_detail.txt"
    copy_of(other, name, run["run"]).unlink()
    _, complained, status = outcome_of(other, "publish", str(board))
    assert status == 0
    assert complained.count("\n") == 1
    assert "runs are published without all their logs" in complained
    assert complained.endswith(": the head has kept it no longer\n")


def test_a_folder_of_a_user_who_is_not_there_is_one_line(home: Path) -> None:
    said = complaint_of(home, "publish", "~nosuch/board")
    seen = "there is no such user, or none with a home. Name a folder of your own."
    assert said == f"benchfarm: cannot publish to ~nosuch/board: {seen}\n"
