"""Handling of a program's output for every Remote: collected, or split into lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from agents.remotes.remote import (
    MAX_OUTPUT_BYTES,
    NO_ENVIRONMENT,
    STREAM_BYTES,
    STREAM_LINES,
    Completed,
    Ended,
    FaultKind,
    RemoteFault,
)


class Executor(Protocol):
    """Runs the programs of a Remote."""

    @property
    def place(self) -> str:
        """Name of the remote in its faults."""
        ...

    async def execute(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        deadline_s: float,
        stdin: bytes | None,
        take: Callable[[bytes], None],
    ) -> Ended:
        """Run a program and pass on its output; without stdin, its input stays open.

        Raises RemoteFault, and whatever `take` raises. Leaves no process of the program, or ends it
        before anything else is started.
        """
        ...


Programs = TypeVar("Programs", bound=Executor)


class Lines:
    """Splits data into lines, with limits on the bytes of a line and of all lines."""

    def __init__(
        self, limit: int, most_bytes: int = STREAM_BYTES, most_lines: int = STREAM_LINES
    ) -> None:
        self._limit = limit
        self._most_bytes = most_bytes
        self._most_lines = most_lines
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are now complete, without line ends; raises OverflowError."""
        self._most_bytes -= len(data)
        self._most_lines -= data.count(b"\n")
        if min(self._most_bytes, self._most_lines) < 0:
            raise OverflowError("far more than a run has to print")
        *complete, rest = data.split(b"\n")
        lines = []
        for piece in complete:
            self._keep(piece)
            lines.append(self.rest())
        self._keep(rest)
        return lines

    def rest(self) -> bytes:
        """Return the incomplete last line."""
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise OverflowError(f"a line of more than {self._limit} bytes")
        if piece:
            self._parts.append(piece)


@dataclass(frozen=True, slots=True)
class RunsPrograms(Generic[Programs]):
    """The part of a Remote that runs programs, on any Executor."""

    programs: Programs

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        """See Remote.run; returns the last STDERR_BYTES of standard error."""
        said = bytearray()

        def take(data: bytes) -> None:
            said.extend(data)
            if len(said) > MAX_OUTPUT_BYTES:
                raise self._too_much(f"{argv[0]!r} printed more than {MAX_OUTPUT_BYTES} bytes")

        ended = await self.programs.execute(argv, NO_ENVIRONMENT, deadline_s, stdin, take)
        if ended.past_deadline:
            message = f"{' '.join(argv)[:200]!r} had not ended after {deadline_s:g} s"
            raise RemoteFault(self.programs.place, FaultKind.DEADLINE, message)
        return Completed(ended.exit_code, bytes(said), ended.stderr, ended.merged)

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        """See Remote.stream."""
        lines = Lines(MAX_OUTPUT_BYTES)

        def take(data: bytes) -> None:
            try:
                complete = lines.feed(data)
            except OverflowError as error:
                raise self._too_much(f"{argv[0]!r} printed {error}") from error
            for line in complete:
                on_line(line)

        ended = await self.programs.execute(argv, environment, deadline_s, None, take)
        if rest := lines.rest():
            on_line(rest)
        return ended

    def _too_much(self, message: str) -> RemoteFault:
        return RemoteFault(self.programs.place, FaultKind.TOO_MUCH_OUTPUT, message)
