"""The memory of a phone: what it says of it, and the end of processes that take more."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOK_EVERY_S: Final = 0.05
_OWN: Final = ("RssAnon:", "RssShmem:")
"""Lines of /proc/PID/status about memory that no other process can give back."""
_PROC: Final = Path("/proc")
log = logging.getLogger(__name__)


def meminfo(mib: int) -> str:
    """Return a phone's /proc/meminfo: all of its memory is there for a run."""
    kib = mib << 10
    return "".join(
        f"{name + ':':<16}{kib:>8} kB\n" for name in ("MemTotal", "MemFree", "MemAvailable")
    )


def keep_below(most_bytes: int, daemon: int) -> None:
    """Kill the largest process whenever all take more, but for process 1 and the daemon.

    Runs for ever, in process 1.
    """
    while True:
        time.sleep(LOOK_EVERY_S)
        taken = {pid: of for pid, of in _taken() if pid not in (os.getpid(), daemon)}
        if sum(taken.values()) <= most_bytes:
            continue
        largest = max(taken, key=lambda pid: taken[pid])
        with suppress(ProcessLookupError):
            os.kill(largest, signal.SIGKILL)
            said = "lowmemorykiller: killed process %d, which took %d of %d MiB"
            log.warning(said, largest, taken[largest] >> 20, most_bytes >> 20)


def _taken() -> Iterator[tuple[int, int]]:
    """Yield each process of the phone with the bytes that it takes for itself."""
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended
            lines = (folder / "status").read_text().splitlines()
            yield (
                int(folder.name),
                sum(int(li.split()[1]) << 10 for li in lines if li.startswith(_OWN)),
            )
