"""A place an agent runs programs on: its own host, or a phone behind an adb server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Protocol

from agents.remotes.tree import Tree
from controller.contracts.errors import BenchfarmError, UserError
from controller.contracts.result import Blame, Failure

MAX_OUTPUT_BYTES = 64 * 2**20
"""Of a `run`'s standard output, and of one line of a `stream`'s."""
STREAM_BYTES = 256 * 2**20
STREAM_LINES = 10**6
"""Of a `stream`'s standard output in all: a run tells of itself once a second."""
STDERR_BYTES = 16 * 2**10
"""How much of a stream's standard error is kept: its end."""
KILLED = 128 + 9
"""The exit code of a program that was killed, as a shell gives it."""
NOT_STARTED = frozenset({126, 127})
"""A shell's exit codes for a program that it can't execute, and for one that isn't there."""
RUNS = "runs"
"""The folder, beside the trees, below which each run has one of its own."""
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class FaultKind(StrEnum):
    """What can go wrong between an agent and a program elsewhere; a Failure's `kind`."""

    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
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
    """A remote could not do what was asked."""

    place: str
    """An adb serial, the name of a host, or the address of an adb server."""
    kind: FaultKind
    message: str

    @property
    def blame(self) -> Blame:
        """Whose fault it is: the device's, unless the kind tells otherwise."""
        if self.kind in _WORKLOAD:
            return Blame.WORKLOAD
        return Blame.HARNESS if self.kind in _HARNESS else Blame.DEVICE

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def failure_of(error: RemoteFault | UserError) -> Failure:
    """Return what an attempt comes to that such an error has ended."""
    if isinstance(error, RemoteFault):
        return Failure(blame=error.blame, kind=error.kind, message=str(error))
    return Failure(blame=Blame.USER, kind="setup", message=str(error))


@dataclass(frozen=True, slots=True)
class Completed:
    """How a short program ended, and what it said."""

    exit_code: int
    """128 + the number of the signal that killed it, as a shell gives it."""
    stdout: bytes
    stderr: bytes
    merged: bool = False
    """The remote can't keep the two apart: standard error is in `stdout`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a long program ended."""

    exit_code: int
    """As in Completed; KILLED if it was past its deadline."""
    past_deadline: bool
    stderr: bytes
    """Its last STDERR_BYTES."""
    merged: bool = False
    """The remote can't keep the two apart: its standard error came as lines."""
    out_of_memory: bool = False
    """Its kernel ended a process for want of memory meanwhile; False where nobody can tell."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """Where a tree lies on a remote."""

    path: PurePosixPath
    pushed_bytes: int
    """What had to be sent: 0 if it was there already."""


class Remote(Protocol):
    """Runs programs and keeps files; every method raises RemoteFault, and may be cancelled.

    However a program ends, its whole process group ends with it. If that can't be done at once,
    because the link is broken, it is done before anything else once the link is back.
    """

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        """Run a program that says little; called for probes and preparations.

        Raises RemoteFault `deadline` if it is not done in time, `hung` if the remote did not even
        answer then.
        """
        ...

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        """Run a program that speaks in lines, each handed on when it has come; once an attempt.

        Its standard input stays open while the agent listens: its end means the agent is gone.
        """
        ...

    async def push_tree(self, tree: Tree) -> Pushed:
        """Have a tree there, under a name made of its digest; called before what needs it runs.

        What is there is compared with the tree, each time: whatever uses it is to leave it as it
        is. Checksums that were right need not be made again while no file's stamps (inode, size,
        mode, time of its last change) have changed.
        """
        ...

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        """Copy a file or folder to the agent's host; called for artefacts after a run."""
        ...

    async def clean(self) -> int:
        """End what this agent or its former self left running, and remove what its runs left lying.

        Called when nothing of it is to run: at the agent's start, and when a device is back.
        Returns the number of processes.
        """
        ...
