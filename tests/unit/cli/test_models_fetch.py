"""What `benchfarm models fetch` prints, and its exit status."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from controller.cli.models_fetch import line_of, show_events
from controller.contracts.errors import UserError
from controller.contracts.models import FetchEvent
from tests.support.command_line import complaint_of, outcome_of

EVENTS = [
    FetchEvent(state="planned", name="2 files", total=3_000_000, note="1 of unknown size"),
    FetchEvent(state="loading", name="a.zip", done=0, total=3_000_000, note="licence: MIT"),
    FetchEvent(state="loading", name="a.zip", done=2_000_000, total=3_000_000),
    FetchEvent(state="added", name="a.zip", done=3_000_000, total=3_000_000),
    FetchEvent(state="loading", name="b\x1b.zip", done=7, note="licence: not known"),
    FetchEvent(state="failed", name="b.zip", note="cannot fetch b.zip: it is gone. Look at c."),
    FetchEvent(state="failed", name="c.zip", note="cannot fetch c.zip: it is gone. Look at b."),
]
LINES = [
    "fetching 2 files, 3.0 MB and 1 of unknown size",
    "a.zip: 3.0 MB, licence: MIT",
    "a.zip: added, 3.0 MB",
    r"b\u001b.zip: size unknown, 7 bytes of it are here, licence: not known",
]


def test_elsewhere_than_on_a_terminal_each_file_has_a_line_at_its_begin_and_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_events(EVENTS, Console(file=io.StringIO()))
    printed = capsys.readouterr()
    assert printed.out.splitlines() == LINES
    assert printed.err.splitlines() == [event.note for event in EVENTS[-2:]]


def test_a_single_failure_is_the_error_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def events() -> Iterator[FetchEvent]:
        yield from EVENTS[:-1]
        raise UserError("fetch b.zip", "it is gone", "Look at c.")

    with pytest.raises(UserError):
        show_events(events(), Console(file=io.StringIO()))
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_a_bar_too(capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    show_events(EVENTS, console)
    assert "2.0/3.0 MB" in screen.getvalue()
    said = capsys.readouterr().out + screen.getvalue()
    assert all(line in said for line in LINES)


CHECKED = [
    FetchEvent(state="checking", name="a.zip", done=0, total=3_000_000),
    FetchEvent(state="checking", name="a.zip", done=2_000_000, total=3_000_000),
    FetchEvent(state="checking", name="b.zip", done=0, total=9_000_000),
    FetchEvent(state="there", name="b.zip"),
]


def test_elsewhere_than_on_a_terminal_each_file_that_is_checked_has_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_events(CHECKED, Console(file=io.StringIO()))
    assert capsys.readouterr().out.splitlines() == [
        "a.zip: in the store, checking its 3.0 MB",
        "b.zip: in the store, checking its 9.0 MB",
        "b.zip: in the store already",
    ]


def test_on_a_terminal_each_file_that_is_checked_has_a_bar(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = io.StringIO()
    show_events(CHECKED, Console(file=screen, force_terminal=True, width=100, color_system=None))
    assert "checking a.zip" in screen.getvalue()
    assert "2.0/3.0 MB" in screen.getvalue()
    assert "checking b.zip" in screen.getvalue()
    assert "0.0/9.0 MB" in screen.getvalue()
    assert "checking its" not in capsys.readouterr().out + screen.getvalue()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (FetchEvent(state="checking", name="a", total=7), "a: in the store, checking its 7 bytes"),
        (FetchEvent(state="sizing", name="2 files"), "looking up the size of 2 files"),
        (FetchEvent(state="there", name="a"), "a: in the store already"),
        (FetchEvent(state="waiting", name="a"), "a: another process fetches it; waiting for that"),
        (
            FetchEvent(state="manual", name="w/full/samples", note="Get it."),
            "w/full/samples: not to be downloaded. Get it.",
        ),
    ],
)
def test_each_event_is_a_line(event: FetchEvent, line: str) -> None:
    assert line_of(event) == line


def test_a_mirror_without_the_files_ends_with_status_2_and_what_to_copy(tmp_path: Path) -> None:
    home, mirror = tmp_path / "home", tmp_path / "mirror"
    mirror.mkdir()
    words = ("models", "fetch", "edsr", "--dataset", "tiny", "--from", str(mirror))
    said, complaint, status = outcome_of(home, *words)
    assert said == (
        "looking up the size of 4 files\nfetching 4 files, 0 bytes and 4 of unknown size\n"
    )
    assert status == 2
    *each, last = complaint.splitlines()
    assert len(each) == 4
    assert (
        "(md5:134e9f96e4bbd5e925093e30a4433548), then run `benchfarm models add PATH`." in each[2]
    )
    assert "cannot fetch 4 files: each has a line above." in last


def test_json_has_what_became_of_each_file(tmp_path: Path) -> None:
    home, mirror = tmp_path / "home", tmp_path / "mirror"
    mirror.mkdir()
    words = ("models", "fetch", "mobilebert", "--dataset", "full", "--from", str(mirror), "--json")
    said, complaint, status = outcome_of(home, *words, "--numerics", "int8")
    assert (status, complaint.count("\n")) == (2, 1)
    found = {one["name"]: one for one in json.loads(said)}
    assert {name: one["state"] for name, one in found.items()} == {
        "mobilebert_int8_384_nnapi.tflite": "failed",
        "dev-v1.1.json": "failed",
        "mobilebert/full/samples": "failed",
    }
    note = found["mobilebert/full/samples"]["note"]
    assert "run `benchfarm models prepare squad FOLDER`" in note


def test_a_call_without_a_task_is_one_line(tmp_path: Path) -> None:
    complaint = complaint_of(tmp_path / "home", "models", "fetch")
    assert "no task is named. Name tasks, or --suite VERSION." in complaint
    assert not (tmp_path / "home").exists()
