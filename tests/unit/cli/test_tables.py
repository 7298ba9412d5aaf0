"""What people see of words that come from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.table import Table

from controller.cli import results
from controller.cli.common import show_table
from controller.runtime.run_files import RunFiles
from tests.support.artefacts import Head, bring_home
from tests.support.sweep_examples import result


def test_words_from_outside_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("why")
    words = "that failed: [/dev/bus/usb] busy [enforce fail at alloc.cpp] :phone:"
    table.add_row(words)
    show_table(table)
    assert words in capsys.readouterr().out


def test_operators_are_shown_from_the_head_s_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = "/elsewhere/agent/host-1/runs/run-{}/1/op_profile.json"
    for number, (content, why) in enumerate(
        (
            ('[{"node_type": "CONV_2D", "avg_ms": "1.5"}]', ""),
            *(("[1]", "it is not a mapping"), ("[", "not JSON")),
            (None, "operator profile: cannot read 1/op_profile.json of run run-3: the head has no"),
        )
    ):
        run = f"run-{number}"
        if content:
            kept = tmp_path / "agent" / "host-1" / "runs" / run / "1" / "op_profile.json"
            kept.parent.mkdir(parents=True)
            kept.write_text(content)
        bring_home(tmp_path)
        record = result(run_id=run, artefacts={results.OP_PROFILE: where.format(number)})
        results._show_operators(RunFiles(Head(tmp_path), run), record)
        shown = capsys.readouterr()
        assert why in shown.err
        assert bool(shown.err) is bool(why)
        assert ("CONV_2D" in shown.out) is (not why)
