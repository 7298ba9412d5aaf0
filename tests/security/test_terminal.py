"""Words of phones, workers and users can't steer the terminal that they are printed on."""

from __future__ import annotations

import io
import json
import logging
import sys
import unicodedata
from pathlib import Path

import pytest
from rich.table import Table

from controller.cli import main
from controller.cli.common import show_json, show_table
from controller.cli.progress import show_progress
from controller.cli.visible_console import VisibleConsole
from controller.contracts.errors import UserError
from controller.contracts.result import Blame
from controller.contracts.run import Run, RunState
from controller.contracts.wire import Progress, RunEvent
from controller.platform.terminal import VisibleFormatter, make_visible, say, visible
from controller.reports.html.text import escape
from controller.runtime.watch import SweepView
from tests.support import builders
from tests.support.farm import FarmBox

CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
TITLE = "\x9d0;owned\x9c"
CLEAR = "\x1bc\x1b[2J\x1b[1;1H"
HOSTILE = f"Pixel{CLIPBOARD}{TITLE}{CLEAR}\r\b\x7f\u202eexe.cod\u2066\u200b\u2028\U000e0041!"
IN_FACTS = f"Pixel{TITLE}\u202eexe.cod\u2066"
"""What a phone's description lets pass; the rest is refused there."""
MARKUP = "[link=https://evil.example]click[/link] [bold]"
STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")


def assert_harmless(printed: str) -> None:
    """See that a terminal would only show what was printed."""
    left = printed.replace("\n", "")
    assert [ascii(c) for c in left if unicodedata.category(c) in STEERING] == []
    assert "Pixel" in printed
    assert r"\u001b]52;c;cm0gLXJmIC8=\u0007" in printed


def test_every_character_that_steers_is_made_visible() -> None:
    steering = [
        chr(i)
        for i in range(0x110000)
        if unicodedata.category(chr(i)) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(chr(i)) in ("LRE", "RLE", "LRO", "RLO", "PDF")
        or unicodedata.bidirectional(chr(i)) in ("LRI", "RLI", "FSI", "PDI")
    ]
    assert len(steering) > 2000
    for one in steering:
        seen = visible(one)
        assert seen.isascii()
        assert seen.isprintable()
        assert json.loads(f'"{seen}"') == one, "it can be told what it was"
    assert visible("a\nb", lines=True) == "a\nb"
    assert visible("– × ü 日本 👩") == "– × ü 日本 👩"


def test_lines_tables_and_json_show_what_would_steer(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    say(HOSTILE, err=True)
    printed = capsys.readouterr()
    assert_harmless(printed.out)
    assert printed.out.count("\n") == 1
    assert_harmless(printed.err)

    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE + MARKUP)
    show_table(table)
    printed = capsys.readouterr()
    assert_harmless(printed.out)
    assert len({len(line) for line in printed.out.splitlines()[1:]}) == 1, "its frame stays whole"

    device = builders.registration().devices[0].model_copy(update={"facts": {"model": HOSTILE}})
    show_json([device])
    printed = capsys.readouterr()
    assert_harmless(printed.out)
    show_json(device)
    printed = capsys.readouterr()
    assert_harmless(printed.out)
    assert json.loads(printed.out)["facts"]["model"] == HOSTILE


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_hostile_names_and_phases(terminal: bool) -> None:
    run = builders.run(of=builders.cell(stack=HOSTILE, note=MARKUP))
    refused = {"phase": HOSTILE, "values": {HOSTILE: 1.0}}  # by its contract
    progress = Progress(done=1, total=2, phase="training").model_copy(update=refused)
    states = {run.run_id: RunState.LEASED}
    views = [
        SweepView("demo", states, _event(run, progress)),
        SweepView("demo", states, _event(run, None)),
    ]
    out = io.StringIO()
    console = VisibleConsole(file=out, force_terminal=terminal, width=3000, markup=False)
    show_progress(views, {run.run_id: run, "other": builders.run("other")}, console, lambda: ())
    said = out.getvalue()
    assert r"\u001b]52;c;cm0gLXJmIC8=\u0007" in said
    for attack in (CLIPBOARD, TITLE, CLEAR, "\u202e", "\x1b]8;"):
        assert attack not in said
    if terminal:
        assert MARKUP in said


def _event(run: Run, progress: Progress | None) -> RunEvent:
    event = RunEvent.of(run, progress)
    return event.model_copy(update={"state": RunState.LEASED, "device_id": HOSTILE})


def test_commands_show_what_a_store_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model's name, a label, a sweep's name, a failure's message, each as its author likes."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    box = FarmBox(home / "store.sqlite")
    harmless = builders.registration()
    known = harmless.devices[0].model_copy(update={"facts": {"model": IN_FACTS}})
    box.farm.register(harmless.model_copy(update={"devices": (known,)}))
    box.submit(builders.sweep())
    (job,) = box.ask().run
    message = HOSTILE + "\nbenchfarm: all is well"
    failure = builders.failure(Blame.WORKLOAD).model_copy(update={"message": message})
    box.report(job.ref, failure)
    box.close()
    monkeypatch.setenv("BENCHFARM_HOME", str(home))
    for command in ("device list", "device show cpu-1", "results list --failures", "sweep list"):
        monkeypatch.setattr(sys, "argv", ["benchfarm", *command.split()])
        with pytest.raises(SystemExit):
            main.main()
        printed = capsys.readouterr()
        left = (printed.out + printed.err).replace("\n", "")
        assert [ascii(c) for c in left if unicodedata.category(c) in STEERING] == [], command


def test_errors_tracebacks_and_logs_show_what_would_steer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise UserError(f"reading {HOSTILE}", HOSTILE, "do not")

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.setattr(sys, "argv", ["benchfarm"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    with pytest.raises(SystemExit):
        main.main()
    assert_harmless(capsys.readouterr().err)

    make_visible()
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    printed = capsys.readouterr().err
    assert_harmless(printed)
    assert printed.startswith("Traceback")

    record = logging.LogRecord("x", logging.INFO, "", 0, "phone %s", (HOSTILE,), None)
    assert_harmless(VisibleFormatter().format(record))
    assert logging.lastResort
    assert_harmless(logging.lastResort.format(record))


def test_pages_show_what_would_turn_their_text() -> None:
    assert_harmless(escape(HOSTILE))
