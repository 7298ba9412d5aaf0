"""The main function of a helper; `controller/contracts/helper_reply.py` has the protocol."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread, main_thread
from types import FrameType
from typing import Final, TextIO, TypeVar

from controller.contracts.base import Contract
from controller.contracts.error_payload import USER_ERROR, ErrorPayload
from controller.contracts.errors import BenchfarmError, UserError
from controller.contracts.helper_reply import HelperReply
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.interrupted import INTERRUPTED
from controller.platform.terminal import say

Request = TypeVar("Request", bound=Contract)
MAX_REQUEST: Final = 2**24
"""Bytes of a request."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Replies:
    """Where a helper's replies go."""

    stream: TextIO

    def answer(self, answer: Contract) -> None:
        """Send an answer."""
        self._send(HelperReply(answer=answer.model_dump(mode="json")))

    def progress(self, line: str) -> None:
        """Send a line for the user."""
        self._send(HelperReply(progress=line))

    def error(self, error: UserError) -> None:
        """Send the reason why there is no answer."""
        self._send(HelperReply(error=ErrorPayload.of(error)))

    def _send(self, reply: HelperReply) -> None:
        self.stream.write(reply.line())
        self.stream.flush()


class _Terminated(SystemExit):
    """SIGTERM, as an exception that lets what is open be cleared up."""


_AGAIN_S: Final = 0.01
"""Seconds until an end that got lost is tried again."""


def serve(kind: type[Request], handler: Callable[[Request, Replies], None]) -> int:
    """Read the request, have it handled, and return the exit status.

    A UserError of the handler is sent to the caller; any other error ends the helper with status 1
    and is on standard error. ^C ends it without a message; so does the end of the caller.
    """
    heeded = _end_once_by_signals()
    with os.fdopen(os.dup(_STDOUT), "w") as stream:
        os.dup2(_STDERR, _STDOUT)  # what a library prints is no reply
        try:
            status = _handled(kind, handler, Replies(stream))
            _pass_over(heeded)  # the interpreter's own end is near: an exception would spoil it
            return status
        except KeyboardInterrupt:
            return INTERRUPTED
        except _Terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)  # whoever waits for it sees what ended it
            raise


def _handled(
    kind: type[Request], handler: Callable[[Request, Replies], None], replies: Replies
) -> int:
    try:
        request = _request(kind)
        Thread(target=_end_with_caller, daemon=True).start()
        handler(request, replies)
    except UserError as error:
        replies.error(error)
        return USER_ERROR
    except BenchfarmError as error:
        say(error, err=True)
        return 1
    return 0


def _request(kind: type[Request]) -> Request:
    try:
        return kind.model_validate_json(sys.stdin.buffer.readline(MAX_REQUEST))
    except UNREADABLE as error:
        remedy = "Install benchfarm again: two parts of it are of different releases."
        raise UserError(f"read a {kind.__name__}", reason(error), remedy) from error


def _end_with_caller() -> None:
    """Wait for the end of standard input, which is that of the caller; then end this process."""
    # Signals shall interrupt what the main thread waits for; here they would only be noted.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    # Not by sys.stdin: its lock, held by a waiting thread, would stop the interpreter's own end.
    while os.read(_STDIN, 4096):
        pass
    number = main_thread().ident
    assert number is not None
    signal.pthread_kill(number, signal.SIGTERM)


def _end_once_by_signals() -> Sequence[signal.Signals]:
    """Turn SIGINT and SIGTERM into exceptions: the first one, so that clearing up is left alone.

    Return those that are heeded.
    """
    heeded = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as of a shell's background job
        heeded.append(signal.SIGINT)

    def end(number: int, _: FrameType | None) -> None:
        _pass_over(heeded)
        raise KeyboardInterrupt if number == signal.SIGINT else _Terminated

    for each in heeded:
        signal.signal(each, end)
    _try_lost_ends_again()
    return heeded


def _try_lost_ends_again() -> None:
    """Raise an end anew that came while Python ran a finalizer, from which no exception gets out.

    Those of asyncio's tasks run so often that ^C does come in one, though rarely.
    """
    complain = sys.unraisablehook

    def lost(what: sys.UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt | _Terminated):
            complain(what)
            return
        kind = what.exc_type

        def end(_: int, __: FrameType | None) -> None:
            raise kind

        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)  # by when the finalizer has ended

    sys.unraisablehook = lost


def _pass_over(signals: Sequence[signal.Signals]) -> None:
    for each in signals:
        # Not SIG_IGN: Python complains of one that has come already.
        signal.signal(each, lambda *_: None)
