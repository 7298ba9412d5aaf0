"""Locks between processes, as open files of one process see each other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.platform.locks import exclusive_in_thread, exclusive_now, is_locked


def test_a_lock_is_seen_while_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not is_locked(file)
    assert not file.exists(), "asking makes no file"
    with exclusive_in_thread(file):
        assert is_locked(file)
        with exclusive_now(file) as taken:
            assert not taken
    assert not is_locked(file)


def test_asking_follows_no_link_and_names_what_can_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        is_locked(file)
