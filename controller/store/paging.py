"""Reading of results page by page, at a cost that grows with the page and not with the store.

A page begins behind the place of the last result of the page before, not at a number of results,
so results that are stored meanwhile neither hide nor repeat another.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, or_

from controller.contracts.errors import StoreDamaged
from controller.contracts.outcome_filter import OutcomeFilter, PageRequest, Place, ResultPage
from controller.contracts.records import StoredResult
from controller.store import tables
from controller.store.naming import with_names
from controller.store.outcome_keys import numbers_by_keys, require_keys
from controller.store.outcome_reading import OutcomeReader, tagged_sweeps
from controller.store.rows import result_of
from controller.store.scanning import FAULTS, is_damage
from controller.store.snapshot import Measured, Snapshot

RESULT = "result"


class PageReader(OutcomeReader):
    """Reads pages of results."""

    def result_page(self, wanted: OutcomeFilter, asked: PageRequest) -> ResultPage:
        """Return a page of the results that a filter keeps.

        Raises StoreDamaged if an index is damaged, since then no page is known to be whole.
        """
        with self._snapshot() as (snapshot, connection):
            places = self._places(snapshot, connection, wanted, asked)
            page = places[: asked.size]
            numbers = [place.number for place in page]
            found = measured_by_key(RESULT, snapshot, connection, numbers)
            rows = with_names(found, snapshot, connection)
        made = dict(self._made(rows, _numbered, "the result of run", "run_id"))
        if not all(map(wanted.keeps, made.values())):
            raise StoreDamaged(str(self._path), "a key of a result is not that of the result")
        return ResultPage(
            results=[made[place.number] for place in page if place.number in made],
            last=page[-1] if len(places) > len(page) else None,
            left_out=len(page) - len(made),
        )

    def _places(
        self, snapshot: Snapshot, connection: Connection, wanted: OutcomeFilter, asked: PageRequest
    ) -> list[Place]:
        """Return the places of a page's results, and of one that follows, if any."""
        require_keys(connection, str(self._path))
        keys = tables.outcome_keys.c
        tagged = tagged_sweeps(snapshot, wanted) if wanted.tags else None
        columns: list[ColumnElement[float]] = [keys.number]
        if asked.by_start:
            columns.insert(0, keys.started_at)
        query = (
            numbers_by_keys(connection, RESULT, wanted, tagged)
            .order_by(*(column.desc() if asked.descending else column for column in columns))
            .limit(asked.size + 1)
        )
        if asked.after is not None:
            query = query.where(_follows(asked.after, asked))
        found = [*map(Place._make, connection.execute(query).all())]
        if not {type(place.started_at) for place in found} <= {float}:
            raise StoreDamaged(str(self._path), "the start of a result cannot be read")
        return found


def _follows(place: Place, asked: PageRequest) -> ColumnElement[bool]:
    """Return the condition that a result comes after a place."""
    number, at = tables.outcome_keys.c.number, tables.outcome_keys.c.started_at
    later = number < place.number if asked.descending else number > place.number
    if not asked.by_start:
        return later
    begins_later = at < place.started_at if asked.descending else at > place.started_at
    return or_(begins_later, and_(at == place.started_at, later))


def measured_by_key(
    kind: str, snapshot: Snapshot, connection: Connection, numbers: Sequence[int]
) -> list[Measured]:
    """Return the sound results, or failures, of some numbers, by age.

    They are found by keys, or, after damage, in all rows.
    """
    if not numbers:
        return []
    noted: list[str] = []
    by_key = Snapshot(connection, lambda what, _: noted.append(what))
    try:
        found = by_key.outcomes(kind, numbers=numbers, keyed=True)
        if not noted:
            return found
    except FAULTS as error:
        if not is_damage(error):
            raise
    return snapshot.outcomes(kind, numbers=numbers)


def _numbered(row: Measured) -> tuple[int, StoredResult]:
    return row[0]["number"], result_of(row)
