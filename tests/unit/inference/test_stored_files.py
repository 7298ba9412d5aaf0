"""What a host says is in its store of models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.inference.stored_files import StoredFiles
from controller.contracts.device import LABEL_CHARACTERS


@pytest.mark.parametrize(
    "name", [b"x\ny", b"\xff", b"\x1b[2J", b"n" * (LABEL_CHARACTERS + 1)], ids=repr
)
def test_a_name_that_cannot_be_sent_is_left_out_and_all_else_told(
    tmp_path: Path, name: bytes
) -> None:
    pins = tmp_path / "pins" / "task"
    pins.mkdir(parents=True)
    (pins / "models").write_text("sha256:0")
    told = StoredFiles(tmp_path)()
    assert told
    (pins / os.fsdecode(name)).write_text("sha256:0")
    assert StoredFiles(tmp_path)() == told
