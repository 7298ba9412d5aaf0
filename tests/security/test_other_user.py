"""The second user that other tests here attack with is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.other_user import (
    OTHER_UID,
    call_as_other_user,
    needs_other_user,
    run_as_other_user,
)

pytestmark = needs_other_user


def test_a_call_and_a_program_of_a_stranger_have_its_ids_and_no_groups() -> None:
    assert call_as_other_user(lambda: (os.getresuid(), os.getresgid(), os.getgroups())) == (
        (OTHER_UID,) * 3,
        (OTHER_UID,) * 3,
        [],
    )
    assert run_as_other_user(["id", "-u"]).stdout.strip() == str(OTHER_UID)


def test_a_stranger_reads_what_is_everybodys_and_nothing_of_ours(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ours")
    secret.chmod(0o600)
    tmp_path.chmod(0o700)
    with pytest.raises(PermissionError):
        call_as_other_user(secret.read_text)
    assert call_as_other_user(Path("/etc/hostname").exists)
