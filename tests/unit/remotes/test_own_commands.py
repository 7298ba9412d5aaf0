"""Commands of benchfarm's own on a device that does not answer them: the device is to blame."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath
from unittest.mock import AsyncMock

import pytest

from agents.attempts.runner_program import short, write_spec
from agents.inference.bundle.requirements import Requirements
from agents.inference.content import Runtime
from agents.inference.requirements_probe import look
from agents.phones.condition_reading import read_conditions
from agents.remotes.adb.addresses import HostPort
from agents.remotes.adb.programs import Link
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.remote import Completed, FaultKind, Remote, RemoteFault
from agents.remotes.tree import Tree
from controller.contracts.result import Blame

NOWHERE = Path("/nowhere")
TREE = Tree(NOWHERE, 7, {"run": "file"})
NEEDS = Requirements(kernel=(3, 7, 0), page_bytes=4096, storage_bytes=1)
RUNTIME = Runtime("litert", TREE, TREE, "ld.so", NEEDS)
Use = Callable[[AdbRemote], Awaitable[object]]
USES: dict[str, Use] = {
    "conditions": read_conditions,
    "a folder of a run": lambda remote: short(remote, "mkdir", "/there"),
    "a spec": lambda remote: write_spec(remote, PurePosixPath("/there"), {}),
    "requirements": lambda remote: look(remote, RUNTIME, "R58M"),
    "another host's run": AdbRemote.require_alone,
    "free storage": AdbRemote.free_bytes,
}


def broken(kind: FaultKind, monkeypatch: pytest.MonkeyPatch) -> AdbRemote:
    """Return a phone on which every program breaks with a fault of this kind."""
    fault = RemoteFault("R58M", kind, "it went on and on")
    monkeypatch.setattr(AdbRemote, "run", AsyncMock(side_effect=fault))
    return AdbRemote.of(Link(HostPort("127.0.0.1", 1), "R58M"), "owner")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (FaultKind.DEADLINE, FaultKind.HUNG),
        (FaultKind.TOO_MUCH_OUTPUT, FaultKind.PROTOCOL),
        (FaultKind.OFFLINE, FaultKind.OFFLINE),
    ],
)
async def test_a_device_that_does_not_answer_our_commands_is_to_blame(
    use: str, kind: FaultKind, told: FaultKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RemoteFault, match="it went on and on") as caught:
        await USES[use](broken(kind, monkeypatch))
    assert (caught.value.kind, caught.value.blame) == (told, Blame.DEVICE)


async def test_a_workload_s_own_program_is_to_blame_for_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote: Remote = broken(FaultKind.DEADLINE, monkeypatch)
    with pytest.raises(RemoteFault) as caught:
        await remote.run(("true",), 1.0)
    assert caught.value.blame is Blame.WORKLOAD


async def test_a_folder_that_is_full_of_other_files_is_pushed_again_without_being_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has beside its tree may be endless."""
    listed = b"".join(b"%064d  ./%d\n" % (n, n) for n in range(5000)) + b"--\n--\n.\n--\n"
    remote = AdbRemote.of(Link(HostPort("127.0.0.1", 1), "R58M"), "owner")
    monkeypatch.setattr(AdbRemote, "run", AsyncMock(return_value=Completed(0, listed, b"")))
    monkeypatch.setattr(AdbRemote, "free_bytes", AsyncMock(return_value=1 << 40))
    pushed = AsyncMock(return_value=7)
    monkeypatch.setattr(AdbRemote, "_send_files", pushed)
    with pytest.raises(RemoteFault, match=r"its listing has \d+ bytes") as caught:
        await remote.push_tree(TREE)
    pushed.assert_awaited_once()
    assert (caught.value.kind, caught.value.blame) == (FaultKind.CORRUPT, Blame.DEVICE)
