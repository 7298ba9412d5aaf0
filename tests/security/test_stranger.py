"""The second user that other tests here attack with is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.stranger import STRANGER, call_as_stranger, needs_stranger, run_as_stranger

pytestmark = needs_stranger


def test_a_call_and_a_program_of_a_stranger_have_its_ids_and_no_groups() -> None:
    assert call_as_stranger(lambda: (os.getresuid(), os.getresgid(), os.getgroups())) == (
        (STRANGER,) * 3,
        (STRANGER,) * 3,
        [],
    )
    assert run_as_stranger(["id", "-u"]).stdout.strip() == str(STRANGER)


def test_a_stranger_reads_what_is_everybodys_and_nothing_of_ours(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ours")
    secret.chmod(0o600)
    tmp_path.chmod(0o700)
    with pytest.raises(PermissionError):
        call_as_stranger(secret.read_text)
    assert call_as_stranger(Path("/etc/hostname").exists)
