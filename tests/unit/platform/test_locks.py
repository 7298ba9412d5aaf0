"""Locks between processes, as open files of one process see each other's."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from pathlib import Path

import pytest

from controller.platform.locks import (
    exclusive_in_thread,
    exclusive_now,
    is_locked,
    lock_while_alive,
)
from controller.platform.programs import python_code
from tests.support.waiting import PATIENCE_S


def test_a_lock_is_seen_while_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not is_locked(file)
    assert not file.exists(), "asking makes no file"
    with exclusive_in_thread(file):
        assert is_locked(file)
        with exclusive_now(file) as taken:
            assert not taken
    assert not is_locked(file)


def free(file: Path, ask_s: float = PATIENCE_S) -> bool:
    with exclusive_now(file, ask_s) as taken:
        return taken


def asking(file: Path) -> int:
    """Hold a file's lock as `is_locked` does for a moment, until what is returned is closed."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDONLY, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return descriptor


def test_one_who_only_asks_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    answered = threading.Timer(0.05, os.close, [asking(file)])
    answered.start()
    assert free(file)
    answered.join()


def test_one_who_asks_for_ever_is_waited_for_in_vain(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    asks = asking(file)
    with exclusive_now(file, ask_s=0.01) as taken:
        assert not taken
        os.close(asks)
        assert free(file, ask_s=0.0), "who could not take it holds nothing of it"


def test_asking_follows_no_link_and_names_what_can_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        is_locked(file)


def test_a_folder_stays_locked_until_all_that_forked_have_ended(tmp_path: Path) -> None:
    holder = (
        "import os, sys; from pathlib import Path; from controller.platform.locks import *; "
        "lock_while_alive(Path(sys.argv[1])); pid = os.fork(); "
        "pid and (print('held', flush=True), os._exit(0)); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    command = python_code(holder, str(tmp_path))
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        process.wait()
        with pytest.raises(BlockingIOError):
            lock_while_alive(tmp_path)
        assert process.stdin
        process.stdin.close()
        assert process.stdout.read() == "", "its child has ended, too"
    assert not is_locked(tmp_path)
