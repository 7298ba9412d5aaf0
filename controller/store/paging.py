"""Reading of results and failures page by page, at a cost that grows with the page and not with the
store.

A page begins behind the place of the last outcome of the page before, not at a number of outcomes,
so what is stored meanwhile neither hides nor repeats another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from controller.contracts.errors import StoreDamaged
from controller.contracts.outcome_filter import (
    FailurePage,
    OutcomeFilter,
    PageRequest,
    Place,
    ResultPage,
)
from controller.store import tables
from controller.store.naming import with_names
from controller.store.outcome_keys import numbers_by_keys, require_keys
from controller.store.outcome_reading import Outcome, OutcomeReader, tagged_sweeps
from controller.store.rows import failure_of, result_of
from controller.store.scanning import FAULTS, is_damage
from controller.store.snapshot import Measured, Snapshot

RESULT: Final = "result"
FAILURE: Final = "failure"


class PageReader(OutcomeReader):
    """Reads pages of results and of failures."""

    def result_page(self, wanted: OutcomeFilter, asked: PageRequest) -> ResultPage:
        """Return a page of the results that a filter keeps.

        Raises StoreDamaged if an index is damaged, since then no page is known to be whole.
        """
        return ResultPage(*self._page(RESULT, result_of, wanted, asked))

    def failure_page(self, wanted: OutcomeFilter, asked: PageRequest) -> FailurePage:
        """Return a page of the failures that a filter keeps, as `result_page` does."""
        return FailurePage(*self._page(FAILURE, failure_of, wanted, asked))

    def stored_outcomes(self, kind: str, wanted: OutcomeFilter) -> int:
        """Return how many results, or failures, a filter keeps, damaged ones among them.

        Raises StoreDamaged if an index is damaged.
        """
        with self._snapshot() as (snapshot, connection):
            require_keys(connection, str(self._path))
            tagged = tagged_sweeps(snapshot, wanted) if wanted.tags else None
            kept = numbers_by_keys(connection, kind, wanted, tagged).subquery()
            return connection.scalar(select(func.count()).select_from(kept)) or 0

    def before_newest(self, kind: str, wanted: OutcomeFilter, newest: int) -> Place | None:
        """Return the place behind which are the newest of the results, or failures, that a filter
        keeps.

        newest: so many; None if there are no more. Raises StoreDamaged if an index is damaged.
        """
        asked = PageRequest(size=newest, descending=True)
        with self._snapshot() as (snapshot, connection):
            places = self._places(kind, snapshot, connection, wanted, asked)
        return places[newest] if len(places) > newest else None

    def _page(
        self,
        kind: str,
        make: Callable[[Measured], Outcome],
        wanted: OutcomeFilter,
        asked: PageRequest,
    ) -> tuple[list[Outcome], Place | None, int]:
        """Return the outcomes of a page, the last one's place if others follow, and how many of
        them are damaged."""

        def numbered(row: Measured) -> tuple[int, Outcome]:
            return row[0]["number"], make(row)

        with self._snapshot() as (snapshot, connection):
            places = self._places(kind, snapshot, connection, wanted, asked)
            page = places[: asked.size]
            numbers = [place.number for place in page]
            found = measured_by_key(kind, snapshot, connection, numbers)
            rows = with_names(found, snapshot, connection)
        made = dict(self._made(rows, numbered, f"the {kind} of run", "run_id"))
        if not all(map(wanted.keeps, made.values())):
            raise StoreDamaged(str(self._path), f"a key of a {kind} is not that of the {kind}")
        shown = [made[place.number] for place in page if place.number in made]
        last = page[-1] if len(places) > len(page) else None
        return shown, last, len(page) - len(made)

    def _places(
        self,
        kind: str,
        snapshot: Snapshot,
        connection: Connection,
        wanted: OutcomeFilter,
        asked: PageRequest,
    ) -> list[Place]:
        """Return the places of a page's outcomes, and of one that follows, if any."""
        require_keys(connection, str(self._path))
        keys = tables.outcome_keys.c
        tagged = tagged_sweeps(snapshot, wanted) if wanted.tags else None
        columns: list[ColumnElement[float]] = [keys.number]
        if asked.by_start:
            columns.insert(0, keys.started_at)
        query = (
            numbers_by_keys(connection, kind, wanted, tagged)
            .order_by(*(column.desc() if asked.descending else column for column in columns))
            .limit(asked.size + 1)
        )
        if asked.after is not None:
            query = query.where(_follows(asked.after, asked))
        found = [*map(Place._make, connection.execute(query).all())]
        if not {type(place.started_at) for place in found} <= {float}:
            raise StoreDamaged(str(self._path), f"the start of a {kind} cannot be read")
        return found


def _follows(place: Place, asked: PageRequest) -> ColumnElement[bool]:
    """Return the condition that an outcome comes after a place."""
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
