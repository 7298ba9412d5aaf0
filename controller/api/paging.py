"""Pages of lists, and the cursors that lead from one page to the next. Pure.

A cursor holds the sort key of the last item of its page, not a number of items, so an item that is
added meanwhile hides no other and repeats none. It also holds a digest of the parameters and of the
ids in the path: one that belongs to another list is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from controller.api.problems import InvalidRequest
from controller.api.queries import PageQuery
from controller.contracts.base import Contract, canonical_json, digest

Item = TypeVar("Item")
Part: TypeAlias = int | float | str
Key: TypeAlias = tuple[Part, ...]
Kinds: TypeAlias = tuple[type[Part], ...]
"""The type of each part of a key."""
MOST_PAGE_BYTES: Final = 2**23
"""Of a page's items as JSON; an item that has more is a page alone."""
NO_IDS: Final[Mapping[str, str]] = {}
LARGEST: Final = 2**63
"""SQLite's integers end before it."""


def json_bytes(item: Contract) -> int:
    """Return how many bytes an item has as JSON."""
    return len(item.model_dump_json().encode())


def how_many_fit(sizes: Iterable[int], most: int) -> int:
    """Return how many of the first items fit into a page of at most so many bytes; one always
    does, if there is any."""
    number = used = 0
    for size in sizes:
        used += size
        if used > most and number:
            break
        number += 1
    return number


def page_of(
    found: Iterable[Item],
    key: Callable[[Item], Key],
    kinds: Kinds,
    asked: PageQuery,
    *,
    descending: bool = False,
    size: Callable[[Any], int] = json_bytes,
    ids: Mapping[str, str] = NO_IDS,
) -> tuple[tuple[Item, ...], str | None]:
    """Return a page of a list, and the cursor of the next one or None.

    key: unique for each item, and the order of the list. size: bytes of an item. ids: those in the
    list's path. Raises InvalidRequest for a cursor that is not of this list.
    """
    in_order = sorted(found, key=key, reverse=descending)
    after = place_of(asked, kinds, ids)
    if after is not None:
        in_order = [i for i in in_order if (key(i) < after if descending else key(i) > after)]
    items = in_order[: asked.limit]
    items = items[: how_many_fit(map(size, items), MOST_PAGE_BYTES)]
    is_last = len(items) == len(in_order)
    return tuple(items), None if is_last else cursor_of(asked, key(items[-1]), ids)


def cursor_of(asked: PageQuery, last: Key, ids: Mapping[str, str] = NO_IDS) -> str:
    """Return the cursor that leads on from the item with a key."""
    text = canonical_json([_digest_of(asked, ids), *last])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(asked: PageQuery, kinds: Kinds, ids: Mapping[str, str] = NO_IDS) -> Key | None:
    """Return the key that a query's cursor holds, None without one; raises InvalidRequest."""
    if asked.cursor is None:
        return None
    of, *key = _decoded(asked.cursor)
    if of != _digest_of(asked, ids):
        raise _refused("it belongs to another list, or to one with other parameters")
    if len(key) != len(kinds) or not all(map(_is_part, key, kinds)):
        raise _refused("it is damaged")
    return tuple(key)


def _digest_of(asked: PageQuery, ids: Mapping[str, str]) -> str:
    return digest([type(asked).__name__, asked.conditions, dict(ids)], 8)


def _decoded(cursor: str) -> Sequence[Part]:
    """Return what a cursor holds: a digest, then the parts of a key, if it is one of ours."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        held = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _refused("it is damaged") from error
    if not (isinstance(held, list) and held):
        raise _refused("it is damaged")
    return held


def _is_part(value: object, kind: type[Part]) -> bool:
    if type(value) is not kind:  # true is no number here
        return False
    if isinstance(value, str):
        return value == value.encode(errors="replace").decode()  # SQLite takes only UTF-8
    if isinstance(value, int):
        return abs(value) < LARGEST
    return math.isfinite(value)


def _refused(seen: str) -> InvalidRequest:
    remedy = "Begin at the first page: leave it out."
    return InvalidRequest("use parameter 'cursor'", seen, remedy)
