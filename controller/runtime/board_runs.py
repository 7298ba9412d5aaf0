"""Copies what is at hand of runs into a board that is being written: results and LoadGen's logs.

The paths of artefacts come from agents: only files of the run's own folder on this host are read.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from controller.contracts.base import digest
from controller.contracts.published import RESULT, RUNS, PublishedFile, PublishedRun
from controller.contracts.records import StoredResult

LOGS: Final = (
    "mlperf_log_summary.txt",
    "mlperf_log_detail.txt",
    "mlperf_log_accuracy.json",
    "mlperf_log_trace.json",
    "latencies_ns.npy",
)
"""LoadGen's files, and the raw latency of each query."""
MODES: Final = ("performance", "accuracy")
"""Folders of an attempt that hold them."""
_CHUNK: Final = 2**20
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Caps:
    """Most bytes of logs that a board takes."""

    file: int = 32 * 2**20
    board: int = 2**30


class _Absent(Exception):
    """Why a file is not copied."""


class BoardRuns:
    """The folders of runs in a board; every one has the run's result."""

    def __init__(self, board: Path, agents: Path, caps: Caps = Caps()) -> None:
        """agents: the folder in which this host's agents keep artefacts."""
        self._board = board
        self._agents = agents.resolve()
        self._caps = caps
        self._left = caps.board

    def add(self, result: StoredResult) -> PublishedRun:
        """Write a run's folder; raises OSError if the board can't be written."""
        folder = f"{RUNS}/{folder_name(result.run_id)}"
        place = self._board / folder
        place.mkdir(parents=True)
        files, absent, kept = [], {}, {}
        for name, source in _logs_of(result):
            try:
                file = self._copied(result, Path(source), place)
            except _Absent as why:
                absent[name] = str(why)
            else:
                files.append(file)
                kept[name] = file.name
        # Paths of this host say nothing to a reader.
        told = result.model_copy(update={"artefacts": kept}).model_dump_json(indent=1) + "\n"
        place.joinpath(RESULT).write_text(told, encoding="utf-8")
        whole = PublishedFile(
            name=RESULT,
            size=len(told.encode()),
            sha256=hashlib.sha256(told.encode()).hexdigest(),
        )
        return PublishedRun(folder=folder, files=(whole, *files), absent=absent)

    def _copied(self, result: StoredResult, source: Path, place: Path) -> PublishedFile:
        """Copy a log; raises _Absent, and OSError if the board can't be written."""
        found = self._at_hand(result, source)
        name = f"{found.parent.name}/{found.name}"
        with _opened(found) as file:
            size = os.fstat(file.fileno()).st_size
            if size > self._caps.file:
                raise _Absent(f"it has {size:,} bytes; at most {self._caps.file:,} are copied")
            if size > self._left:
                raise _Absent(f"no room in the {self._caps.board:,} bytes of logs of a board")
            target = place / name
            target.parent.mkdir(exist_ok=True)
            copied = _copy(file, target, size)
        self._left -= copied.size
        return copied.model_copy(update={"name": name})

    def _at_hand(self, result: StoredResult, source: Path) -> Path:
        """Return where a log really is, if this host's agents keep it for this very attempt."""
        own = ("runs", result.run_id, str(result.attempt))
        try:
            found = source.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:  # a loop, a null character
            raise _Absent("it is not kept on this host") from error
        is_own = found.is_relative_to(self._agents) and found.parts[-5:-2] == own
        if not (is_own and found.parts[-2] in MODES and found.name in LOGS):
            raise _Absent("it is not a log in this host's folder of the run")
        return found


def folder_name(run_id: str) -> str:
    """Return a run's id as a name that is safe in a path and in an address."""
    return run_id if _PLAIN.fullmatch(run_id) else digest(run_id)


def _logs_of(result: StoredResult) -> Iterator[tuple[str, str]]:
    """Yield the artefacts that may be logs, each with its path."""
    for name, source in sorted(result.artefacts.items()):
        if os.path.basename(source) in LOGS:  # noqa: PTH119 - it may be no path
            yield name, source


def _opened(path: Path) -> BinaryIO:
    """Open a regular file, and nothing that would block; raises _Absent."""
    try:
        file = os.fdopen(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        )
    except OSError as error:
        raise _Absent(f"it can't be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _Absent("it is not a regular file")
    return file


def _copy(file: BinaryIO, target: Path, most: int) -> PublishedFile:
    """Copy at most so many bytes, for a file may grow."""
    whole, size = hashlib.sha256(), 0
    with target.open("wb") as out:
        while chunk := file.read(min(_CHUNK, most - size)):
            out.write(chunk)
            whole.update(chunk)
            size += len(chunk)
    return PublishedFile(name=target.name, size=size, sha256=whole.hexdigest())
