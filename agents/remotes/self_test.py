"""A self-test of a remote: whether it stores and returns files, and runs programs."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol

from agents.remotes.adb.refusals import fault_of_refusal
from agents.remotes.budget import Budget
from agents.remotes.remote import RUNS, FaultKind, Remote, RemoteFault

BYTES = 4 << 20
LEAST_FREE_BYTES = 64 << 20
"""With less, no bundle can be pushed, and no run can keep its logs."""
ASK_S = 60.0
_SCRIPT = """
mkdir -p "$1" && cd "$1" || exit 1
cat >data || { rm -f data; exit 1; }
IFS=:
for folder in $PATH; do [ -x "$folder/sh" ] && break; done
printf '#!%s/sh\\nsha256sum data\\n' "$folder" >program && chmod 700 program && ./program
"""
"""The program is executed in the folder of runs, which may be mounted noexec. `command -v` doesn't
print a path in every shell, such as busybox's."""


class Examined(Remote, Protocol):
    """A remote with a self-test."""

    async def pull(self, source: PurePosixPath, target: Path, budget: Budget | None = None) -> None:
        """See Remote.pull; budget: what it may bring, if less than usual."""
        ...

    async def free_bytes(self) -> int:
        """Return the free bytes of its storage; raises RemoteFault."""
        ...


async def examine(remote: Examined, folder: PurePosixPath, place: str, ask_s: float = ASK_S) -> str:
    """Use a remote as a run would, and return what was observed; raises RemoteFault.

    folder: where the remote keeps what is ours. place: what faults are said to happen at. ask_s:
    how long a program on it may take.
    """
    free = await remote.free_bytes()
    if free < LEAST_FREE_BYTES:
        message = f"{free >> 20} MiB are free, and a run needs {LEAST_FREE_BYTES >> 20}"
        raise RemoteFault(place, FaultKind.STORAGE_FULL, message)
    data, own = os.urandom(BYTES), folder / RUNS / "probe"
    try:
        await _write_and_run(remote, own, place, ask_s, data)
        await _read_back(remote, own, place, data)
    finally:
        with suppress(RemoteFault):
            await remote.run(("rm", "-rf", str(own)), ask_s)
    return f"{BYTES >> 20} MiB written and read, a program run, {free >> 20} MiB free"


async def _write_and_run(
    remote: Remote, own: PurePosixPath, place: str, ask_s: float, data: bytes
) -> None:
    done = await remote.run(("sh", "-c", _SCRIPT, "benchfarm", str(own)), ask_s, data)
    if done.exit_code:
        words = (done.stderr or done.stdout).decode(errors="replace")
        raise fault_of_refusal(place, f"cannot write and run a program: {words}")
    checksum = hashlib.sha256(data).hexdigest().encode()
    if done.stdout[: 2 * len(checksum)].split()[:1] != [checksum]:
        raise RemoteFault(
            place, FaultKind.CORRUPT, "a file that was written has another checksum there"
        )


async def _read_back(remote: Examined, own: PurePosixPath, place: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as here:
        copy = Path(here) / "data"
        await remote.pull(own / "data", copy, Budget(place, len(data)))
        if not copy.is_file() or copy.read_bytes() != data:
            raise RemoteFault(
                place, FaultKind.CORRUPT, "a file that was written reads back differently"
            )
