"""What the agent's own host has and phones have not: its kernel, which can be asked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from agents.remotes.budget import Budget
from agents.remotes.child import UNKNOWN_STATUS
from agents.remotes.host_files import copy_tree
from agents.remotes.local import LocalRemote
from agents.remotes.remote import KILLED, FaultKind, RemoteFault
from controller.contracts.result import Blame
from tests.support.memory_limit import limited_memory
from tests.support.processes import OWNER
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[3]
LIMIT_BYTES = 64 << 20
GREEDY = (sys.executable, "-c", f"b'x' * {4 * LIMIT_BYTES}")
IN_GROUP = f"""
import asyncio, sys
from pathlib import Path
from agents.remotes.local import LocalRemote
remote = LocalRemote.of(Path(sys.argv[1]), {OWNER!r})
ended = asyncio.run(remote.stream({GREEDY!r}, {PATIENCE_S}, lambda _: None))
print(ended.exit_code, ended.past_deadline, ended.out_of_memory)
"""


async def test_what_runs_is_the_first_to_end_for_memory(tmp_path: Path) -> None:
    remote = LocalRemote.of(tmp_path, OWNER)
    until_offered = 'while read -r score </proc/$$/oom_score_adj; [ "$score" != 1000 ]; do :; done'
    assert (await remote.run(("sh", "-c", until_offered), PATIENCE_S)).exit_code == 0


def test_that_memory_ran_out_is_told(tmp_path: Path) -> None:
    with limited_memory(LIMIT_BYTES) as memory:
        command = (*memory.within, sys.executable, "-P", "-c", IN_GROUP, str(tmp_path))
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        told = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
        assert memory.kills() == 1
    assert told.stdout.split() == [str(KILLED), "False", "True"]


BURNING_S = 1.0
BURN = f"import time\nwhile time.process_time() < {BURNING_S}: pass"
CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])"
LEFT = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {BURN!r}])"


@pytest.mark.parametrize(("code", "own"), [(BURN, True), (CHILD, True), (LEFT, False)])
async def test_what_a_program_used_is_its_own(tmp_path: Path, code: str, own: bool) -> None:
    """And what its children used that it has waited for; none of another program's beside it."""
    remote = LocalRemote.of(tmp_path, OWNER)
    plain, other = ((sys.executable, "-c", text) for text in (code, BURN))
    ended, _ = await asyncio.gather(
        remote.stream(plain, PATIENCE_S, lambda _: None),
        remote.stream(other, PATIENCE_S, lambda _: None),
    )
    assert ended.beside is not None
    assert (ended.beside.own_s >= BURNING_S) is own
    assert ended.beside.own_s < 2 * BURNING_S


@pytest.mark.parametrize("budget", [{"bytes_left": 2}, {"files_left": 2}])
async def test_what_is_pulled_has_a_budget(tmp_path: Path, budget: dict[str, int]) -> None:
    left = tmp_path / "left"
    left.mkdir()
    for name in ("one", "two", "three"):
        (left / name).write_text("x")
    (tmp_path / "pulled").mkdir()
    with pytest.raises(RemoteFault) as caught:
        await copy_tree(left, tmp_path / "pulled" / "left", Budget("host-1", **budget))
    assert (caught.value.place, caught.value.kind) == ("host-1", FaultKind.TOO_MUCH_OUTPUT)
    assert len(list((tmp_path / "pulled" / "left").iterdir())) == 2


async def test_a_pull_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    left, pulled = tmp_path / "left", tmp_path / "pulled"
    left.mkdir()
    with (left / "big").open("wb") as file:
        file.truncate(256 << 20)
    pull = asyncio.create_task(LocalRemote.of(tmp_path, OWNER).pull(PurePosixPath(left), pulled))
    await until(lambda: any(p.stat().st_size for p in pulled.glob("*")), "it has begun")
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    assert list(pulled.iterdir()) == []


async def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    os.mkfifo(tmp_path / "left" / "pipe")
    remote = LocalRemote.of(tmp_path, OWNER)
    with pytest.raises(RemoteFault, match=r"left/pipe: not a regular file"):
        await remote.pull(PurePosixPath(tmp_path / "left"), tmp_path / "pulled")


@pytest.mark.parametrize("target", ["../secret", "{}/secret", "near"])
async def test_a_link_out_of_what_is_pulled_is_refused(tmp_path: Path, target: str) -> None:
    """A program in a container sees another file there than the agent does."""
    (tmp_path / "secret").write_text("a secret")
    left, pulled = tmp_path / "left", tmp_path / "pulled"
    left.mkdir()
    (left / "link").symlink_to(target.format(tmp_path))
    if target == "near":  # which leads out itself
        (left / "near").symlink_to("../secret")
    seen = r"left/\w+: a link that leads out of .*left\. Leave"
    with pytest.raises(RemoteFault, match=seen) as caught:
        await LocalRemote.of(tmp_path, OWNER).pull(PurePosixPath(left), pulled)
    assert caught.value.blame is Blame.WORKLOAD
    assert list(pulled.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "seen"), [("secret", "a link that leads out of"), (".", "Is a directory behind")]
)
async def test_a_link_in_place_of_what_is_pulled_is_refused(
    tmp_path: Path, target: str, seen: str
) -> None:
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "left").symlink_to(tmp_path / target)
    remote = LocalRemote.of(tmp_path, OWNER)
    with pytest.raises(RemoteFault, match=f"run/left: {seen}"):
        await remote.pull(PurePosixPath(tmp_path / "run" / "left"), tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()


async def test_a_link_within_what_is_pulled_is_copied_as_its_file(tmp_path: Path) -> None:
    """Also if the folder itself is reached by a link."""
    (tmp_path / "left/deep").mkdir(parents=True)
    (tmp_path / "left/file").write_text("content")
    (tmp_path / "left/deep/link").symlink_to(tmp_path / "left/file")
    (tmp_path / "by").symlink_to(tmp_path)
    await LocalRemote.of(tmp_path, OWNER).pull(
        PurePosixPath(tmp_path / "by/left"), tmp_path / "pulled"
    )
    copied = tmp_path / "pulled/deep/link"
    assert (copied.read_text(), copied.is_symlink()) == ("content", False)


async def test_what_a_program_used_is_unknown_if_another_has_waited_for_it(tmp_path: Path) -> None:
    remote = LocalRemote.of(tmp_path, OWNER)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel keeps no status
    try:
        ended = await remote.stream((sys.executable, "-c", ""), PATIENCE_S, lambda _: None)
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    assert ended.exit_code == UNKNOWN_STATUS
    assert ended.beside is not None
    assert ended.beside.other_cores is None
