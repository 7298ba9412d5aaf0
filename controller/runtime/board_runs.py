"""Copies what is at hand of runs into a board that is being written: results and LoadGen's logs.

The paths of artefacts come from agents: only files of the run's own folder on this host are read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from controller.contracts.base import digest
from controller.contracts.published import RESULT, RUNS, PublishedFile, PublishedRun
from controller.contracts.records import StoredResult
from controller.runtime.kept_logs import LOGS, LogAbsent, log_at_hand, opened_log

_CHUNK: Final = 2**20
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Caps:
    """Most bytes of logs that a board takes."""

    file: int = 32 * 2**20
    board: int = 2**30


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
            except LogAbsent as why:
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
        """Copy a log; raises LogAbsent, and OSError if the board can't be written."""
        found = log_at_hand(self._agents, result, source)
        name = f"{found.parent.name}/{found.name}"
        with opened_log(found) as file:
            size = os.fstat(file.fileno()).st_size
            if size > self._caps.file:
                raise LogAbsent(f"it has {size:,} bytes; at most {self._caps.file:,} are copied")
            if size > self._left:
                raise LogAbsent(f"no room in the {self._caps.board:,} bytes of logs of a board")
            target = place / name
            target.parent.mkdir(exist_ok=True)
            copied = _copy(file, target, size)
        self._left -= copied.size
        return copied.model_copy(update={"name": name})


def folder_name(run_id: str) -> str:
    """Return a run's id as a name that is safe in a path and in an address."""
    return run_id if _PLAIN.fullmatch(run_id) else digest(run_id)


def _logs_of(result: StoredResult) -> Iterator[tuple[str, str]]:
    """Yield the artefacts that may be logs, each with its path."""
    for name, source in sorted(result.artefacts.items()):
        if os.path.basename(source) in LOGS:  # noqa: PTH119 - it may be no path
            yield name, source


def _copy(file: BinaryIO, target: Path, most: int) -> PublishedFile:
    """Copy at most so many bytes, for a file may grow."""
    whole, size = hashlib.sha256(), 0
    with target.open("wb") as out:
        while chunk := file.read(min(_CHUNK, most - size)):
            out.write(chunk)
            whole.update(chunk)
            size += len(chunk)
    return PublishedFile(name=target.name, size=size, sha256=whole.hexdigest())
