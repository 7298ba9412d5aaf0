"""The machine-wide lock on cores: two agents on one host never measure on the same core.

The leases already keep one farm's runs apart; this keeps two farms apart.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from agents.host.locks import exclusive, exclusive_now

LOCK_DIR = Path(tempfile.gettempdir()) / "benchfarm-cores"


@asynccontextmanager
async def exclusive_cores(cores: Collection[int], lock_dir: Path = LOCK_DIR) -> AsyncIterator[None]:
    """Hold the lock of every given core; waits, in a fixed order, until they are free."""
    _make(lock_dir)
    async with AsyncExitStack() as held:
        for core in sorted(cores):
            await held.enter_async_context(exclusive(lock_dir / f"core-{core}"))
        yield


@contextmanager
def free_cores(cores: Collection[int], lock_dir: Path = LOCK_DIR) -> Iterator[bool]:
    """Hold the lock of every given core if all are free now; gives whether they were."""
    _make(lock_dir)
    with ExitStack() as held:
        files = (lock_dir / f"core-{core}" for core in sorted(cores))
        yield all(held.enter_context(exclusive_now(file)) for file in files)


def _make(lock_dir: Path) -> None:
    if not lock_dir.exists():
        lock_dir.mkdir(parents=True, exist_ok=True)
        lock_dir.chmod(0o1777)  # farms of other users lock here too
