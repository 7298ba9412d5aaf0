"""A consistent snapshot of a store, with each record checked against its checksum.

Damaged or missing records are reported and left out.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from sqlalchemy import Connection, Table

from controller.contracts.run import AttemptState, RunState
from controller.store import tables
from controller.store.packing import counted
from controller.store.scanning import FAULTS, Note, Only, Row, is_damage, scan
from controller.store.sealing import ORIGIN, seal_of_outcome, seal_of_row, seal_of_run

NO_MATCH = "its checksum does not match"
MISSING = "missing"
OTHER = {"result": "failure", "failure": "result"}
_NO_CELL: Row = dict.fromkeys(column.name for column in tables.cells.columns)
OUTCOME = ("run_id", "attempt", "counted")

TriedRun = tuple[Row, list[Row]]
"""A row of `runs` and its rows of `attempts`, in order."""
Measured = tuple[Row, list[Row]]
"""A row that joins `outcomes`, `attempts` and `runs`, and its rows of `measurements`."""


class Snapshot:
    """The records of one transaction; `note` is called with what can't be read, and why."""

    def __init__(self, connection: Connection, note: Note) -> None:
        self._connection = connection
        self._note = note

    def records(
        self, table: Table, noun: str, key: str, only: Only | None = None, *, keyed: bool = False
    ) -> list[Row]:
        """Return the sound rows of a table in which each row is a record."""
        sound = {}
        for row in scan(self._connection, table, self._note, only, keyed=keyed):
            if _fits(row, seal_of_row, table, row):
                sound[row["checksum"]] = row
            else:
                self._note(f"{noun} {named(row[key])}", NO_MATCH)
        return list(sound.values())

    def sweeps(self) -> list[Row]:
        """Return the sound sweeps, oldest first."""
        return self.records(tables.sweeps, "sweep", "sweep_id")

    def annotations(self, only: Only | None = None) -> list[Row]:
        """Return the sound tags and notes of sweeps: all, or one sweep's."""
        noun = "the tags and notes of sweep"
        return self.records(tables.sweep_annotations, noun, "sweep_id", only)

    def runs(self, only: Only | None = None) -> list[TriedRun]:
        """Return the sound runs with rows that belong to sound sweeps."""
        rows = self._run_rows(only)
        tried = self._attempts(_ids(rows) if only else None)
        found: dict[str, TriedRun] = {}
        for row in rows:
            attempts, what = tried[row["run_id"]], f"run {named(row['run_id'])}"
            if not _is_sound(row, attempts):
                self._note(what, NO_MATCH)
            elif found.setdefault(row["run_id"], (row, attempts))[0]["checksum"] != row["checksum"]:
                self._note(what, "it is there twice, in two states")
            elif not self._has_sweep(row):
                found.pop(row["run_id"])
        self._count_runs(self.sweeps(), rows, only)
        return list(found.values())

    def begun(self) -> list[TriedRun]:
        """Return the sound open runs with rows, found by keys.

        Raises DatabaseError if an index is damaged.
        """
        return self.runs_by_key(
            Only("state", [state.value for state in RunState if not state.terminal])
        )

    def runs_by_key(self, only: Only) -> list[TriedRun]:
        """Return some sound runs with rows, found by keys; raises DatabaseError if an index is
        damaged."""
        rows = self._run_rows(only, keyed=True)
        tried = self._attempts(_ids(rows), keyed=True)
        found = []
        for row in rows:
            if _is_sound(row, tried[row["run_id"]]):
                found.append((row, tried[row["run_id"]]))
            else:
                self._note(f"run {named(row['run_id'])}", NO_MATCH)
        return found

    def tries(self) -> tuple[list[Row], list[Row]]:
        """Return the rows of all runs, with their cells, and of all attempts; none is checked."""
        return self._run_rows(), self._scan(tables.attempts)

    def unleased(self, only: Only | None = None) -> list[Row]:
        """Return the sound packed records of sound sweeps: all, or one sweep's."""
        of_sweep = only if only and only.column == "sweep_id" else None
        return [row for row in self.packed(of_sweep) if self._has_sweep(row)]

    def packed(self, only: Only | None = None, *, keyed: bool = False) -> list[Row]:
        """Return the sound packed records; keyed: see `scan`."""
        noun = "the never leased runs of sweep"
        return self.records(tables.unleased, noun, "sweep_id", only, keyed=keyed)

    def run(self, run_id: str) -> TriedRun | None:
        """Return a sound run with a row, found by its key or, if that fails, in the whole table."""
        only = Only("run_id", [run_id])
        try:
            rows = self._run_rows(only, keyed=True)
            tried = scan(self._connection, tables.attempts, self._note, only, keyed=True)
            tried.sort(key=_number)
            if len(rows) == 1 and _is_sound(rows[0], tried):
                return rows[0], tried
        except FAULTS as error:
            if not is_damage(error):
                raise
        return next(iter(self.runs(only)), None)

    def ids_of(self, sweep_id: str) -> list[str]:
        """Return the ids of a sweep's runs, damaged ones included."""
        only = Only("sweep_id", [sweep_id])
        rows = self._run_rows(only)
        self._count_runs(self._scan(tables.sweeps, only), rows, only)
        return _ids(rows)

    def outcomes(
        self,
        kind: str,
        ids: Sequence[str] | None = None,
        numbers: Sequence[int] | None = None,
        *,
        keyed: bool = False,
    ) -> list[Measured]:
        """Return the sound results, or the sound failures, by age: all, or those of some runs or
        numbers.

        keyed: see `scan`.
        """
        rows = self._outcome_rows(kind, ids, numbers)
        chosen = ids if numbers is None else _ids(rows)
        of_these = None if chosen is None else Only("run_id", chosen)
        runs = _grouped(self._run_rows(of_these, keyed=keyed), ("run_id",))
        tried = self._attempts(chosen, keyed=keyed)
        if numbers is None:
            self._expect(kind, rows, runs, tried)
        measured: Mapping[tuple[Any, ...], list[Row]] = defaultdict(list)
        if kind == "result":
            # A damaged page may show rows of another table; the checksum reveals a missing one.
            scanned = self._scan(tables.measurements, of_these, keyed=keyed)
            possible = [one for one in scanned if isinstance(one["samples"], list)]
            measured = _grouped(possible, OUTCOME)
        sound: dict[str, Measured] = {}
        for row in rows:
            said = measured[_key(row, OUTCOME)]
            origins = product(runs[row["run_id"],], tried[row["run_id"]])
            joined = [_joined(row, *o) for o in origins if o[1]["number"] == row["attempt"]]
            fit = [j for j in joined if _fits(row, seal_of_outcome, row, j, said)]
            if fit:
                sound[row["checksum"]] = fit[0], said
            else:
                why = NO_MATCH if joined else "its run or its attempt cannot be read"
                self._note(_outcome(kind, row["run_id"], row["attempt"]), why)
        return sorted(sound.values(), key=lambda pair: pair[0]["number"] or 0)

    def events(self, only: Only | None = None) -> list[Row]:
        """Return the sound events of devices in their order."""
        return self.records(tables.device_events, "an event of device", "device_id", only)

    def sound_rows(self) -> dict[Table, list[Row]]:
        """Return all sound rows, each table after those it refers to."""
        runs = self.runs()
        ids = {row["run_id"] for row, _ in runs}
        found = [*self.outcomes("result"), *self.outcomes("failure")]
        for row, _ in found:
            if row["run_id"] not in ids:
                self._note(
                    _outcome(row["type"], row["run_id"], row["attempt"]), "its run is damaged"
                )
        outcomes = [pair for pair in found if pair[0]["run_id"] in ids]
        outcomes.sort(key=lambda pair: pair[0]["number"])
        return {
            tables.agents: self.records(tables.agents, "agent", "agent_id"),
            tables.devices: self.records(tables.devices, "device", "device_id"),
            tables.device_events: self.events(),
            tables.tokens: self.records(tables.tokens, "the token of", "name"),
            tables.sweeps: self.sweeps(),
            tables.sweep_annotations: [
                r for r in self.annotations() if r["sweep_id"] in self.places
            ],
            tables.unleased: self.unleased(),
            tables.cells: [*{row["cell_key"]: row for row, _ in runs}.values()],
            tables.runs: [row for row, _ in runs],
            tables.attempts: [attempt for _, attempts in runs for attempt in attempts],
            tables.outcomes: [row for row, _ in outcomes],
            tables.measurements: [one for _, measured in outcomes for one in measured],
        }

    def other_devices(self, device_id: str) -> list[str]:
        """Return the ids of all devices but one."""
        ids = (row["device_id"] for row in self._scan(tables.devices))
        return [id_ for id_ in ids if isinstance(id_, str) and id_ != device_id]

    def ended(self, since: float) -> list[Row]:
        """Return the sound attempts that ended since a time, by their end, each with its user and
        its run's deadline."""
        over = [r for r in self._scan(tables.attempts) if isinstance(r["ended_at"], float)]
        late = [row for row in over if row["ended_at"] > since]
        fit = [row for row in late if _fits(row, seal_of_row, tables.attempts, row)]
        sound = {row["checksum"]: row for row in fit}.values()  # a damaged page may hold one twice
        runs = self._run_rows(Only("run_id", _ids(sound)))
        users = {row["sweep_id"]: row["user"] for row in self.sweeps()}
        of_run = {
            row["run_id"]: {"user": users.get(row["sweep_id"]), "deadline_s": row["deadline_s"]}
            for row in runs
        }
        unknown = {"user": None, "deadline_s": math.inf}
        known = [{**row, **of_run.get(row["run_id"], unknown)} for row in sound]
        return sorted(known, key=lambda row: row["ended_at"])

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Id of each sound sweep → its position in the queue."""
        return {row["sweep_id"]: place for place, row in enumerate(self.sweeps())}

    # --- helpers -------------------------------------------------------------------------------

    def _has_sweep(self, row: Row) -> bool:
        if row["sweep_id"] in self.places:
            return True
        self._note(f"the runs of sweep {named(row['sweep_id'])}", "it cannot be read")
        return False

    def _scan(self, table: Table, only: Only | None = None, *, keyed: bool = False) -> list[Row]:
        return scan(self._connection, table, self._note, only, keyed=keyed)

    def _run_rows(self, only: Only | None = None, *, keyed: bool = False) -> list[Row]:
        """Return rows that join `runs` and `cells`."""
        rows = scan(self._connection, tables.runs, self._note, only, keyed=keyed)
        keys = [row["cell_key"] for row in rows if isinstance(row["cell_key"], str)]
        of_these = Only("cell_key", list(dict.fromkeys(keys))) if only else None
        cells = scan(self._connection, tables.cells, self._note, of_these, keyed=keyed)
        by_key = {row["cell_key"]: row for row in cells}
        return [{**by_key.get(row["cell_key"], _NO_CELL), **row} for row in rows]

    def _attempts(
        self, ids: Sequence[str] | None, *, keyed: bool = False
    ) -> Mapping[str, list[Row]]:
        only = None if ids is None else Only("run_id", ids)
        rows = self._scan(tables.attempts, only, keyed=keyed)
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=_number):
            if row["checksum"] not in [a["checksum"] for a in groups[row["run_id"]][-1:]]:
                groups[row["run_id"]].append(row)
        return groups

    def _outcome_rows(
        self, kind: str, ids: Sequence[str] | None, numbers: Sequence[int] | None
    ) -> list[Row]:
        if numbers is not None:
            return self._scan(tables.outcomes, Only("number", numbers))
        if ids is None:
            self.count_outcomes()
            return self._scan(tables.outcomes, Only("type", [OTHER[kind]], none_of=True))
        rows = self._scan(tables.outcomes, Only("run_id", ids))
        return [row for row in rows if row["type"] != OTHER[kind]]

    def _count_runs(self, sweeps: Iterable[Row], rows: Iterable[Row], only: Only | None) -> None:
        """Report sweeps with missing runs; each sweep stores the number of its runs."""
        if only and only.column == "run_id":
            return
        if only and only.column != "sweep_id":
            rows = self._run_rows()
        there = Counter(row["sweep_id"] for row in rows)
        for row in self.packed(only if only and only.column == "sweep_id" else None):
            there[row["sweep_id"]] += sum(counted(row).values())
        for row in sweeps:
            lost = (row["runs"] or 0) - there[row["sweep_id"]]
            if lost > 0 and (only is None or only.column != "sweep_id" or only.keeps(row)):
                said = f"{lost} of the {row['runs']} runs of sweep {named(row['sweep_id'])}"
                self._note(said, MISSING)

    def count_outcomes(self) -> None:
        """Report the number of missing outcomes; the store counts them."""
        query = "SELECT max(number), count(*) FROM outcomes NOT INDEXED"
        try:
            last, there = self._connection.exec_driver_sql(query).one()
        except FAULTS as error:
            if not is_damage(error):
                raise
            return  # unreadable records are reported elsewhere
        if last and last > there:
            why = f"{MISSING}, of {last} that were stored"  # which grows: it names nothing new
            self._note(f"{last - there} of the results and failures", why)

    def _expect(
        self,
        kind: str,
        rows: Iterable[Row],
        runs: Mapping[tuple[Any, ...], list[Row]],
        tried: Mapping[str, list[Row]],
    ) -> None:
        """Report missing outcomes, by the states of runs and attempts."""
        there = {(row["run_id"], row["attempt"]) for row in rows}
        state = AttemptState.SUCCEEDED if kind == "result" else AttemptState.FAILED
        for attempts in tried.values():
            for row in attempts:
                if row["state"] == state and (row["run_id"], row["number"]) not in there:
                    self._note(_outcome(kind, row["run_id"], row["number"]), MISSING)
        ended = {run_id for run_id, _ in there}
        for (run_id,), group in runs.items() if kind == "result" else ():
            done = any(row["state"] == RunState.DONE for row in group) and run_id not in ended
            if done and not any(a["state"] == state for a in tried[run_id]):
                self._note(f"the result of run {named(run_id)}", MISSING)


def named(value: object) -> str:
    """Return a name for display; in a damaged row it may be any value."""
    text = value if isinstance(value, str) else repr(value)
    return ascii(text[:80])[1:-1]


def _outcome(kind: str, run_id: object, attempt: object) -> str:
    return f"the {kind} of run {named(run_id)}, attempt {named(attempt)}"


def _is_sound(row: Row, attempts: Sequence[Row]) -> bool:
    alone = all(_fits(a, seal_of_row, tables.attempts, a) for a in attempts)
    return alone and _fits(row, seal_of_run, row, [a["checksum"] for a in attempts])


def _fits(row: Row, seal: Callable[..., str], *said: object) -> bool:
    """Return whether a row's checksum matches its content; False where none can be computed."""
    try:
        return row["checksum"] is not None and seal(*said) == row["checksum"]
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def _joined(row: Row, run: Row, attempt: Row) -> Row:
    origin = {**attempt, **run}
    return {
        **row,
        "device": row["device_id"],
        "profiled": run["profiled"],
        **{name: origin[name] for name in ORIGIN},
    }


def _grouped(rows: Iterable[Row], names: tuple[str, ...]) -> Mapping[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[_key(row, names)].append(row)
    return groups


def _key(row: Row, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _ids(rows: Iterable[Row]) -> list[str]:
    return list({row["run_id"]: None for row in rows if isinstance(row["run_id"], str)})


def _number(row: Row) -> int:
    return row["number"] if isinstance(row["number"], int) else -1
