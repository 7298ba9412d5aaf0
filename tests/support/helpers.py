"""A helper that fails in the way it is asked to: `python -m tests.support.helpers`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from controller.contracts.base import Contract
from controller.contracts.errors import NotFound, StoreUnavailable
from controller.platform.helper_loop import run_until_signal
from controller.platform.helper_main import Replies, serve


class Way(Contract):
    """What the helper is to do."""

    way: str
    folder: Path = Path()


class Count(Contract):
    """An answer."""

    count: int
    parts: tuple[str | None, ...] = ()


def handle(request: Way, replies: Replies) -> None:
    """Do it; every way has a name."""
    match request.way:
        case "refuse":
            raise NotFound("find it", "it is not there", "Look elsewhere.")
        case "fault":
            raise StoreUnavailable("store.sqlite", "the disk is full")
        case "raise":
            raise KeyError("two")
        case "garbage":
            replies.stream.write("no JSON at all\n")
        case "other":
            replies.answer(Way(way="other"))
        case "none":
            return
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "interrupted":
            os.kill(os.getpid(), signal.SIGINT)
        case "endless" | "finalizing" | "looping":
            try:
                replies.answer(Count(count=os.getpid()))
                _ENDLESS[request.way]()
            finally:
                (request.folder / "cleared up").touch()
        case _:
            _count(request, replies)


def _count(request: Way, replies: Replies) -> None:
    replies.progress("\x1b[2Jat work")
    sys.stdout.write("a library says hello\n")
    sys.stdout.flush()
    os.write(1, b"and so does its C code\n")
    for count in range(3 if request.way == "many" else 1):
        replies.answer(Count(count=count, parts=("a", None)))


def _work_until_ended() -> None:
    time.sleep(1000)


def _work_in_finalizers() -> None:
    class Finalized:
        def __del__(self) -> None:
            time.sleep(1000)

    for _ in range(2):
        Finalized()
    time.sleep(1000)


def _interrupt_the_loop_in_mid_step() -> None:
    make = asyncio.Handle._run

    def interrupted(step: asyncio.Handle) -> None:
        asyncio.Handle._run = make  # type: ignore[method-assign]
        signal.raise_signal(signal.SIGINT)
        make(step)

    async def work() -> None:
        asyncio.Handle._run = interrupted  # type: ignore[method-assign, assignment]
        while True:
            await asyncio.sleep(0)

    run_until_signal(work())


_ENDLESS: Final[Mapping[str, Callable[[], None]]] = {
    "endless": _work_until_ended,
    "finalizing": _work_in_finalizers,
    "looping": _interrupt_the_loop_in_mid_step,
}


if __name__ == "__main__":
    sys.exit(serve(Way, handle))
