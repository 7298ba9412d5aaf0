"""What people see of words that come from anywhere."""

from __future__ import annotations

import pytest
from rich.table import Table

from controller.cli.common import show_table


def test_words_from_outside_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("why")
    words = "that failed: [/dev/bus/usb] busy [enforce fail at alloc.cpp] :phone:"
    table.add_row(words)
    show_table(table)
    assert words in capsys.readouterr().out
