"""An adb server or a phone's daemon that says what none should, without end: the agent lives on.

Each is ended with a fault that is told, having taken little memory, whatever length it announced.
"""

from __future__ import annotations

import asyncio
import io
import re
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path, PurePosixPath

import pytest

from agents.remotes.adb import remote as remote_module
from agents.remotes.adb.addresses import UnixSocket
from agents.remotes.adb.connections import state_of
from agents.remotes.adb.facts import read_device
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.adb.server import AttachedServer
from agents.remotes.adb.tracker import track
from agents.remotes.budget import Budget
from agents.remotes.outputs import RunsPrograms
from agents.remotes.remote import FaultKind, RemoteFault
from agents.remotes.tree import Tree
from controller.contracts.errors import AdbUnavailable
from controller.contracts.result import Blame
from tests.support.hostile_adb_server import (
    SERIAL,
    SILENCE,
    TRICKLE,
    HostileServer,
    Say,
    block,
    for_ever,
    hostile_server,
    once_and_then,
)

HUGE = 0xFFFFFFFF
MEMORY = 256 << 20
"""Bytes that no attack may cost: an order of magnitude below what was announced, 4 GiB."""
FOLDER, FILE = 0o40755, 0o100644
HEAD, ENTRY, PACKET = struct.Struct("<4sI"), struct.Struct("<4s4I"), struct.Struct("<BI")
DONE = ENTRY.pack(b"DONE", 0, 0, 0, 0)
SOURCE = PurePosixPath("/data/local/tmp/logs")


def looked(mode: int) -> bytes:
    return struct.pack("<4s3I", b"STAT", mode, 1, 0)


def listed(name: bytes, mode: int = FILE) -> bytes:
    return ENTRY.pack(b"DENT", mode, 1, 0, len(name)) + name


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if this process takes much more in the block, even for a moment."""
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    before = _status("VmHWM")
    yield
    assert _status("VmHWM") - before < MEMORY


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) << 10


async def kind_of(work: Awaitable[object]) -> FaultKind:
    with little_memory(), pytest.raises(RemoteFault) as caught:
        async with asyncio.timeout(60):
            await work
    assert len(caught.value.message) < 1000
    if caught.value.kind is FaultKind.PROTOCOL:
        assert caught.value.blame is Blame.DEVICE, "the phone is suspected, not the harness"
    return caught.value.kind


PULLS: dict[str, tuple[Callable[[], Iterator[bytes]], FaultKind]] = {
    "a part of 4 GiB": (
        lambda: once_and_then(looked(FILE) + HEAD.pack(b"DATA", HUGE)),
        FaultKind.PROTOCOL,
    ),
    "a refusal of 4 GiB": (
        lambda: once_and_then(looked(FILE) + HEAD.pack(b"FAIL", HUGE)),
        FaultKind.PROTOCOL,
    ),
    "something unknown of 4 GiB": (
        lambda: once_and_then(looked(FILE) + HEAD.pack(b"EVIL", HUGE)),
        FaultKind.PROTOCOL,
    ),
    "empty parts for ever": (
        lambda: chain([looked(FILE)], for_ever(HEAD.pack(b"DATA", 0))),
        FaultKind.PROTOCOL,
    ),
    "parts for ever": (
        lambda: chain([looked(FILE)], for_ever(HEAD.pack(b"DATA", 60_000) + b"x" * 60_000)),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "parts of a byte for ever": (
        lambda: chain([looked(FILE)], for_ever(HEAD.pack(b"DATA", 1) + b"x")),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "a name of 4 GiB": (
        lambda: once_and_then(looked(FOLDER) + ENTRY.pack(b"DENT", FILE, 1, 0, HUGE)),
        FaultKind.PROTOCOL,
    ),
    "an end with 4 GiB behind it": (
        lambda: once_and_then(looked(FOLDER) + ENTRY.pack(b"DONE", 0, 0, 0, HUGE)),
        FaultKind.PROTOCOL,
    ),
    "a folder without a name": (
        lambda: chain([looked(FOLDER)], repeat(listed(b"", FOLDER) + DONE)),
        FaultKind.PROTOCOL,
    ),
    "a name that leads elsewhere": (
        lambda: once_and_then(looked(FOLDER) + listed(b"../../etc/cron.d/x") + DONE),
        FaultKind.PROTOCOL,
    ),
    "a name with a NUL": (
        lambda: once_and_then(looked(FOLDER) + listed(b"a\0b") + DONE),
        FaultKind.PROTOCOL,
    ),
    "names for ever": (
        lambda: chain([looked(FOLDER)], for_ever(listed(b"a"))),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "dots for ever": (
        lambda: chain([looked(FOLDER)], for_ever(listed(b"."))),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "folders in folders for ever": (
        lambda: chain([looked(FOLDER)], for_ever(listed(b"a", FOLDER) + DONE)),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "a path that is too long here": (
        lambda: chain([looked(FOLDER)], for_ever(listed(b"a" * 255, FOLDER) + DONE)),
        FaultKind.PROTOCOL,
    ),
}


@pytest.mark.parametrize("attack", PULLS)
async def test_what_is_pulled(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 4 GiB, which no test is to write.
    monkeypatch.setattr(remote_module, "Budget", partial(Budget, bytes_left=1 << 16))
    say, expected = PULLS[attack]
    target = tmp_path / "artefacts" / "logs"
    target.parent.mkdir()
    async with hostile_server(tmp_path, {b"sync:": lambda _: say()}) as server:
        assert await kind_of(server.remote().pull(SOURCE, target)) is expected
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [], "nothing half, and nothing elsewhere"


def token_of(request: bytes) -> bytes:
    found = re.search(rb"benchfarm ([0-9a-f]{32})", request)
    assert found
    return found[1]


def begun(then: Callable[[bytes], Iterator[bytes]]) -> Say:
    """Begin the program as a shell does, then go on, with its token."""

    def say(request: bytes) -> Iterator[bytes]:
        begin = b"<%s:7>\n" % token_of(request)
        return chain([PACKET.pack(1, len(begin)) + begin], then(token_of(request)))

    return say


def packet(data: bytes, kind: int = 1) -> bytes:
    return PACKET.pack(kind, len(data)) + data


SHELLS: dict[str, tuple[Say, FaultKind]] = {
    "a packet of 4 GiB": (lambda _: once_and_then(PACKET.pack(1, HUGE)), FaultKind.PROTOCOL),
    "an exit code of 4 GiB": (lambda _: once_and_then(PACKET.pack(3, HUGE)), FaultKind.PROTOCOL),
    "empty packets for ever": (lambda _: for_ever(packet(b"")), FaultKind.PROTOCOL),
    "unknown packets for ever": (lambda _: for_ever(packet(b"x" * 99, 200)), FaultKind.PROTOCOL),
    "no program begins": (lambda _: for_ever(packet(b"x" * 60_000)), FaultKind.PROTOCOL),
    "output for ever": (
        begun(lambda _: for_ever(packet(b"x" * 60_000))),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "empty lines for ever": (
        begun(lambda _: for_ever(packet(b"\n" * 60_000))),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "errors for ever": (
        begun(lambda _: for_ever(packet(b"x" * 60_000, 2))),
        FaultKind.TOO_MUCH_OUTPUT,
    ),
    "an exit code without end": (
        begun(lambda token: chain([packet(b"<%s=" % token)], for_ever(packet(b"1" * 1000)))),
        FaultKind.PROTOCOL,
    ),
}


@pytest.mark.parametrize("attack", SHELLS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_program_says(attack: str, streamed: bool, tmp_path: Path) -> None:
    say, expected = SHELLS[attack]
    services: dict[bytes, Say] = {b"shell,v2": say, b"shell:": lambda _: for_ever(b"x" * 60_000)}
    async with hostile_server(tmp_path, services) as server:
        remote, argv = server.remote(), ("true",)
        if streamed:
            work = RunsPrograms.stream(remote, argv, 50, lambda _: None)
            assert await kind_of(work) is expected
        else:
            assert await kind_of(remote.run(argv, 50)) is expected
    assert any(request.startswith(b"shell:") for request in server.asked), "it was to be ended"


@pytest.mark.parametrize(
    ("say", "expected"),
    [
        (lambda _: for_ever(b"x" * 60_000), FaultKind.PROTOCOL),
        (
            lambda request: chain([b"<%s:7>\n" % token_of(request)], for_ever(b"x" * 60_000)),
            FaultKind.TOO_MUCH_OUTPUT,
        ),
    ],
)
async def test_what_an_old_phone_s_program_says(
    say: Say, expected: FaultKind, tmp_path: Path
) -> None:
    sync_answer: Say = lambda _: iter([HEAD.pack(b"OKAY", 0)])  # noqa: E731
    services = {b"shell:": say, b"sync:": sync_answer}
    async with hostile_server(tmp_path, services, features=b"") as server:
        assert await kind_of(server.remote().run(("true",), 50)) is expected


async def test_a_program_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Its shell's exit packet never comes where something else holds its output."""

    def end(token: bytes) -> Iterator[bytes]:
        return iter([packet(b"out<%s=7>\n" % token), packet(b"late", 2), SILENCE])

    async with hostile_server(tmp_path, {b"shell,v2": begun(end)}) as server:
        done = await server.remote().run(("true",), 30)
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"out", b"late")


async def test_what_still_holds_an_ended_program_s_output_is_ended_before_the_next(
    tmp_path: Path,
) -> None:
    ordered: list[bytes] = []

    def end(token: bytes) -> Iterator[bytes]:
        return iter([packet(b"<%s=0>\n" % token), SILENCE])

    def order(request: bytes) -> Iterator[bytes]:
        ordered.append(request)
        return iter([b"1\n"])

    services: dict[bytes, Say] = {b"shell,v2": begun(end), b"shell:": order}
    async with hostile_server(tmp_path, services) as server:
        remote = server.remote()
        await remote.run(("true",), 30)
        assert ordered == []
        await remote.run(("true",), 30)
    assert len(ordered) == 1


def in_packets(text: bytes) -> Callable[[bytes], Iterator[bytes]]:
    """Print a text and exit with 0, as a program does that has begun."""

    def say(token: bytes) -> Iterator[bytes]:
        parts = (text[at : at + 60_000] for at in range(0, len(text), 60_000))
        return chain(map(packet, parts), [packet(b"<%s=0>\n" % token), packet(b"\0", 3), SILENCE])

    return say


async def test_a_listing_far_longer_than_that_of_its_tree(tmp_path: Path) -> None:
    files = b"".join(b"%064d  ./%d\n" % (n, n) for n in range(600_000))
    listing, free = files + b"--\n--\n.\n--\n", b"Filesystem Available\n/data 99999999\n"

    def say(request: bytes) -> Iterator[bytes]:
        told = listing if b"sha256sum" in request else free if b" df /" in request else b""
        return begun(in_packets(told))(request)

    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "model").write_bytes(b"weights")
    tree = Tree.of(tmp_path / "tree", tmp_path / "archives")
    services: dict[bytes, Say] = {
        b"shell,v2": say,
        b"sync:": lambda _: once_and_then(HEAD.pack(b"OKAY", 0)),
    }
    async with hostile_server(tmp_path, services) as server:
        assert await kind_of(server.remote().push_tree(tree)) is FaultKind.CORRUPT


@pytest.mark.parametrize("plain", [True, False])
async def test_a_push_that_trickles_has_an_end(tmp_path: Path, plain: bool) -> None:
    """Something moves all the time, so that nobody's patience ends."""

    def say(request: bytes) -> Iterator[bytes]:
        told = b"--\n--\n.\n--\n" if b"sha256sum" in request else b""
        free = b"Filesystem Available\n/data 99999999\n" if b" df /" in request else b""
        return begun(in_packets(told + free))(request)

    (tmp_path / "tree").mkdir()
    model = tmp_path / "tree" / "model"
    model.write_bytes(bytes(32 << 20))
    model.chmod(0o644 if plain else 0o755)
    tree = Tree.of(tmp_path / "tree", tmp_path / "archives")
    assert tree.is_plain is plain
    services: dict[bytes, Say] = {b"shell,v2": say, b"sync:": lambda _: iter([TRICKLE])}
    async with hostile_server(tmp_path, services) as server:
        patient = server.remote().link
        link = replace(patient, push_s=0.2, push_bytes_per_s=1e9)
        with pytest.raises(RemoteFault, match=r"cannot push .* bytes: no end after") as caught:
            async with asyncio.timeout(60):
                await AdbRemote.of(link, "attacked").push_tree(tree)
    assert caught.value.kind is FaultKind.HUNG
    assert caught.value.blame is Blame.DEVICE


async def test_an_endless_table_of_free_storage(tmp_path: Path) -> None:
    services: dict[bytes, Say] = {b"shell,v2": begun(in_packets(b"a\n" * (8 << 20)))}
    async with hostile_server(tmp_path, services) as server:
        assert await kind_of(server.remote().free_bytes()) is FaultKind.PROTOCOL


async def test_a_push_that_is_refused_in_4_gib(tmp_path: Path) -> None:
    services: dict[bytes, Say] = {b"sync:": lambda _: once_and_then(HEAD.pack(b"FAIL", HUGE))}
    async with hostile_server(tmp_path, services) as server:
        remote = server.remote()

        async def push() -> None:
            async with remote.link.sync() as session:
                await session.send(io.BytesIO(b"x"), SOURCE)

        assert await kind_of(push()) is FaultKind.PROTOCOL


async def test_a_description_without_end(tmp_path: Path) -> None:
    """Of properties, which are many, within what a program may say."""
    many = b"".join(b"[%d]: [x]\n" % n for n in range(500_000))
    async with hostile_server(tmp_path, {b"shell,v2": begun(in_packets(many))}) as server:
        work = read_device(server.remote(), SERIAL, shell_v2=True)
        assert await kind_of(work) is FaultKind.PROTOCOL


@pytest.mark.parametrize("length", [b"zzzz", b"-001", b"0x10", b"1_00", b" 010", b"+001"])
async def test_what_is_no_length(length: bytes, tmp_path: Path) -> None:
    services: dict[bytes, Say] = {b"host:devices": lambda _: once_and_then(length)}
    async with hostile_server(tmp_path, services) as server:
        assert await kind_of(state_of(server.address, SERIAL)) is FaultKind.ADB_SERVER


async def test_an_answer_that_never_ends(tmp_path: Path) -> None:
    def drip(_: bytes) -> Iterator[bytes]:
        return chain([b"ffff"], repeat(b""))

    async with hostile_server(tmp_path, {b"host:devices": drip}) as server:
        hasty = UnixSocket(server.path, answer_s=0.3)
        assert await kind_of(state_of(hasty, SERIAL)) is FaultKind.ADB_SERVER


@pytest.mark.parametrize(
    "piece", [block(b""), block(b"A\tdevice\n"), block(b"A\tdevice\n") + block(b"B\tdevice\n")]
)
async def test_lists_of_phones_for_ever_keep_nobody_waiting(piece: bytes, tmp_path: Path) -> None:
    changes = 0

    async def follow(server: HostileServer) -> None:
        nonlocal changes
        async with aclosing(track(AttachedServer(server.address))) as found:
            async for _ in found:
                changes += 1

    services: dict[bytes, Say] = {b"host:track-devices": lambda _: for_ever(piece)}
    async with hostile_server(tmp_path, services) as server:
        with little_memory():
            following = asyncio.create_task(follow(server))
            for _ in range(100):
                await asyncio.sleep(0.01)  # as others do who use the loop
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    # Each list is of 4 bytes at least, and 64 KiB come at once.
    assert changes < 2000


async def test_more_phones_than_anybody_has(tmp_path: Path) -> None:
    many = block(b"".join(b"%d\tdevice\n" % n for n in range(4000)))
    services: dict[bytes, Say] = {b"host:track-devices": lambda _: for_ever(many)}
    async with hostile_server(tmp_path, services) as server:
        with pytest.raises(
            AdbUnavailable, match="it lists 4000 phones, more than the limit of 1000"
        ):
            await anext(track(AttachedServer(server.address)))
