"""Speaking with a worker that takes turns, while a transport runs it."""

from __future__ import annotations

import asyncio

from controller.contracts.wire import Turn, TurnOrder


class Conversation:
    """The agent's end: orders go out, turns come back."""

    def __init__(self) -> None:
        self._turns: asyncio.Queue[Turn] = asyncio.Queue()
        self._stdin: asyncio.StreamWriter | None = None

    def attach(self, stdin: asyncio.StreamWriter) -> None:
        """Take the worker's standard input; called once the job has been handed over."""
        self._stdin = stdin

    def take(self, turn: Turn) -> None:
        """Take what the worker said; called for each turn, and first when it is ready."""
        self._turns.put_nowait(turn)

    async def order(self, steps: int) -> None:
        """Tell a worker that was heard from to take a turn, or with 0 steps to end.

        Whether it still lives is for the transport to tell.
        """
        if self._stdin is None:
            raise ValueError("there is no worker to give orders to yet")
        self._stdin.write(TurnOrder(steps=steps).model_dump_json().encode() + b"\n")
        try:
            await self._stdin.drain()
        except ConnectionError:
            return

    async def turn(self) -> Turn:
        """Wait for the next turn; without end if the worker dies."""
        return await self._turns.get()
