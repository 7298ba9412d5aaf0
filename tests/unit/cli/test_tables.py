"""What people see of words that come from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.table import Table

from controller.cli import results
from controller.cli.common import show_table


def test_words_from_outside_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("why")
    words = "that failed: [/dev/bus/usb] busy [enforce fail at alloc.cpp] :phone:"
    table.add_row(words)
    show_table(table)
    assert words in capsys.readouterr().out


def test_operators_are_shown_from_the_file_that_a_run_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "op_profile.json"
    kept.write_text('[{"node_type": "CONV_2D", "avg_ms": "1.5"}]')
    results._show_operators(str(kept))
    assert "CONV_2D" in capsys.readouterr().out
    for content, why in (("[1]", "it is not a mapping"), ("[", "not JSON"), (None, "No such file")):
        kept.unlink()
        if content:
            kept.write_text(content)
        results._show_operators(str(kept))
        assert why in capsys.readouterr().err
        kept.touch()
