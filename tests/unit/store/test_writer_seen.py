"""Whether a store is being written is told by the lock of its own file alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from controller.platform.locks import exclusive_in_thread
from controller.platform.programs import python_code
from controller.store.wal import is_being_written, lock_of

MOUNTS = """
cd "$0" && mkdir -p theirs ours && mount -t tmpfs theirs theirs && mount -t tmpfs ours ours
exec "$@"
"""
"""Two file systems that number their files alike."""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
SEES = """
import sys
from pathlib import Path
from controller.store.wal import is_being_written
print(is_being_written(Path(sys.argv[1])))
"""
ALIKE = """
from pathlib import Path
from controller.platform.locks import exclusive_in_thread
from controller.store.wal import is_being_written, lock_of
ours, theirs = Path("ours/store.sqlite"), Path("theirs/file")
lock_of(ours).touch()
inode = lock_of(ours).stat().st_ino
while not theirs.exists() or theirs.stat().st_ino < inode:
    theirs = theirs.with_name(f"{theirs.name}.")
    theirs.touch()
assert theirs.stat().st_ino == inode
assert theirs.stat().st_dev != lock_of(ours).stat().st_dev
with exclusive_in_thread(theirs):
    print(is_being_written(ours))
"""


def printed(within: tuple[str, ...], *command: str) -> str:
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user can have no namespaces of their own here")
    done = subprocess.run(
        (*within, *command), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_store_is_written_while_its_lock_is_held(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    assert not is_being_written(store)
    assert not lock_of(store).exists()
    with exclusive_in_thread(lock_of(store)):
        assert is_being_written(store)
    assert not is_being_written(store)


def test_the_file_is_told_from_one_of_the_same_number_on_another_file_system(
    tmp_path: Path,
) -> None:
    within = (*NAMESPACE, "sh", "-ec", MOUNTS, str(tmp_path))
    assert printed(within, *python_code(ALIKE)) == "False"


def test_a_writer_is_seen_out_of_a_container(tmp_path: Path) -> None:
    """/proc/locks hides processes of other pid namespaces."""
    store = tmp_path / "store.sqlite"
    within = (*NAMESPACE, "--pid", "--fork", "--mount-proc")
    with exclusive_in_thread(lock_of(store)):
        assert printed(within, *python_code(SEES, str(store))) == "True"


def test_one_who_may_not_ask_takes_a_store_as_written(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    lock_of(store).symlink_to(tmp_path / "elsewhere")
    assert is_being_written(store), "a log that is being written must not be called damaged"
