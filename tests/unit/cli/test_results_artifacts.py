"""`benchfarm results artifacts` lists what a run left, and fetches it whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.support.api import RUN, prepared
from tests.support.artefacts import LOG, RAW, TRACE, noise
from tests.support.command_line import complaint_of, printed_by

LIST = ("results", "artifacts")
SUMMARY = "1/performance/mlperf_log_summary.txt"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("listed") / "home").path


def test_each_is_listed_with_bytes_checksum_and_place(home: Path) -> None:
    printed = printed_by(home, *LIST, RUN[:-2])
    rows = [line.split() for line in printed.splitlines() if "/" in line]
    cells = [[cell for cell in row if cell not in ("│", "┃")] for row in rows]
    contents = (RAW, LOG, noise(10), TRACE)
    names = ("1/latencies_ns.npy", SUMMARY, "2/late.bin", "2/trace.json")
    places = (["expired"], ["head"], ["agent", "host-1"], ["head"])
    assert cells == [
        [name, f"{len(content):,}", *place, hashlib.sha256(content).hexdigest()]
        for name, content, place in zip(names, contents, places, strict=True)
    ]


def test_json_has_the_same(home: Path) -> None:
    found = json.loads(printed_by(home, *LIST, RUN, "--json"))
    assert [one["where"] for one in found] == ["expired", "head", "agent", "head"]
    assert found[3]["sha256"] == hashlib.sha256(TRACE).hexdigest()


def test_a_run_without_any_says_when_they_come(home: Path) -> None:
    results = json.loads(printed_by(home, "results", "list", "--json"))
    other = next(one["run_id"] for one in results if one["run_id"] != RUN)
    assert "They are sent after a run" in printed_by(home, *LIST, other)


@pytest.mark.parametrize(
    "names",
    [(SUMMARY, "2/trace.json"), ("performance/mlperf_log_summary.txt", "trace.json"), ("*.[tj]*",)],
)
def test_what_is_named_is_fetched(home: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = tmp_path / "new" / "folder"
    options = [word for name in names for word in ("--fetch", name)]
    printed = printed_by(home, *LIST, RUN, *options, "-o", str(folder))
    assert (folder / SUMMARY).read_bytes() == LOG
    assert (folder / "2" / "trace.json").read_bytes() == TRACE
    assert hashlib.sha256(TRACE).hexdigest() in printed
    assert sorted(p.name for p in folder.rglob("*") if p.is_file()) == sorted(
        ["mlperf_log_summary.txt", "trace.json"]
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("2/late.bin", "it is still with agent host-1. Repeat it later"),
        ("latencies_ns.npy", "the head has kept it no longer"),
        ("1/trace.json", "the run has 1/latencies_ns.npy, "),
        ("../../x", "Run `benchfarm results artifacts"),
        ("*", "the head has kept it no longer"),
    ],
)
def test_what_cannot_be_fetched_is_said_and_nothing_is_written(
    home: Path, tmp_path: Path, name: str, said: str
) -> None:
    folder = tmp_path / "folder"
    assert said in complaint_of(home, *LIST, RUN, "--fetch", name, "-o", str(folder))
    assert not folder.exists()


def test_an_unknown_run_is_said(home: Path) -> None:
    assert "cannot find run zzz: there is no such run." in complaint_of(home, *LIST, "zzz")


def test_a_file_that_is_there_is_not_replaced(home: Path, tmp_path: Path) -> None:
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "trace.json").symlink_to(tmp_path / "away")
    fetch = (*LIST, RUN, "--fetch", "trace.json", "-o", str(tmp_path))
    assert "exists already" in complaint_of(home, *fetch)
    assert not (tmp_path / "away").exists()


def test_a_folder_that_cannot_be_made_is_said(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    fetch = (*LIST, RUN, "--fetch", "trace.json", "-o", str(tmp_path / "file"))
    assert "cannot create folder" in complaint_of(home, *fetch)


def test_a_damaged_content_leaves_no_file(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home")
    whole = home.artefacts / "content"
    sha256 = hashlib.sha256(TRACE).hexdigest()
    other = hashlib.sha256(LOG).hexdigest()
    (whole / other[:2] / other).replace(whole / sha256[:2] / sha256)
    fetch = (*LIST, RUN, "--fetch", "trace.json", "-o", str(tmp_path / "out"))
    assert "not what its checksum says" in complaint_of(home.path, *fetch)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
