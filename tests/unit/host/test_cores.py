from __future__ import annotations

import asyncio
import os
import pwd
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from agents.host import cores
from agents.host.cores import PLACES, free_cores, lock_folder
from controller.platform.locks import flocks
from tests.support.waiting import PATIENCE_S

HOLDER = """
import asyncio, sys
from pathlib import Path
from agents.host.cores import exclusive_cores

async def hold():
    async with exclusive_cores({0, 1}, Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()

asyncio.run(hold())
"""


exclusive_cores = partial(cores.exclusive_cores, retry_s=0.01)


async def test_two_holders_of_a_core_exclude_each_other(tmp_path: Path) -> None:
    inside: list[str] = []
    order: list[str] = []

    async def hold(name: str, wanted: set[int]) -> None:
        async with exclusive_cores(wanted, tmp_path / "locks"):
            inside.append(name)
            order.append(name)
            assert len(inside) == 1
            await asyncio.sleep(0)
            inside.remove(name)

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(hold("a", {0, 1}), hold("b", {1, 2}), hold("c", {2, 1, 0}))
    assert sorted(order) == ["a", "b", "c"]


async def test_other_cores_are_nobodys_business(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        exclusive_cores({0, 1}, tmp_path),
        exclusive_cores({2, 3}, tmp_path),
        exclusive_cores((), tmp_path),
    ):
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            f"benchfarm-core-{n}.{os.geteuid()}" for n in range(4)
        ]


async def test_who_gives_up_waiting_holds_nothing(tmp_path: Path) -> None:
    async def wait() -> None:
        async with exclusive_cores({0, 1}, tmp_path):
            raise AssertionError("core 1 is taken")

    async with asyncio.timeout(PATIENCE_S):
        async with exclusive_cores({1}, tmp_path):
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            async with exclusive_cores({0}, tmp_path):
                pass
        async with exclusive_cores({0, 1}, tmp_path):
            pass


async def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), exclusive_cores({1, 2}, tmp_path):
                raise AssertionError("core 1 is taken")
        holder.kill()
        async with asyncio.timeout(PATIENCE_S), exclusive_cores({0, 1, 2}, tmp_path):
            assert holder.wait() < 0


async def test_who_is_waited_for_is_told_once(tmp_path: Path) -> None:
    said: list[str] = []

    async def wait() -> None:
        async with exclusive_cores({0, 1}, tmp_path, said.append):
            pass

    async with asyncio.timeout(PATIENCE_S):
        async with exclusive_cores({1}, tmp_path):
            waiting = asyncio.create_task(wait())
            while not said:
                await asyncio.sleep(0)
        await waiting
    (told,) = said
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert told.startswith(f"waiting for core 1, which process {os.getpid()} of user {user} (")


def test_no_variable_of_a_user_s_moves_the_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    before = lock_folder()
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert lock_folder() == before
    assert before in PLACES
    assert (before.stat().st_uid, before.stat().st_mode & 0o1777) == (0, 0o1777)


def test_a_folder_in_which_others_could_rename_is_not_taken(tmp_path: Path) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.mkdir()
    theirs.chmod(0o777)
    link.symlink_to("/tmp")
    assert lock_folder([tmp_path / "none", theirs, link, Path("/var/tmp")]) == Path("/var/tmp")


def test_the_kernel_s_table_of_locks_is_read(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text(
        "1: POSIX  ADVISORY  WRITE 16639 fe:00:2154589 120 120\n"
        "2: FLOCK  ADVISORY  WRITE 16640 fe:0a:2154564 0 EOF\n"
        "2: -> FLOCK  ADVISORY  WRITE 16641 fe:0a:2154564 0 EOF\n"
        "3: FLOCK  ADVISORY  READ -1 00:1a:77 0 EOF\n"
    )
    assert flocks(tmp_path / "locks") == {(254, 10, 2154564): 16640, (0, 26, 77): 0}
    assert flocks(tmp_path / "none") == {}


async def test_free_cores_are_held_and_others_are_left(tmp_path: Path) -> None:
    with free_cores({0, 1}, tmp_path) as both:
        assert both
        with free_cores({1, 2}, tmp_path) as other:
            assert not other
        with free_cores({2}, tmp_path) as another:
            assert another
    async with exclusive_cores({0, 1, 2}, tmp_path):
        with free_cores({2}, tmp_path) as free:
            assert not free
