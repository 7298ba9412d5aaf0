"""What is told of a phone whose own programs fail: what was wanted, and its words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from agents.remotes.adb.addresses import HostPort
from agents.remotes.adb.programs import Link
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.remote import (
    MESSAGE_CHARACTERS,
    Completed,
    FaultKind,
    RemoteFault,
    failure_of,
)
from agents.remotes.tree import Tree

TREE = Tree(Path("/nowhere"), 7, {"run": "file"})


@pytest.mark.parametrize(
    ("do", "what"),
    [
        (AdbRemote.clean, "clean up and write a file"),
        (AdbRemote.remove_all, "remove a folder"),
        (AdbRemote.free_bytes, "read its free storage with df"),
        (lambda remote: remote.push_tree(TREE), "make a folder"),
    ],
)
@pytest.mark.parametrize(
    ("code", "words", "kind"),
    [
        (127, b"sh: dd: not found", FaultKind.UNSUPPORTED),
        (126, b"sh: dd: can't execute: Permission denied", FaultKind.UNSUPPORTED),
        (1, b"mkdir: '/data': Read-only file system", FaultKind.READ_ONLY),
    ],
)
async def test_what_could_not_be_done_is_named_and_not_its_last_argument(
    do: Callable[[AdbRemote], Awaitable[int]],
    what: str,
    code: int,
    words: bytes,
    kind: FaultKind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote = AdbRemote.of(Link(HostPort("127.0.0.1", 1), "R58M"), "owner")
    monkeypatch.setattr(AdbRemote, "_own", AsyncMock(return_value=Completed(code, b"", words)))
    monkeypatch.setattr(type(remote.programs), "clean", AsyncMock(return_value=0))
    with pytest.raises(RemoteFault) as caught:
        await do(remote)
    assert caught.value.kind is kind
    assert caught.value.message == f"cannot {what}: {words.decode()}"


@pytest.mark.parametrize("code", [1, 127])
async def test_what_a_phone_says_without_end_is_told_in_a_short_line(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = AdbRemote.of(Link(HostPort("127.0.0.1", 1), "R58M"), "owner")
    endless = Completed(code, b"no\x1b such thing\n" * (4 << 20), b"")
    monkeypatch.setattr(AdbRemote, "_own", AsyncMock(return_value=endless))
    with pytest.raises(RemoteFault) as caught:
        await remote.free_bytes()
    assert caught.value.message.startswith("cannot read its free storage with df: no such thing")
    assert caught.value.message.isprintable()
    assert len(caught.value.message) <= MESSAGE_CHARACTERS
    assert failure_of(caught.value).message == str(caught.value)
