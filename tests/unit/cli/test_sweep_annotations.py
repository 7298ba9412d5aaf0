"""`sweep tag` and `sweep note`, and where tags and notes are shown."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from controller.cli import report
from controller.contracts.annotations import Note, SweepAnnotations
from controller.runtime.client import FarmClient
from controller.scheduling.annotating import tagged
from controller.store.integrity import check, salvage
from controller.store.sqlite import SqliteStore
from tests.support.command_line import complaint_of, printed_by
from tests.support.sample_store import make, words_on
from tests.support.store_examples import sweep_record

FIRST, SECOND = (sweep_record(generation=n, repeats=12).sweep_id for n in (1, 2))
STEERING = "see \u202e\u0085\u200bthis"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("annotated")
    make(home / "store.sqlite")
    with closing(SqliteStore.open(home / "store.sqlite")) as store:
        note = Note(number=1, text=STEERING, who="ann", at=3000.25)
        store.save_annotations(SweepAnnotations(sweep_id=SECOND, notes=(note,), noted=1))
    return home


def test_they_are_read_without_a_farm(home: Path) -> None:
    assert printed_by(home, "sweep", "tag", FIRST) == f"sweep {FIRST}: g1, paper\n"
    assert printed_by(home, "sweep", "note", FIRST) == (
        f"sweep {FIRST}: note 1: =1+1 <b>törö</b> (ann, 1970-01-01 00:50 UTC)\n"
    )
    assert printed_by(home, "sweep", "tag", SECOND) == f"sweep {SECOND}: no tags\n"
    said = json.loads(printed_by(home, "sweep", "note", FIRST, "--json"))
    assert SweepAnnotations.model_validate(said) == words_on(FIRST, 1)


def test_sweep_status_shows_both_and_filters_by_tag(home: Path) -> None:
    said = printed_by(home, "sweep", "status", FIRST)
    assert "tags: g1, paper\nnote 1: =1+1 <b>törö</b> (ann, " in said
    every = printed_by(home, "sweep", "status")
    assert FIRST in every
    assert SECOND in every
    assert "g1, paper" in every
    some = printed_by(home, "sweep", "status", "--tag", "g1", "--tag", "paper")
    assert FIRST in some
    assert SECOND not in some
    (one,) = json.loads(printed_by(home, "sweep", "status", "--tag", "g1", "--json"))
    assert (one["sweep_id"], one["tags"], len(one["notes"])) == (FIRST, ["g1", "paper"], 1)


def test_a_note_steers_no_terminal(home: Path) -> None:
    for call in (("sweep", "note", SECOND), ("sweep", "status", SECOND)):
        said = printed_by(home, *call)
        assert "see \\u202e\\u0085\\u200bthis (ann, " in said


def test_results_have_the_tags_in_json_and_csv(home: Path, tmp_path: Path) -> None:
    csv = tmp_path / "r.csv"
    printed_by(home, "results", "export", str(csv), "--tag", "g1", "--format", "csv")
    head, *rows = csv.read_text().splitlines()
    place = head.split(",").index("tags")
    assert {row.split(",")[place] for row in rows} == {"g1 paper"}
    found = json.loads(printed_by(home, "results", "list", "--sweep", FIRST, "--json"))
    assert {tuple(result["tags"]) for result in found} == {("g1", "paper")}
    assert "=1+1" not in csv.read_text()


def test_a_report_has_both(home: Path) -> None:
    with closing(SqliteStore.open_reader(home / "store.sqlite")) as store:
        said = dict(report._sweep(store, FIRST).facts)
    assert said["Tags"] == "g1, paper"
    assert said["Note 1"] == "=1+1 <b>törö</b> (ann, 1970-01-01 00:50 UTC)"


def test_a_salvaged_store_keeps_them(home: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite"
    assert salvage(home / "store.sqlite", new).damage == []
    found = check(new)
    assert (found.damage, found.sound["tagged or noted sweeps"]) == ([], 4)


def test_a_change_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FarmClient, "annotate", lambda _, id_, change: tagged(words_on(id_, 1), change)
    )
    said = printed_by(home, "sweep", "tag", FIRST, "v2", "--remove", "g1")
    assert said == f"sweep {FIRST}: paper, v2\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tag", FIRST, "A b"), "cannot use tag 'A b': it is not allowed. Give 1 to 64 lower-case"),
        (("tag", FIRST, "a\nb"), "cannot use tag 'a\\nb': it is not allowed."),
        (("tag", FIRST, "a\x1b[31m"), "cannot use tag 'a\\x1b[31m': it is not allowed."),
        (("tag", FIRST, "=cmd"), "cannot use tag '=cmd': it is not allowed."),
        (("tag", FIRST, ""), "cannot use tag '': it is not allowed."),
        (("tag", FIRST, "--remove", "A"), "cannot use --remove 'A': it is not allowed."),
        (("tag", FIRST, "a", "--remove", "a"), "--remove names it, too. Leave one of them out."),
        (("tag", FIRST, *map(str, range(33))), "cannot use so many tags (33): it is not allowed."),
        (("tag", FIRST, "x"), "Run `benchfarm up`"),
        (("tag", "demmo", "x"), "no such sweep. Did you mean demo?"),
        (("note", FIRST, "a\nb"), "Give one line without control characters."),
        (("note", FIRST, ""), "Give a text that is not empty."),
        (("note", FIRST, "x" * 2**20), "Give a text of at most 1000 characters."),
        (("note", FIRST, "x", "--remove", "1"), "a note and --remove are both given."),
        (("note", FIRST, "--remove", "0"), "cannot use --remove 0: it is not allowed."),
        (("note", FIRST, "--remove", "x"), "see: benchfarm sweep note --help"),
        (("status", FIRST, "--tag", "g1"), "cannot list sweeps by tag: sweep"),
        (("status", "--tag", "papre"), "none has it. Did you mean paper? Known: g1, g3"),
    ],
)
def test_a_mistake_is_one_line(home: Path, arguments: tuple[str, ...], said: str) -> None:
    complaint = complaint_of(home, "sweep", *arguments)
    assert said in complaint
    assert len(complaint) < 400
