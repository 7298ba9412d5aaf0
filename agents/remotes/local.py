"""The agent's own host as a Remote."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any, BinaryIO

from agents.host.cpu_watch import CpuWatch
from agents.host.oom import offer_to_oom_killer
from agents.remotes.budget import Budget
from agents.remotes.child import Child
from agents.remotes.host_files import copy_tree
from agents.remotes.outputs import RunsPrograms
from agents.remotes.remote import (
    KILLED,
    RUNS,
    STDERR_BYTES,
    Ended,
    FaultKind,
    Pushed,
    RemoteFault,
)
from agents.remotes.tree import Tree, differences, listing_of_folder
from controller.platform.inherited import inherited
from controller.platform.memory import oom_kills
from controller.platform.processes import ATTEMPT_MARKER, WORKER_MARKER, end_marked

_CHUNK = 1 << 16
_KINDS = {
    errno.ENOSPC: FaultKind.STORAGE_FULL,
    errno.EDQUOT: FaultKind.STORAGE_FULL,
    errno.EROFS: FaultKind.READ_ONLY,
    errno.EACCES: FaultKind.NO_PERMISSION,
    errno.EPERM: FaultKind.NO_PERMISSION,
    errno.ENOENT: FaultKind.MISSING_FILE,
}
LAST_WORDS_S = 5.0
"""Seconds to drain the pipes of a program that has ended."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


@dataclass(frozen=True, slots=True)
class LocalPrograms:
    """One agent's programs on its own host."""

    owner: str
    place: str = field(default_factory=socket.gethostname)
    _running: set[str] = field(default_factory=set)

    async def execute(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        deadline_s: float,
        stdin: bytes | None,
        take: Callable[[bytes], None],
    ) -> Ended:
        """See Executor.execute."""
        token = token_hex(16)
        marks = {WORKER_MARKER: self.owner, ATTEMPT_MARKER: token}
        self._running.add(token)
        try:
            with _Pipes.open(stdin) as pipes:
                kills, watch = oom_kills(), CpuWatch()
                process = pipes.start(argv, {**inherited(os.environ), **environment, **marks})
                offer_to_oom_killer(process.pid)
                with watch.timing(lambda: process.cpu_s):
                    ended = await _converse(process, pipes, deadline_s, take, token)
                return replace(ended, out_of_memory=oom_kills() > kills, beside=watch.timed)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            missing = isinstance(error, FileNotFoundError)
            code = _NOT_FOUND if missing else _NOT_EXECUTABLE
            return Ended(code, False, str(error).encode(), started=False)
        except (OSError, ValueError) as error:  # too long, or with a NUL
            message = f"cannot start {argv[0]}: {error}"
            raise RemoteFault(self.place, FaultKind.PROTOCOL, message) from error
        finally:
            self._running.discard(token)

    @property
    def busy(self) -> bool:
        """Whether a program of this object is running."""
        return bool(self._running)

    async def clean(self) -> int:
        """End processes that this owner left; called while it runs nothing."""
        return await asyncio.to_thread(end_marked, WORKER_MARKER, self.owner, 0.0)


@dataclass(frozen=True, slots=True)
class _Pipes:
    """A program's input and outputs.

    Not asyncio's: with those, a process counts as running until all inheritors of its pipes have
    ended.
    """

    stdin: BinaryIO
    lifeline: BinaryIO | None
    """The writing end of an input that stays open."""
    stdout: tuple[BinaryIO, BinaryIO]
    stderr: tuple[BinaryIO, BinaryIO]

    @classmethod
    @contextmanager
    def open(cls, stdin: bytes | None) -> Iterator[_Pipes]:
        """Open pipes for a block; without stdin, the input stays open and empty."""
        with ExitStack() as stack:

            def pipe() -> tuple[BinaryIO, BinaryIO]:
                read, write = os.pipe()
                return (
                    stack.enter_context(os.fdopen(read, "rb", buffering=0)),
                    stack.enter_context(os.fdopen(write, "wb", buffering=0)),
                )

            lifeline: BinaryIO | None = None
            if stdin is None:
                source, lifeline = pipe()
            else:
                source = stack.enter_context(tempfile.TemporaryFile(buffering=0))
                source.write(stdin)
                source.seek(0)
            yield cls(source, lifeline, pipe(), pipe())

    def start(self, argv: Sequence[str], environment: Mapping[str, str]) -> Child:
        """Start the program, and keep only our ends of the pipes."""
        process = Child(
            subprocess.Popen(
                argv,
                stdin=self.stdin,
                stdout=self.stdout[1],
                stderr=self.stderr[1],
                env=environment,
                start_new_session=True,
            )
        )
        for theirs in (self.stdin, self.stdout[1], self.stderr[1]):
            theirs.close()
        return process


async def _converse(
    process: Child,
    pipes: _Pipes,
    deadline_s: float,
    take: Callable[[bytes], None],
    token: str,
) -> Ended:
    """Read until the program has ended; then end every process that it has started."""
    stderr = bytearray()

    def take_stderr(data: bytes) -> None:
        stderr.extend(data)
        del stderr[:-STDERR_BYTES]

    late = False
    heard = (_listen(pipes.stdout[0], take), _listen(pipes.stderr[0], take_stderr))
    listening = asyncio.gather(*heard)
    try:
        late = await _until_exit(process, listening, deadline_s)
    finally:
        _kill_group(process)
        await asyncio.to_thread(end_marked, ATTEMPT_MARKER, token, 0.0)
        returncode = await process.wait()
        # A process that dropped the marker may still hold a pipe: don't wait for it.
        await asyncio.wait({listening}, timeout=LAST_WORDS_S)
        if not listening.done():
            listening.cancel()
    await asyncio.gather(listening)
    code = returncode if returncode >= 0 else 128 - returncode
    exit_code = KILLED if late else code
    return Ended(exit_code, late, bytes(stderr), started=True, signalled=returncode < 0)


async def _until_exit(
    process: Child,
    listening: asyncio.Future[tuple[None, None]],
    deadline_s: float,
) -> bool:
    """Wait for the program's exit, or for a failed reader; return whether the deadline passed."""
    exited = asyncio.create_task(process.wait())
    either: set[asyncio.Future[Any]] = {exited, listening}
    try:
        async with asyncio.timeout(deadline_s):
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not exited.done():
                listening.result()
                await exited
    except TimeoutError:
        return True
    finally:
        exited.cancel()
    return False


async def _listen(pipe: BinaryIO, take: Callable[[bytes], None]) -> None:
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while data := await reader.read(_CHUNK):
            take(data)
    finally:
        transport.close()


def _kill_group(process: Child) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class LocalRemote(RunsPrograms[LocalPrograms]):
    """See Remote; trees are in a folder of this host."""

    folder: Path = field(kw_only=True)
    _pushing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, folder: Path, owner: str) -> LocalRemote:
        """Return the remote of an agent; `owner` marks its programs, also after a restart."""
        return cls(LocalPrograms(owner), folder=folder.absolute())

    async def push_tree(self, tree: Tree) -> Pushed:
        """See Remote.push_tree; the sent bytes are the archive's."""
        path = self.folder / tree.digest
        async with self._pushing:
            pushed = await asyncio.to_thread(self._push, tree, path)
        return Pushed(PurePosixPath(path), pushed)

    async def pull(self, source: PurePosixPath, target: Path, budget: Budget | None = None) -> None:
        """See Remote.pull and Examined.pull; links to files of it are followed, a folder is merged
        into what is there."""
        with self._named():
            await copy_tree(Path(source), target, budget or Budget(self.programs.place))

    async def clean(self) -> int:
        """See Remote.clean; does nothing while something of this agent runs."""
        if self.programs.busy:
            return 0
        await asyncio.to_thread(shutil.rmtree, self.folder / RUNS, ignore_errors=True)
        return await self.programs.clean()

    async def free_bytes(self) -> int:
        """Return the free bytes of the folder's storage; raises RemoteFault."""
        with self._named():
            self.folder.mkdir(parents=True, exist_ok=True)
            return shutil.disk_usage(self.folder).free

    def _push(self, tree: Tree, path: Path) -> int:
        pushed = 0
        with self._named():
            if not path.is_dir() or differences(tree.listing, listing_of_folder(path)):
                self._unpack(tree, path)
                pushed = tree.archive_bytes
        if any(not os.access(path / program, os.X_OK) for program in tree.programs[:1]):
            message = f"programs in {path} can't be executed: is it mounted noexec?"
            raise RemoteFault(self.programs.place, FaultKind.NO_EXEC, message)
        return pushed

    def _unpack(self, tree: Tree, path: Path) -> None:
        unpacked = self.folder / f"incoming-{token_hex(8)}"
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            tree.unpack(unpacked)
            if wrong := differences(tree.listing, listing_of_folder(unpacked)):
                message = f"unpacked files differ: {'; '.join(wrong[:3])}"
                raise RemoteFault(self.programs.place, FaultKind.CORRUPT, message)
            if path.exists():
                shutil.rmtree(path)
            unpacked.rename(path)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Convert errors of the file system to RemoteFault."""
        try:
            yield
        except OSError as error:
            kind = _KINDS.get(error.errno or 0, FaultKind.PROTOCOL)
            raise RemoteFault(self.programs.place, kind, str(error)) from error
        except tarfile.TarError as error:
            raise RemoteFault(self.programs.place, FaultKind.CORRUPT, str(error)) from error
