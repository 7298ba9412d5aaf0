"""A Remote on a phone behind an adb server."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agents.remotes.adb import device_tree
from agents.remotes.adb.commands import others_tags
from agents.remotes.adb.facts import MAX_SAID
from agents.remotes.adb.programs import THOROUGH_S, Link, Programs
from agents.remotes.adb.refusals import fault_of_refusal
from agents.remotes.adb.sync import Sync, receive_tree
from agents.remotes.budget import Budget
from agents.remotes.outputs import RunsPrograms
from agents.remotes.remote import (
    NO_ENVIRONMENT,
    NOT_STARTED,
    STDERR_BYTES,
    Completed,
    Ended,
    FaultKind,
    Pushed,
    RemoteFault,
    run_own,
)
from agents.remotes.tree import Tree, differences

FOLDER = PurePosixPath("/data/local/tmp/benchfarm")


@dataclass(frozen=True, slots=True)
class AdbRemote(RunsPrograms[Programs]):
    """See Remote; keeps its files in one folder, and touches nothing outside it."""

    _pushing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _verified: dict[PurePosixPath, str] = field(default_factory=dict)
    """Tree → its stamps when its checksums were verified; dropped when the connection breaks."""

    @classmethod
    def of(cls, link: Link, owner: str, folder: PurePosixPath = FOLDER) -> AdbRemote:
        """Return the remote of an agent; `owner` marks its programs, also after a restart."""
        return cls(Programs(link, owner, folder))

    @property
    def link(self) -> Link:
        """The connection to the phone."""
        return self.programs.link

    @property
    def folder(self) -> PurePosixPath:
        """The folder for its files on the phone."""
        return self.programs.folder

    async def require_alone(self) -> None:
        """Raise RemoteFault `offline` if another agent's run is on the phone.

        An agent that has lost the controller for a while may have lost the phone to another agent.
        """
        others = others_tags(self.programs.owner)
        found = await self._own(device_tree.find_runs(self.folder, others), self.link.quick_s)
        if device_tree.is_shared(found.exit_code):
            raise self.link.fault(FaultKind.OFFLINE, "another host's run is on it")
        if found.exit_code:
            raise self._unable("look for other hosts' runs", found)

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        """See Remote.stream; doesn't start beside another agent's run."""
        await self.require_alone()
        return await RunsPrograms.stream(self, argv, deadline_s, on_line, environment)

    async def push_tree(self, tree: Tree) -> Pushed:
        """See Remote.push_tree."""
        path = self.folder / tree.digest
        async with self._pushing:
            await self._do("make a folder", device_tree.prepare(self.folder), self.link.quick_s)
            stamps = await self._stamps(path)
            known = stamps is not None and self._verified.pop(path, None) == stamps
            if known or not await self._differences(path, tree):
                await self._check_programs(path, tree)
                self._remember(path, stamps)
                return Pushed(path, 0)
            pushed = await self._push(tree, path)
        return Pushed(path, pushed)

    async def pull(self, source: PurePosixPath, target: Path, budget: Budget | None = None) -> None:
        """See Remote.pull and Examined.pull; links are followed, a folder is merged into what is
        there."""
        budget = budget or Budget(self.link.serial)
        await self.programs.end_left()
        try:
            async with asyncio.timeout(THOROUGH_S), self.link.sync() as sync:
                found = await sync.look(source)
                if found is None:
                    raise self.link.fault(FaultKind.MISSING_FILE, f"{source} does not exist")
                await receive_tree(sync, source, found, target, budget)
        except TimeoutError as error:  # a byte now and then resets the timeout
            message = f"cannot pull {source}: no end after {THOROUGH_S:g} s"
            raise self.link.fault(FaultKind.HUNG, message) from error

    async def clean(self) -> int:
        """See Remote.clean; while something of this agent runs, only remains are ended.

        Nothing is removed while another agent's programs run, since the phone may be that agent's.
        Also raises RemoteFault if the phone takes no files, since nothing could run there.
        """
        busy = self.programs.busy
        ended = await self.programs.clean()
        if not busy:
            others = others_tags(self.programs.owner)
            sweep = device_tree.sweep(self.folder, others)
            await self._do("clean up and write a file", sweep, self.link.quick_s)
        return ended

    async def remove_all(self) -> int:
        """Remove all trees and runs of every agent; return the bytes freed."""
        answer = await self._do("remove a folder", device_tree.remove(self.folder), THOROUGH_S)
        return device_tree.parse_size(self.link.serial, answer)

    async def free_bytes(self) -> int:
        """Return the free bytes of the phone's storage; raises RemoteFault."""
        df = ("df", str(self.folder.parent))
        answer = await self._do("read its free storage with df", df, self.link.quick_s)
        return device_tree.parse_free_bytes(self.link.serial, answer)

    async def _stamps(self, path: PurePosixPath) -> str | None:
        """Return stamps that change with the tree; None without a tree, or if the phone can't give
        them."""
        listed = await self._own(device_tree.stamp_tree(path), THOROUGH_S)
        return None if listed.exit_code else hashlib.sha256(listed.stdout).hexdigest()

    def _remember(self, path: PurePosixPath, stamps: str | None) -> None:
        if stamps is not None:
            self._verified[path] = stamps

    async def _differences(self, path: PurePosixPath, tree: Tree) -> list[str]:
        listed = await self._own(device_tree.list_tree(path), THOROUGH_S)
        if device_tree.is_absent(listed.exit_code):
            return ["absent"]
        if listed.exit_code:
            raise self._unable("list a tree", listed)
        most = device_tree.most_listed_bytes(tree.listing)
        if len(listed.stdout) > most:  # parsing it would keep the agent from all else
            return [f"its listing has {len(listed.stdout)} bytes, more than the limit of {most}"]
        text = listed.stdout.decode(errors="surrogateescape")
        return differences(tree.listing, device_tree.parse_listing(self.link.serial, text))

    async def _push(self, tree: Tree, path: PurePosixPath) -> int:
        free = await self.free_bytes()
        packed = not tree.is_plain
        need = device_tree.needed_bytes(tree.archive_bytes, len(tree.listing), packed=packed)
        if free < need:
            message = f"{free} bytes are free, and {need} are needed; free space on the phone"
            raise self.link.fault(FaultKind.STORAGE_FULL, message)
        unpacked = self.folder / f"incoming-{secrets.token_hex(8)}"
        pushed = await (self._send_packed if packed else self._send_files)(tree, unpacked)
        stamps = await self._stamps(unpacked)  # renaming a folder changes nothing below it
        if wrong := await self._differences(unpacked, tree):
            message = f"pushed files arrived changed: {'; '.join(wrong[:3])}"
            raise self.link.fault(FaultKind.CORRUPT, message)
        await self._check_programs(unpacked, tree)
        await self._do("rename a folder", device_tree.install(unpacked, path), self.link.quick_s)
        self._remember(path, stamps)
        return pushed

    async def _send_packed(self, tree: Tree, folder: PurePosixPath) -> int:
        """Send a tree's archive and unpack it into a new folder; return the bytes sent."""
        archive = folder.with_suffix(".tar")
        async with self._pushing_sync(tree.archive_bytes) as sync:
            with tree.archive.open("rb") as source:
                sent = await sync.send(source, archive)
        await self._do("unpack an archive", device_tree.unpack(archive, folder), THOROUGH_S)
        return sent

    async def _send_files(self, tree: Tree, folder: PurePosixPath) -> int:
        """Send the files of a plain tree into a new folder; return the bytes sent.

        A data set may take most of a storage, which then has no room for its archive.
        """
        async with self._pushing_sync(tree.archive_bytes) as sync:
            sent = 0
            for name, file in tree.contents():
                sent += await sync.send(file, folder / name)
            return sent

    @asynccontextmanager
    async def _pushing_sync(self, size: int) -> AsyncIterator[Sync]:
        """Open a sync session for a block that sends so many bytes; raises RemoteFault."""
        limit_s = self.link.push_s + size / self.link.push_bytes_per_s
        try:
            async with asyncio.timeout(limit_s), self.link.sync() as sync:
                yield sync
        except TimeoutError as error:  # a byte now and then resets that of Sync
            message = f"cannot push {size} bytes: no end after {limit_s:.3g} s"
            raise self.link.fault(FaultKind.HUNG, message) from error

    async def _check_programs(self, path: PurePosixPath, tree: Tree) -> None:
        if tree.programs:
            # One program is enough: permissions were compared, and the mount is the same.
            unusable = device_tree.unusable(path, tree.programs[:1])
            refused = await self._do("check a program", unusable, self.link.quick_s)
            if refused:
                message = f"programs in {path} can't be executed: is it mounted noexec?"
                raise self.link.fault(FaultKind.NO_EXEC, message)

    async def _do(self, what: str, argv: Sequence[str], deadline_s: float) -> str:
        """Return the beginning of what a command of ours prints; raises RemoteFault if it fails."""
        completed = await self._own(argv, deadline_s)
        if completed.exit_code:
            raise self._unable(what, completed)
        return completed.stdout[:MAX_SAID].decode(errors="surrogateescape")

    async def _own(self, argv: Sequence[str], deadline_s: float) -> Completed:
        return await run_own(self, argv, deadline_s)

    def _unable(self, what: str, completed: Completed) -> RemoteFault:
        said = (completed.stderr or completed.stdout)[:STDERR_BYTES]  # the output may be endless
        words = said.decode(errors="replace").strip()
        if completed.exit_code in NOT_STARTED:
            return self.link.fault(FaultKind.UNSUPPORTED, f"cannot {what}: {words}")
        seen = words or f"exit status {completed.exit_code}"
        return fault_of_refusal(self.link.serial, f"cannot {what}: {seen}")
