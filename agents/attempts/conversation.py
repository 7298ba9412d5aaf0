"""Speaking with a worker that takes turns, while a runner runs it."""

from __future__ import annotations

import asyncio

from controller.contracts.wire import StepBatch, StepOrder


class Conversation:
    """The agent's end: orders go out, turns come back."""

    def __init__(self) -> None:
        self._turns: asyncio.Queue[StepBatch] = asyncio.Queue()
        self._stdin: asyncio.StreamWriter | None = None

    def attach(self, stdin: asyncio.StreamWriter) -> None:
        """Take the worker's standard input; called once the job has been handed over."""
        self._stdin = stdin

    def take(self, batch: StepBatch) -> None:
        """Take what the worker said; called for each turn, and first when it is ready."""
        self._turns.put_nowait(batch)

    async def order(self, steps: int) -> None:
        """Tell a worker that was heard from to take a turn, or with 0 steps to end.

        Whether it still lives is for the runner to tell.
        """
        if self._stdin is None:
            raise ValueError("there is no worker to give orders to yet")
        self._stdin.write(StepOrder(steps=steps).model_dump_json().encode() + b"\n")
        try:
            await self._stdin.drain()
        except ConnectionError:
            return

    async def next_batch(self) -> StepBatch:
        """Wait for the next turn; without end if the worker dies."""
        return await self._turns.get()
