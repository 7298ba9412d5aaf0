"""Starting a helper, asking it, and naming one clear error for every way in which it can fail.

`controller/contracts/helper_reply.py` has the protocol, `helper_main.py` the helper's side.
"""

from __future__ import annotations

import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import IO, Final

from controller.contracts.base import Contract
from controller.contracts.documents import short
from controller.contracts.errors import UserError
from controller.contracts.helper_reply import Answer, read_reply
from controller.contracts.unreadable import UNREADABLE
from controller.platform.interrupted import INTERRUPTED
from controller.platform.processes import signal_name
from controller.platform.terminal import say

STOP_S: Final = 10.0
"""Time for a helper to clear up after its input has ended; then it is killed."""
STDERR_S: Final = 2.0
"""Time to read the rest of an ended helper's errors, which a process it left may hold open."""
MAX_LINE: Final = 2**26
"""Bytes of a reply."""


def _say_to_stderr(line: str) -> None:
    say(line, err=True)


@dataclass(frozen=True, slots=True)
class Helper:
    """A program that speaks the protocol, and what it is started for."""

    command: tuple[str, ...]
    tried: str
    """What it does, as it follows "cannot": `measure the overhead`."""
    remedy: str = "See its output above."
    """What to do if it fails without an error of its own."""
    kind: type[UserError] = UserError
    """The error raised then."""
    quiet: bool = False
    """Whether its standard error is kept back; the last line of it is in the error anyway."""
    environ: Mapping[str, str] | None = None
    """In place of this process's environment."""
    on_progress: Callable[[str], None] = _say_to_stderr

    def ask(self, request: Contract, answer: type[Answer]) -> Answer:
        """Return the helper's one answer; raises as `stream`."""
        answers = list(self.stream(request, answer))
        if len(answers) != 1:
            raise self.error(f"its process gave {len(answers)} answers in place of one")
        return answers[0]

    def stream(self, request: Contract, answer: type[Answer]) -> Iterator[Answer]:
        """Yield the helper's answers as they come.

        Raises the UserError that the helper replied with, KeyboardInterrupt if ^C ended it, and an
        error of this `kind` if a signal ended it, it failed, or it printed anything else.
        """
        with self.started() as running:
            running.send(request)
            yield from running.answers(answer)

    @contextmanager
    def started(self) -> Iterator[RunningHelper]:
        """Run the helper in this context, at whose end it is told to stop, then killed."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=pipe, env=self.environ
        )
        running = RunningHelper(self, process)
        try:
            yield running
        except KeyboardInterrupt:
            running.hush()  # ^C ends all processes of a command, and one of them says so
            raise
        finally:
            running.stop()

    def error(self, seen: str) -> UserError:
        """Return the error for what was seen of the helper."""
        return self.kind(self.tried, seen, self.remedy)


class RunningHelper:
    """A helper's process."""

    def __init__(self, helper: Helper, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._helper = helper
        self._quiet = helper.quiet
        self._last_lines = deque[str](maxlen=1)
        self._stderr = Thread(target=self._read_stderr, daemon=True)
        self._stderr.start()

    def send(self, request: Contract) -> None:
        """Send the request; the helper's input stays open until `stop`."""
        # One that has already ended hears nothing; its exit status says why.
        with suppress(BrokenPipeError):
            _of(self.process.stdin).write(request.model_dump_json().encode() + b"\n")
            _of(self.process.stdin).flush()

    def answers(self, kind: type[Answer]) -> Iterator[Answer]:
        """Yield answers until the helper has ended well; raises as `Helper.stream`."""
        while line := _of(self.process.stdout).readline(MAX_LINE):
            found = self._read(line, kind)
            if isinstance(found, str):
                self._helper.on_progress(found)
            else:
                yield found
        self._require_success(self.process.wait())

    def first_answer(self, kind: type[Answer]) -> Answer:
        """Return the first answer of a helper that goes on; raises as `Helper.stream`."""
        for answer in self.answers(kind):
            return answer
        raise self._helper.error("its process ended without an answer")

    def hush(self) -> None:
        """Keep back what it prints on standard error from now on."""
        self._quiet = True

    def stop(self) -> None:
        """Close the pipes, which ends the helper, and wait until it has ended."""
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                _of(pipe).close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._stderr.join(STDERR_S)

    def _read(self, line: bytes, kind: type[Answer]) -> Answer | str:
        try:
            return read_reply(line, kind)
        except UNREADABLE as error:
            shown = short(line.decode(errors="replace").strip())
            raise self._helper.error(f"its process printed {shown}, which is no reply") from error

    def _require_success(self, status: int) -> None:
        if status in (INTERRUPTED, -signal.SIGINT):  # the latter while it was starting
            raise KeyboardInterrupt
        if status == 0:
            return
        self._stderr.join(STDERR_S)
        last = "".join(f": {line}" for line in self._last_lines)
        ended = f"with status {status}" if status > 0 else f"by {signal_name(-status)}"
        raise self._helper.error(f"its process ended {ended}{last}")

    def _read_stderr(self) -> None:
        with _of(self.process.stderr) as stream:
            for raw in stream:
                line = raw.decode(errors="replace").rstrip()
                if line:
                    self._last_lines.append(line)
                if not self._quiet:
                    say(line, err=True)


def _of(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
