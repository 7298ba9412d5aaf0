"""The event loop of a helper, which signals end at a point where it waits."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def run_until_signal(main: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine as asyncio.run does; a signal that has a handler cancels it, then is handled.

    A handler's exception could hit the loop itself between taking a task's next step and making it:
    the task would never go on, and the loop's end would wait for it.
    """
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    came: list[signal.Signals] = []

    async def cancelled_by_signals() -> Answer:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task

        def cancel(number: signal.Signals) -> None:
            if not came:  # the first one, so that clearing up is left alone
                came.append(number)
                task.cancel()

        for each, handler in handlers.items():
            if callable(handler):
                loop.add_signal_handler(each, cancel, each)
        return await main

    try:
        return asyncio.run(cancelled_by_signals())
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        if came:
            signal.raise_signal(came[0])
