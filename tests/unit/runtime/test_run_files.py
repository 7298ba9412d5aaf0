"""A run's files are found by their names, and their contents are what their checksums say."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.errors import CopyDamaged, NotFound
from controller.runtime.run_files import LOGS, RunFiles, name_of
from tests.support.artefacts import (
    LOG,
    TRACE,
    Head,
    announce,
    copy_of,
    fill_artefacts,
    noise,
    swap,
)
from tests.support.sweep_examples import result

SUMMARY = "performance/mlperf_log_summary.txt"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fill_artefacts(tmp_path / "artefacts", "run-1")
    return tmp_path


@pytest.fixture
def files(home: Path) -> RunFiles:
    return RunFiles(Head(home), "run-1")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/agent/h/runs/run-1/2/performance/x.txt", "performance/x.txt"),
        ("/a/agent/h/runs/run-1/2/profile", "profile"),
        ("/a/agent/h/runs/run-1/1/x.txt", ""),
        ("/a/agent/h/runs/run-10/2/x.txt", ""),
        ("/a/runs/other/2/x.txt", ""),
        ("x.txt", ""),
        ("", ""),
    ],
)
def test_the_path_that_an_agent_told_is_a_name(path: str, name: str) -> None:
    assert name_of(result(run_id="run-1", attempt=2), path) == name


def test_what_the_head_has_is_fetched_under_its_name_and_removed(files: RunFiles) -> None:
    one = files.at_hand(1, SUMMARY)
    with files.fetched([one, files.at_hand(2, "trace.json")]) as folder:
        assert (folder / SUMMARY).read_bytes() == LOG
        assert (folder / "trace.json").read_bytes() == TRACE
        assert len([path for path in folder.rglob("*") if path.is_file()]) == 2
    assert not folder.exists()


@pytest.mark.parametrize(
    ("attempt", "name", "said"),
    [
        (2, "late.bin", "cannot read 2/late.bin of run run-1: it is still with agent host-1. Rep"),
        (1, "latencies_ns.npy", "the head has kept it no longer. Look for it on its agent's host"),
        (1, "trace.json", "the head knows of no such file. Repeat it later"),
        (1, "", "the head knows of no such file"),
        (1, "../../store.sqlite", "the head knows of no such file"),
    ],
)
def test_what_it_has_not_is_said_with_what_to_do(
    files: RunFiles, attempt: int, name: str, said: str
) -> None:
    with pytest.raises(NotFound) as told:
        files.at_hand(attempt, name)
    assert said in str(told.value)


def test_of_a_run_without_any_that_is_said(home: Path, tmp_path: Path) -> None:
    for head in (Head(home), Head(tmp_path / "never made")):
        with pytest.raises(NotFound, match=r"x of run none: the head has no copy of it\. Repeat"):
            RunFiles(head, "none").at_hand(1, "x")


def test_files_beside_another_are_of_its_attempt_and_folder(home: Path, files: RunFiles) -> None:
    summary = files.at_hand(1, SUMMARY)
    assert files.beside(summary, LOGS) == [summary]
    announce(home, "performance/mlperf_log_trace.json", "run-1")
    announce(home, "accuracy/mlperf_log_trace.json", "run-1")
    with pytest.raises(NotFound, match=r"performance/mlperf_log_trace\.json .* still with agent"):
        RunFiles(Head(home), "run-1").beside(summary, LOGS)


def test_a_copy_of_another_content_is_noticed_and_leaves_no_file(
    home: Path, files: RunFiles, tmp_path: Path
) -> None:
    for content in (noise(len(TRACE), seed=5), TRACE[:-1], TRACE + b"x"):
        swap(home, "trace.json", "run-1", content)
        one = files.at_hand(2, "trace.json")
        with pytest.raises(CopyDamaged, match="the head's copy is not what its checksum says"):
            files.keep(one, tmp_path / "out" / "trace.json")
        assert [*(tmp_path / "out").iterdir()] == []


def test_a_copy_that_cannot_be_read_is_said(home: Path, files: RunFiles) -> None:
    copy = copy_of(home, "trace.json", "run-1")
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    one = files.at_hand(2, "trace.json")
    with pytest.raises(CopyDamaged, match=r"copy cannot be read\. Run .*store check"):
        b"".join(files.pieces(one))


def test_a_copy_that_is_lost_is_as_one_that_expired(home: Path, files: RunFiles) -> None:
    copy_of(home, "trace.json", "run-1").unlink()
    with pytest.raises(NotFound, match="the head has kept it no longer"):
        files.at_hand(2, "trace.json")
