"""`benchfarm results verify PATH`: what can't be looked through, and what a path doesn't tell."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from controller.cli.verified_folders import look_through
from controller.contracts.suite_rules import load_suites
from controller.loadgen.answers import read_answers
from controller.loadgen.logs import ACCURACY, DETAIL, SUMMARY, TRACE, LogUnreadable
from controller.loadgen.run_logs import read_run
from controller.loadgen.texts import MOST_EMPTY, MOST_LINES
from tests.support.altered_logs import copied
from tests.support.command_line import complaint_of, outcome_of, printed_by

VERIFY = ("results", "verify")


@pytest.mark.parametrize(
    "subject",
    ["x" * 6_000, "x/" * 3_000, "/" + "x" * 6_000, "a/\0b", "x" * 300 + "/y"],
    ids=["word", "path", "root", "null", "name"],
)
def test_what_cannot_be_a_path_is_refused_in_one_short_line(subject: str, tmp_path: Path) -> None:
    complaint = complaint_of(tmp_path, *VERIFY, subject)
    assert complaint.startswith("benchfarm: cannot verify ")
    assert len(complaint) < 400


def test_a_file_is_refused_and_its_folder_named(tmp_path: Path) -> None:
    folder = copied("offline", tmp_path)
    complaint = complaint_of(tmp_path, *VERIFY, str(folder / DETAIL))
    assert "it is a file, not a folder. Name its folder, " in complaint


def test_a_folder_that_is_a_link_is_told(tmp_path: Path) -> None:
    real = copied("offline", tmp_path / "real")
    tree = tmp_path / "tree"
    copied("single_stream", tree)
    tree.joinpath("linked").symlink_to(real)
    said, complained, status = outcome_of(tmp_path, *VERIFY, str(tree))
    assert status == 2
    assert complained.count("\n") == 1
    assert "linked: a link to a folder; links are not followed" in complained
    assert said.count("0 different") == 1
    printed_by(tmp_path, *VERIFY, str(tree / "linked"))


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """One whose path is longer than the system takes, which nobody can read, root neither."""
    tree = tmp_path / "tree"
    copied("offline", tree)
    place = os.open(tree, os.O_RDONLY)
    try:
        for _ in range(20):
            os.mkdir("x" * 250, dir_fd=place)
            inner = os.open("x" * 250, os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = inner
    finally:
        os.close(place)
    try:
        found = look_through(str(tree))
        assert [folder.name for folder in found.logs] == ["offline"]
        assert [*found.skipped.values()] == ["File name too long"]
        _, complained, status = outcome_of(tmp_path, *VERIFY, str(tree))
        assert (status, complained.count("\n")) == (2, 1)
        assert len(complained) < 600
    finally:
        shutil.rmtree(tree)


def test_a_run_that_is_invalid_is_called_so_beside_its_count(tmp_path: Path) -> None:
    invalid, valid = copied("server_late", tmp_path), copied("offline", tmp_path)
    said = printed_by(tmp_path, *VERIFY, str(invalid))
    assert "0 different, 0 that can't be checked; the run itself is INVALID" in said
    assert "INVALID" not in printed_by(tmp_path, *VERIFY, str(valid))


def test_empty_lines_of_an_accuracy_log_are_bounded(tmp_path: Path) -> None:
    path = copied("accuracy", tmp_path) / ACCURACY
    text = path.read_text()
    for blank in ("\n", "[\n", " " * 40 + "\n"):
        path.write_text(blank * (MOST_EMPTY + 10) + text)
        with pytest.raises(LogUnreadable, match="more than 10000 empty lines"):
            read_answers(path.parent)
    path.write_text("\n" * 100 + text)
    assert read_answers(path.parent)


@pytest.mark.parametrize("name", [DETAIL, SUMMARY, TRACE])
def test_empty_lines_of_other_logs_are_bounded(name: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / name
    path.write_text("\n" * (MOST_LINES + 1) + path.read_text())
    with pytest.raises(LogUnreadable, match=f"{name}: more than "):
        read_run(path.parent)


# --- accuracy -------------------------------------------------------------------------------------


def accuracy_check(folder: Path, *options: str) -> tuple[dict[str, str], object]:
    """Return the check of the accuracy, and the status."""
    said, _, status = outcome_of(folder.parent, *VERIFY, str(folder), "--json", *options)
    (found,) = json.loads(said)
    return found["checks"][-1], status


def test_without_a_task_the_target_of_an_accuracy_run_is_not_known(tmp_path: Path) -> None:
    check, status = accuracy_check(copied("accuracy", tmp_path))
    assert (check["figure"], check["verdict"], status) == ("accuracy", "can't be checked", 0)
    assert "give --suite-version and --task" in check["by"]


def test_an_accuracy_that_nobody_says_cannot_be_checked(tmp_path: Path) -> None:
    folder = copied("accuracy", tmp_path)
    options = ("--suite-version", "v4.0", "--task", "mobilenet_edgetpu")
    check, _ = accuracy_check(folder, *options)
    assert (check["figure"], check["verdict"]) == ("accuracy", "can't be checked")
    assert "there is no accuracy.txt" in check["by"]
    folder.joinpath("accuracy.txt").write_text("nonsense\n")
    check, _ = accuracy_check(folder, *options)
    assert check["verdict"] == "can't be checked"


@pytest.mark.parametrize(("share", "verdict"), [(0.5, "differs"), (0.99, "same")])
def test_an_accuracy_is_held_against_the_target_of_its_task(
    share: float, verdict: str, tmp_path: Path
) -> None:
    rules = next(rules for rules in load_suites() if rules.version == "v4.0")
    task = next(
        name
        for name, of in rules.tasks.items()
        if of.targets and all(target.metric == "top1" for target in of.targets)
    )
    folder = copied("accuracy", tmp_path)
    folder.joinpath("accuracy.txt").write_text(f"accuracy={share * 100}%, good=1, total=2\n")
    check, _ = accuracy_check(folder, "--suite-version", "v4.0", "--task", task)
    assert (check["figure"], check["verdict"]) == ("top1", verdict)
    assert rules.title in check["by"]


def test_an_accuracy_of_another_metric_is_told(tmp_path: Path) -> None:
    folder = copied("accuracy", tmp_path)
    folder.joinpath("accuracy.txt").write_text("mAP=22.5%\n")
    check, _ = accuracy_check(folder, "--suite-version", "v4.0", "--task", "mobilenet_edgetpu")
    assert (check["figure"], check["verdict"]) == ("mAP", "can't be checked")
    assert "is of top1" in check["by"]
