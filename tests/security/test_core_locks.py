"""Farms of several users exclude each other on a host's cores, and none can stall another's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from agents.host.cores import exclusive_cores, free_cores
from tests.support.other_user import OTHER_UID, call_as_other_user, needs_other_user
from tests.support.waiting import PATIENCE_S

pytestmark = needs_other_user


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of root's in which all may write, as /run/lock is."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@contextmanager
def held_by_other_user(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another user hold a file's lock."""
    process = subprocess.Popen(
        ["flock", "--no-fork", str(file), "sh", "-c", "echo held; exec cat"],
        user=OTHER_UID,
        group=OTHER_UID,
        extra_groups=[],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


async def within(folder: Path, cores: set[int], others_s: float = PATIENCE_S) -> list[str]:
    """Hold cores for a moment; return who was waited for."""
    said: list[str] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        exclusive_cores(cores, folder, said.append, others_s, retry_s=0.01),
    ):
        return said


def test_nobody_else_can_hold_a_lock_of_ours(folder: Path) -> None:
    before = os.umask(0)
    try:
        asyncio.run(within(folder, {0, 1}))
    finally:
        os.umask(before)
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["benchfarm-core-0.0", "benchfarm-core-1.0"]
    for file in files:
        for call in (file.read_bytes, file.unlink, partial(file.rename, folder / "x")):
            with pytest.raises(PermissionError):
                call_as_other_user(call)


def test_another_users_farm_waits_for_ours(folder: Path) -> None:
    with free_cores({0, 1}, folder) as free:
        assert free
        said = call_as_other_user(lambda: asyncio.run(within(folder, {1, 2}, others_s=0.1)))
    assert len(said) == 1
    assert said[0].startswith(f"waiting for core 1, which process {os.getpid()} of user root")
    assert call_as_other_user(lambda: asyncio.run(within(folder, {1, 2}))) == []


async def test_ours_waits_for_another_users_and_tells_who_it_is(folder: Path) -> None:
    with held_by_other_user(folder / f"benchfarm-core-1.{OTHER_UID}") as theirs:
        waiting = asyncio.create_task(within(folder, {0, 1}))
        with free_cores({1}, folder) as free:
            assert not free
        with free_cores({0}, folder) as free:
            assert free
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        theirs.kill()
        (told,) = await waiting
    assert told == f"waiting for core 1, which process {theirs.pid} of user nobody (cat) holds"


async def test_who_never_lets_go_stalls_nobody(folder: Path) -> None:
    with held_by_other_user(folder / f"benchfarm-core-0.{OTHER_UID}"):
        assert len(await within(folder, {0, 1}, others_s=0.2)) == 1


@pytest.mark.parametrize("what", ["file", "fifo", "folder", "link"])
async def test_a_name_that_somebody_has_taken_is_done_without(folder: Path, what: str) -> None:
    taken, victim = folder / "benchfarm-core-0.0", folder / "victim"
    victim.write_text("ours")

    def take() -> None:
        match what:
            case "file":
                taken.touch(mode=0o666)
            case "fifo":
                os.mkfifo(taken, 0o666)
            case "folder":
                taken.mkdir()
            case "link":
                taken.symlink_to(victim)

    call_as_other_user(take)
    assert await within(folder, {0}) == []
    async with exclusive_cores({0}, folder):
        with free_cores({0}, folder) as free:
            assert not free
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("ours", 0o644)
    assert (folder / "benchfarm-core-0.0.1").stat().st_uid == os.geteuid()
