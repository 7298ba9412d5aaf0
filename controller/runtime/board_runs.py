"""Copies what the head has of runs into a board that is being written: results and LoadGen's logs.

What an artefact is called comes from agents: only logs of the run's own attempt are copied.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.artefacts import ArtefactRecord
from controller.contracts.base import digest
from controller.contracts.errors import CopyDamaged, NotFound
from controller.contracts.published import RESULT, RUNS, PublishedFile, PublishedRun
from controller.contracts.records import StoredResult
from controller.runtime.run_files import LOGS, MODES, RunFiles, name_of
from controller.store.protocol import ArtefactReader

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class LogAbsent(Exception):
    """Why a log is not in a board."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Most bytes of logs that a board takes."""

    file: int = 32 * 2**20
    board: int = 2**30


class BoardRuns:
    """The folders of runs in a board; every one has the run's result."""

    def __init__(self, board: Path, reader: ArtefactReader, caps: Caps = Caps()) -> None:
        """reader: of the head's artefacts."""
        self._board = board
        self._reader = reader
        self._caps = caps
        self._left = caps.board

    def add(self, result: StoredResult) -> PublishedRun:
        """Write a run's folder; raises OSError if the board can't be written, FarmUnavailable."""
        folder = f"{RUNS}/{folder_name(result.run_id)}"
        place = self._board / folder
        place.mkdir(parents=True)
        files, absent, kept = [], {}, {}
        of_run = RunFiles(self._reader, result.run_id)
        for name, source in _logs_of(result):
            try:
                file = self._copied(of_run, result.attempt, name_of(result, source), place)
            except LogAbsent as why:
                absent[name] = str(why)
            else:
                files.append(file)
                kept[name] = file.name
        # Paths of a host say nothing to a reader.
        told = result.model_copy(update={"artefacts": kept}).model_dump_json(indent=1) + "\n"
        place.joinpath(RESULT).write_text(told, encoding="utf-8")
        whole = PublishedFile(
            name=RESULT,
            size=len(told.encode()),
            sha256=hashlib.sha256(told.encode()).hexdigest(),
        )
        return PublishedRun(folder=folder, files=(whole, *files), absent=absent)

    def _copied(self, of_run: RunFiles, attempt: int, name: str, place: Path) -> PublishedFile:
        """Copy a log; raises LogAbsent, and OSError if the board can't be written."""
        mode, _, base = name.rpartition("/")
        if mode not in MODES or base not in LOGS:
            raise LogAbsent("it is not a log in the run's own folder")
        try:
            one = of_run.at_hand(attempt, name)
            self._require_room(one)
            of_run.keep(one, place / name)
        except (CopyDamaged, NotFound) as error:
            raise LogAbsent(error.seen) from error
        self._left -= one.size
        return PublishedFile(name=name, size=one.size, sha256=one.sha256)

    def _require_room(self, one: ArtefactRecord) -> None:
        if one.size > self._caps.file:
            raise LogAbsent(f"it has {one.size:,} bytes; at most {self._caps.file:,} are copied")
        if one.size > self._left:
            raise LogAbsent(f"no room in the {self._caps.board:,} bytes of logs of a board")


def folder_name(run_id: str) -> str:
    """Return a run's id as a name that is safe in a path and in an address."""
    return run_id if _PLAIN.fullmatch(run_id) else digest(run_id)


def _logs_of(result: StoredResult) -> Iterator[tuple[str, str]]:
    """Yield the artefacts that may be logs, each with its path."""
    for name, source in sorted(result.artefacts.items()):
        if os.path.basename(source) in LOGS:  # noqa: PTH119 - it may be no path
            yield name, source
