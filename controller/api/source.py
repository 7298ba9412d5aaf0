"""The store that the API reads, and the threads in which it is read and the controller is asked."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from controller.contracts.errors import HomeUnusable, NotFound
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore

AT_ONCE: Final = 4
"""Requests that read the store at the same time; others wait for their turn."""
WRITES_AT_ONCE: Final = 2
"""Requests that have the controller do something at the same time: if it is stuck, readers are not
held up."""
QUESTIONS_AT_ONCE: Final = 2
"""Requests that only ask the controller: they hold up neither readers nor those that write, which
wait longer for a stuck one."""


class Source:
    """The store's file, opened again when another one has taken its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened: tuple[tuple[int, int], SqliteReader] | None = None

    def reader(self) -> SqliteReader:
        """Return the open store; raises NotFound, HomeUnusable."""
        with self._lock:
            identity = self._identity()
            if self._opened is None or self._opened[0] != identity:
                former, self._opened = self._opened, None
                if former:
                    former[1].close()
                self._opened = identity, SqliteStore.open_reader(self._path)
            return self._opened[1]

    def store(self) -> SqliteReader:
        """Return the store, which was there when the server began; raises HomeUnusable."""
        try:
            return self.reader()
        except NotFound as error:
            raise HomeUnusable(error.tried, error.seen, error.remedy) from error

    async def on_cleanup(self, _: web.Application) -> None:
        """Close the store with the server."""
        if self._opened:
            self._opened[1].close()

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - one call for both numbers
        except OSError:
            return 0, 0  # the reader says why it can't be opened
        return status.st_dev, status.st_ino


class Threads:
    """Threads for what blocks, so many at once; whoever is beyond waits for a turn."""

    def __init__(self) -> None:
        # asyncio's own has only some threads more than cores: those that are stuck would take all.
        self._pool = ThreadPoolExecutor(AT_ONCE + WRITES_AT_ONCE + QUESTIONS_AT_ONCE, "api")
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._writing = asyncio.Semaphore(WRITES_AT_ONCE)
        self._asking = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def read(self, work: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401
        """Return what comes of reading the store."""
        async with self._reading:
            return await self._run(work, *given)

    async def write(self, work: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401
        """Return what comes of having the controller do something."""
        async with self._writing:
            return await self._run(work, *given)

    async def ask(self, work: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401
        """Return what comes of reading what the controller alone knows."""
        async with self._asking:
            return await self._run(work, *given)

    async def _run(self, work: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)

    async def on_cleanup(self, _: web.Application) -> None:
        """Let the threads end once they are through: the server ends without waiting for them."""
        self._pool.shutdown(wait=False)
