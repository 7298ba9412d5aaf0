"""Messages to and from a worker in batches, while a runner runs the worker."""

from __future__ import annotations

import asyncio

from controller.contracts.wire import StepBatch, StepOrder


class Conversation:
    """The agent's end of the worker protocol: sends orders, receives batches."""

    def __init__(self) -> None:
        self._turns: asyncio.Queue[StepBatch] = asyncio.Queue()
        self._stdin: asyncio.StreamWriter | None = None

    def attach(self, stdin: asyncio.StreamWriter) -> None:
        """Set the worker's standard input; called once the job has been sent."""
        self._stdin = stdin

    def take(self, batch: StepBatch) -> None:
        """Receive a worker's message; called when it is ready and after each batch."""
        self._turns.put_nowait(batch)

    async def order(self, steps: int) -> None:
        """Order a worker to run a batch, or with 0 steps to end.

        Doesn't check that the worker is alive; the runner does.
        """
        if self._stdin is None:
            raise ValueError("there is no worker to give orders to yet")
        self._stdin.write(StepOrder(steps=steps).model_dump_json().encode() + b"\n")
        try:
            await self._stdin.drain()
        except ConnectionError:
            return

    async def next_batch(self) -> StepBatch:
        """Wait for the next message; waits forever if the worker dies."""
        return await self._turns.get()
