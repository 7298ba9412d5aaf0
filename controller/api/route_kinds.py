"""The kinds of routes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from controller.api.identity import Caller
from controller.api.queries import NoQuery
from controller.api.reads import Ids, Reading
from controller.contracts.base import Contract
from controller.contracts.records import Scope

TOTAL: Final = "Benchfarm-Total"
"""Header: how many items fit, with those that are left out because they are damaged, or because
only the newest are wanted."""
Query = TypeVar("Query", bound=NoQuery)
Body = TypeVar("Body", bound=Contract)


@dataclass(frozen=True, slots=True)
class ReadRoute(Generic[Query]):
    """A GET route."""

    path: str
    """Below PREFIX; `{…}` is an id."""
    name: str
    """Its operation's id in the description."""
    summary: str
    query: type[Query]
    answer: type[Contract]
    work: Callable[[Reading, Query, Ids], Contract]
    statuses: tuple[int, ...] = ()
    """Of problems, beside those of every route."""
    asks_controller: bool = False
    """Whether it waits for the controller, which may be stuck."""


@dataclass(frozen=True, slots=True)
class Export:
    """An answer that is sent while it is made."""

    media_type: str
    pieces: Iterator[bytes]
    """Each is made in a thread, after the one before has been sent."""
    total: int
    """How many items fit; see TOTAL."""


@dataclass(frozen=True, slots=True)
class ExportRoute(Generic[Query]):
    """A GET route that returns all items at once, whatever their number."""

    path: str
    name: str
    summary: str
    query: type[Query]
    work: Callable[[Reading, Query], Export]
    media_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteRoute(Generic[Body]):
    """A route that the controller is asked for in the name of the caller."""

    method: str
    path: str
    name: str
    summary: str
    body: type[Body] | None
    answer: type[Contract]
    work: Callable[[Reading, Caller, Body | None, Ids], Contract]
    scope: Scope = Scope.SUBMITTER
    """Least scope of the caller's token."""
