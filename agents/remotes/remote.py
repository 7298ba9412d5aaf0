"""The interface of remotes: places where an agent runs programs, its own host or a phone over
adb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, Protocol

from agents.host.cpu_watch import CpuTimes
from agents.remotes.tree import Tree
from controller.contracts.errors import BenchfarmError, UserError
from controller.contracts.result import Blame, Failure

MAX_OUTPUT_BYTES = 64 * 2**20
"""Most bytes of a `run`'s standard output, and of one line of a `stream`'s."""
STREAM_BYTES = 256 * 2**20
STREAM_LINES = 10**6
"""Most lines of a `stream`'s standard output; a run reports once a second."""
STDERR_BYTES = 16 * 2**10
"""Bytes kept from the end of a stream's standard error."""
KILLED = 128 + 9
"""Exit code of a killed program, as in shells."""
NOT_STARTED = frozenset({126, 127})
"""A shell's exit codes for a program that can't be executed or isn't found."""
SIGNALLED = range(129, 193)
"""Exit statuses by which a shell reports the signals 1 to 64, as 128 + the number."""
MAX_CHARACTERS: Final = 200
"""Most characters of a device's text in a fact or a message."""
MESSAGE_CHARACTERS: Final = 1000
"""Most characters of a fault's message, which goes to logs, status files and the store."""
RUNS = "runs"
"""Folder beside the trees with a folder for each run."""
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class FaultKind(StrEnum):
    """The kinds of faults between an agent and a program elsewhere; a Failure's `kind`."""

    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    SHARED_SERIAL = "shared_serial"
    HUNG = "hung"
    STORAGE_FULL = "storage_full"
    READ_ONLY = "read_only"
    NO_EXEC = "no_exec"
    NO_PERMISSION = "no_permission"
    UNSUPPORTED = "unsupported"
    CORRUPT = "corrupt"
    DEADLINE = "deadline"
    MISSING_FILE = "missing_file"
    TOO_MUCH_OUTPUT = "too_much_output"
    ADB_SERVER = "adb_server"
    PROTOCOL = "protocol"


_WORKLOAD = frozenset({FaultKind.DEADLINE, FaultKind.MISSING_FILE, FaultKind.TOO_MUCH_OUTPUT})
_HARNESS = frozenset({FaultKind.ADB_SERVER, FaultKind.PROTOCOL})


@dataclass(eq=False)
class RemoteFault(BenchfarmError):
    """A failed operation of a remote."""

    place: str
    """An adb serial, a host's name, or the address of an adb server."""
    kind: FaultKind
    message: str
    blamed: Blame | None = None
    """Who is to blame; None: as the kind says."""

    def __post_init__(self) -> None:
        self.message = one_line(self.message, MESSAGE_CHARACTERS)

    @property
    def blame(self) -> Blame:
        """Who is to blame: the device, unless `blamed` or the kind says otherwise."""
        if self.blamed is not None:
            return self.blamed
        if self.kind in _WORKLOAD:
            return Blame.WORKLOAD
        return Blame.HARNESS if self.kind in _HARNESS else Blame.DEVICE

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def malformed(place: str, message: str) -> RemoteFault:
    """Return the fault of a device whose answer is malformed, rather than an adb server's."""
    return RemoteFault(place, FaultKind.PROTOCOL, message, Blame.DEVICE)


def one_line(text: str, most: int = MAX_CHARACTERS) -> str:
    """Return a device's text on one line, for tables, labels and logs."""
    # Only so much is looked at, since a device may say 64 MiB.
    shown = "".join(char if char.isprintable() else " " for char in text[: 16 * most])
    return " ".join(shown.split())[:most]


def failure_of(error: RemoteFault | UserError) -> Failure:
    """Return the failure of an attempt that ended with such an error."""
    if isinstance(error, RemoteFault):
        return Failure(blame=error.blame, kind=error.kind, message=str(error))
    return Failure(blame=Blame.USER, kind="setup", message=str(error))


@dataclass(frozen=True, slots=True)
class Completed:
    """The outcome of a short program."""

    exit_code: int
    """128 + the signal's number for a killed program, as in shells."""
    stdout: bytes
    stderr: bytes
    merged: bool = False
    """Whether the remote can't separate the outputs; standard error is then in `stdout`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a long program."""

    exit_code: int
    """As in Completed; KILLED if it exceeded its deadline."""
    past_deadline: bool
    stderr: bytes
    """The last STDERR_BYTES of standard error."""
    merged: bool = False
    """Whether the remote can't separate the outputs; standard error then comes as lines."""
    out_of_memory: bool | None = None
    """Whether its kernel killed a process for lack of memory meanwhile; None if unknown."""
    beside: CpuTimes | None = None
    """What it and others used of this host's cores meanwhile; None on other machines."""
    started: bool | None = None
    """Whether it was started; None if only its shell's words tell."""
    signalled: bool | None = None
    """Whether a signal ended it; None if only its exit status tells."""

    @property
    def returncode(self) -> int:
        """As that of subprocess: negative for a signal. A shell reports one as 128 + its number."""
        signalled = self.exit_code in SIGNALLED if self.signalled is None else self.signalled
        return 128 - self.exit_code if signalled else self.exit_code


@dataclass(frozen=True, slots=True)
class Pushed:
    """A tree on a remote."""

    path: PurePosixPath
    pushed_bytes: int
    """Bytes that were sent; 0 if it was there already."""


class Remote(Protocol):
    """Runs programs and keeps files; every method raises RemoteFault, and may be cancelled.

    However a program ends, its whole process group ends with it. If that is impossible because the
    connection is broken, it is done first when the connection is back.
    """

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        """Run a program with little output; called for probes and preparations.

        Raises RemoteFault `deadline` if it exceeds its deadline, `hung` if the remote doesn't
        answer then either.
        """
        ...

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        """Run a program and pass on each line as it comes; called once an attempt.

        Its standard input stays open while the agent reads; when it closes, the agent is gone.
        """
        ...

    async def push_tree(self, tree: Tree) -> Pushed:
        """Push a tree, under a name made of its digest; called before the programs that need it.

        An existing tree is compared each time, so programs must not change it. Verified checksums
        are computed again only if a file's stamps (inode, size, mode, change time) have changed.
        """
        ...

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        """Copy a file or folder to the agent's host; called for artefacts after a run."""
        ...

    async def clean(self) -> int:
        """End processes that this agent or an earlier incarnation left, and remove what its runs
        left.

        Called when nothing of it may run: at the agent's start, and when a device returns. Returns
        the number of processes.
        """
        ...


async def run_own(
    remote: Remote, argv: Sequence[str], deadline_s: float, stdin: bytes = b""
) -> Completed:
    """Run a command of benchfarm's own; raises RemoteFault.

    The device is to blame if it takes too long or prints too much, since no workload runs.
    """
    try:
        return await remote.run(argv, deadline_s, stdin)
    except RemoteFault as fault:
        if fault.kind is FaultKind.DEADLINE:
            raise RemoteFault(fault.place, FaultKind.HUNG, fault.message) from fault
        if fault.kind is FaultKind.TOO_MUCH_OUTPUT:
            raise malformed(fault.place, fault.message) from fault
        raise
