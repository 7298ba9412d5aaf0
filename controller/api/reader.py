"""What is stored on a farm elsewhere, read over its API as the file is on the head."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from controller.api.answers import (
    AgentPage,
    AnnotationPage,
    ArtefactPage,
    HistoryPage,
    Page,
    RegisteredDevicePage,
    SpentPage,
    SweepDetail,
    SweepPage,
    TookPage,
)
from controller.api.connection import Ask, Connection, Params
from controller.api.contexts import FarmContext
from controller.api.prefix import CONTENT, EXPORT
from controller.api.route_kinds import TOTAL
from controller.contracts.annotations import SweepAnnotations
from controller.contracts.artefacts import ArtefactRecord
from controller.contracts.base import Contract, canonical_json
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent, RegisteredDevice
from controller.contracts.errors import CopyDamaged, FarmUnavailable, NotFound, UserError
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.records import (
    Spent,
    StoredFailure,
    StoredResult,
    SweepRecord,
    SweepTally,
    Took,
)
from controller.contracts.run import Run
from controller.contracts.sweep import Cell

MAX_LINE_BYTES: Final = 2**28
MOST_CUTS: Final = 5
"""So often in a row an artefact is asked for again that came no further."""
PAUSE_S: Final = 1.0
"""Before that."""
Item = TypeVar("Item", bound=Contract)


class ApiReader:
    """Reads a farm over its API; implements FarmReader."""

    def __init__(
        self, context: FarmContext, tell: Callable[[str], None], pause_s: float = PAUSE_S
    ) -> None:
        """tell: receives a line about what is damaged there."""
        self._connection = Connection(context, kept=True)
        self._tell = tell
        self._told: list[str] = []
        self._pause_s = pause_s

    def damage(self) -> list[str]:
        """Return what could not be read so far."""
        return [*self._told]

    def sweeps(self) -> list[SweepRecord]:
        """Return every sweep, oldest first."""
        return self._every(SweepPage, "/sweeps")

    def annotations(self, sweep_id: str | None = None) -> dict[str, SweepAnnotations]:
        """Return the tags and notes of the sweeps that ever had some, or of one, by sweep id."""
        found = self._every(AnnotationPage, "/annotations")
        return {one.sweep_id: one for one in found if sweep_id in (None, one.sweep_id)}

    def runs(self, sweep_id: str | None = None, *, open_only: bool = False) -> list[Run]:
        """Return runs in queue order (submission, then position); all, or those not terminal."""
        params = {**_given(sweep=sweep_id), "open": _flag(open_only)}
        return self._lines(Run, "/runs", params)[0]

    def run(self, run_id: str) -> Run | None:
        """Return one run, or None if there is no such run."""
        words = self._connection.words
        try:
            return self._connection.run(words.one(Run, Ask("GET", f"/runs/{_id(run_id)}")))
        except NotFound:
            return None

    def tally(self, sweep_id: str) -> SweepTally:
        """Return how many runs of a sweep are in each state; raises NotFound."""
        asked = Ask("GET", f"/sweeps/{_id(sweep_id)}")
        return self._connection.run(self._connection.words.one(SweepDetail, asked)).tally

    def results(self, sweep_id: str | None = None) -> list[StoredResult]:
        """Return counted results, oldest first, then the late ones (`counted` false)."""
        return self.selected_results(OutcomeFilter(sweep_id=sweep_id))[0]

    def selected_results(
        self, wanted: OutcomeFilter, newest: int | None = None
    ) -> tuple[list[StoredResult], int]:
        """Return the newest results that a filter keeps, in the order of `results`; and how many
        it keeps."""
        params = {**params_of(wanted), **_given(newest=newest), "samples": "true"}
        found, total = self._lines(StoredResult, "/results", params)
        return sorted(found, key=lambda result: not result.counted), total

    def selected_failures(
        self, wanted: OutcomeFilter, newest: int | None = None
    ) -> tuple[list[StoredFailure], int]:
        """Return the newest failures that a filter keeps, oldest first; and how many it keeps."""
        if wanted.validity is not None:  # which no failure has
            return [], 0
        params = {**params_of(wanted), **_given(newest=newest)}
        return self._lines(StoredFailure, "/failures", params)

    def failures(self, sweep_id: str | None = None) -> list[StoredFailure]:
        """Return every failed attempt's failure, oldest first."""
        return self.selected_failures(OutcomeFilter(sweep_id=sweep_id))[0]

    def fleet(self) -> tuple[list[RegisteredAgent], list[RegisteredDevice]]:
        """Return all agents and devices ever registered, by id, but no forgotten devices."""
        agents = self._every(AgentPage, "/agents", {"stored": "true"})
        return agents, self._every(RegisteredDevicePage, "/registered-devices")

    def forgotten(self) -> list[RegisteredDevice]:
        """Return the devices that a person removed, by id."""
        return self._every(RegisteredDevicePage, "/registered-devices", {"forgotten": "true"})

    def history(self, device_id: str) -> list[DeviceHistoryEntry]:
        """Return a device's history with its attempts, oldest first; none of an unknown one."""
        try:
            return self._every(HistoryPage, f"/devices/{_id(device_id)}/history")
        except NotFound:
            return []

    def spent(self, since: float) -> list[Spent]:
        """Return the device time of each attempt that ended since a time, oldest first."""
        return self._every(SpentPage, "/spent", {"since": repr(since)})

    def took(self, cells: Iterable[Cell]) -> list[Took]:
        """Return how long attempts with a result took that are like some cells, oldest first of
        each workload, stack and scenario."""
        kinds = dict.fromkeys((cell.workload, cell.stack, cell.scenario) for cell in cells)
        asked = ({"workload": w, "stack": s, "scenario": c} for w, s, c in kinds)
        return [*chain.from_iterable(self._every(TookPage, "/took", params) for params in asked)]

    def artefacts(self, run_id: str) -> list[ArtefactRecord]:
        """Return the artefacts of a run that agents have announced, by attempt and name."""
        try:
            return self._every(ArtefactPage, f"/runs/{_id(run_id)}/artefacts")
        except NotFound:
            return []

    def artefact(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """Yield the content of an artefact that is on the head, from a byte on.

        Where a connection is cut, it goes on from there. Raises NotFound if it is not there,
        FarmUnavailable if the farm stays away, CopyDamaged if it is always cut there.
        """
        cuts = 0
        while True:
            try:
                for piece in self._content(sha256, offset):
                    offset += len(piece)
                    cuts = 0
                    yield piece
                return
            except FarmUnavailable as error:
                cuts += 1
                if cuts > MOST_CUTS:
                    if isinstance(error.__cause__, httpx.RemoteProtocolError):
                        seen = f"the head's copy ends at byte {offset} each time"
                        remedy = "Run `benchfarm store check` on the head."
                        tried = f"read artefact {sha256[:12]}"
                        raise CopyDamaged(tried, seen, remedy) from error
                    raise
                time.sleep(self._pause_s)

    def _content(self, sha256: str, offset: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        asked = Ask("GET", CONTENT.format(sha256=_id(sha256)), headers=headers)
        with self._connection.stream(asked) as response:
            yield from response.iter_raw()

    @contextmanager
    def table(
        self, wanted: OutcomeFilter, *, samples: bool = True
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Give how many results a filter keeps, and the Parquet file of them.

        It is the file that the farm's head writes, in pieces; samples: whether it has their raw
        samples. Raises UserError, FarmUnavailable.
        """
        params = {**params_of(wanted), "format": "parquet", "samples": _flag(samples)}
        asked = Ask("GET", f"/results{EXPORT}", params)
        with self._connection.stream(asked) as response:
            told = response.headers.get(TOTAL, "")
            if not told.isdigit():
                raise self.stranger("its answer is not one of this release")
            yield int(told), response.iter_raw()

    def stranger(self, seen: str) -> UserError:
        """Return the error of an answer that is none."""
        return self._connection.words.stranger(seen)

    def note_left_out(self, number: int, noun: str) -> None:
        """Tell that so many records are damaged there, if any."""
        if number > 0:
            self._note(f"{number} of the farm's {noun} cannot be read there")

    def close(self) -> None:
        """Close the connections; called once, last."""
        self._connection.close()

    def _every(self, kind: type[Page[Item]], path: str, params: Params | None = None) -> list[Item]:
        tell = partial(self.note_left_out, noun=path.strip("/"))
        return self._connection.run(self._connection.words.every(kind, path, params or {}, tell))

    def _lines(self, kind: type[Item], path: str, params: Params) -> tuple[list[Item], int]:
        """Return the items of an export, and how many fit; those that are damaged do not count."""
        words, found = self._connection.words, list[Item]()
        with self._connection.stream(Ask("GET", f"{path}{EXPORT}", params)) as response:
            try:
                total = int(response.headers[TOTAL])
                found += (kind.model_validate_json(line) for line in lines_of(response.iter_raw()))
            except (KeyError, ValidationError, ValueError) as error:
                raise words.stranger("its answer is not one of this release") from error
        missing = max(0, min(total, int(params.get("newest", total))) - len(found))
        self.note_left_out(missing, path.strip("/"))
        return found, total - missing

    def _note(self, line: str) -> None:
        if line not in self._told:
            self._told.append(line)
            self._tell(f"{line}. They are left out; on the head, see: benchfarm store check")


def params_of(wanted: OutcomeFilter) -> dict[str, str]:
    """Return a filter as parameters of the API."""
    return _given(
        sweep=wanted.sweep_id,
        tags=",".join(sorted(wanted.tags)) or None,
        workload=wanted.cell.workload,
        stack=wanted.cell.stack,
        scenario=wanted.cell.scenario,
        knobs=canonical_json(dict(wanted.cell.knobs)) if wanted.cell.knobs else None,
        device=wanted.device,
        validity=wanted.validity,
        virtual=None if wanted.virtual is None else _flag(wanted.virtual),
        since=wanted.since,
        until=wanted.until,
    )


def _given(**params: float | str | None) -> dict[str, str]:
    return {name: str(value) for name, value in params.items() if value is not None}


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _id(text: str) -> str:
    return quote(text, safe="")


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of an answer; raises ValueError if one is not ended, or too long."""
    begun = bytearray()
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun += first
        for other in others:
            yield bytes(begun)
            begun = bytearray(other)
        if len(begun) > MAX_LINE_BYTES:
            raise ValueError("a line is too long")
    if begun:
        raise ValueError("the last line is not whole")
