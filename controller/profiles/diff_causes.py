"""What differs between an operation of one profile and its counterpart in another. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.contracts.profile_diff import ChangeKind
from controller.profiles.counts import calls_text
from controller.profiles.model import PrimitiveRow
from controller.profiles.parts import Row
from controller.profiles.sites import Key, Site, dtype_of, is_conversion, is_copy, is_reorder, op_of

HALF_A_CALL = 500
"""Thousandths of a call, a step."""
FEW_CALLS = 0.02
"""Share of very many calls: far less than times can tell."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What differs first in what an operation does."""

    kind: ChangeKind
    detail: str = ""
    """What it was and is; of copies the data type, if the work's is another one, too."""
    counted: str = ""
    """The work whose number of calls differs most."""
    counts: tuple[float, float] = (0.0, 0.0)
    """Of a step: its calls."""


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A change of one operation in one module."""

    cause: Cause
    one: Site
    other: Site


SAME_WORK = Cause(ChangeKind.SAME_WORK)


def changes_of(one: Site | None, other: Site | None) -> Iterator[FoundChange]:
    """Yield the changes between an operation of A and its counterpart in B, None where there is
    none; each of their parts is in one of them."""
    if one is None or other is None:
        there = one or other or Site()
        nowhere = Site(there.phase, there.module, there.op)
        yield FoundChange(_cause_of_only(one, other), one or nowhere, other or nowhere)
        return
    if one.same(other, _same_work):
        yield FoundChange(SAME_WORK, one, other)
        return
    conversions: list[tuple[ChangeKind, Site, Site]] = []
    for kind, is_apart, key_of in _CONVERSIONS:
        (found, rest), (found_b, rest_b) = one.split(is_apart), other.split(is_apart)
        if not (found.parts or found_b.parts):
            continue
        if not _alike(found.counted(key_of), found_b.counted(key_of)):  # else a part of the work
            conversions.append((kind, found, found_b))
            one, other = rest, rest_b
    cause = _cause(one, other) if one.parts or other.parts else SAME_WORK
    types = cause.detail if cause.kind is ChangeKind.DATA_TYPE else ""
    for kind, found, found_b in conversions:
        why = types if kind is ChangeKind.COPIES else ""
        yield FoundChange(Cause(kind, why), found, found_b)
    if one.parts or other.parts:
        yield FoundChange(cause, one, other)


def with_types(found: Iterable[FoundChange]) -> list[FoundChange]:
    """Return the changes, where copies of one side alone, as in the gradients of casts, are told
    with the data type that the work of the same module and phase has on the other side."""
    changes = list(found)
    typed = [one for one in changes if one.cause.kind is ChangeKind.DATA_TYPE]
    typed.sort(key=lambda change: change.one.seconds + change.other.seconds)
    types = {(one.one.phase, one.one.module): one.cause.detail for one in typed}
    return [_typed(change, types) for change in changes] if types else changes


def _typed(change: FoundChange, types: Mapping[tuple[str, str], str]) -> FoundChange:
    one, other = change.one, change.other
    why = types.get((one.phase, one.module))
    if why is None or change.cause.kind not in (ChangeKind.ONLY_A, ChangeKind.ONLY_B):
        return change
    parts = (*one.parts, *other.parts)
    copied_s = sum(part.seconds for part in parts if is_copy(part.row))
    if 2 * copied_s <= one.seconds + other.seconds:
        return change
    counts = one.calls, other.calls
    cause = Cause(ChangeKind.COPIES, why, counted=one.op or other.op, counts=counts)
    return replace(change, cause=cause)


def _cause_of_only(one: Site | None, other: Site | None) -> Cause:
    """Return that only one side has an operation; if that only converts, as reorders."""
    there = one or other or Site()
    converting_s = sum(part.seconds for part in there.parts if is_conversion(part.row))
    if 2 * converting_s > there.seconds:
        counts = (one.calls if one else 0.0, other.calls if other else 0.0)
        return Cause(ChangeKind.REORDERS, counted=there.op, counts=counts)
    return Cause(ChangeKind.ONLY_A if one else ChangeKind.ONLY_B)


def _alike(ones: Mapping[Key, int], others: Mapping[Key, int]) -> bool:
    """Return whether calls are the same, as `Site.counted` has them, but for parts of one, or for
    a few of very many.

    What is called once in several steps is called in some windows of steps and not in others.
    """
    return not any(_is_apart(ones.get(key, 0), others.get(key, 0)) for key in {*ones, *others})


def _is_apart(one: int, other: int) -> bool:
    return abs(other - one) >= max(HALF_A_CALL, FEW_CALLS * max(one, other))


def _cause(one: Site, other: Site) -> Cause:
    if _alike(one.counted(_work), other.counted(_work)):
        return SAME_WORK
    types = [_first(site.by_time(dtype_of)) for site in (one, other)]
    if types[0] != types[1]:
        return Cause(ChangeKind.DATA_TYPE, _shift(*(kind or "none" for kind in types)))
    works = [site.work() for site in (one, other)]
    if found := _cause_of_one(works):
        return found
    if sizes := _of_one_only(works, _sizes):
        return Cause(ChangeKind.SHAPES, _shift(*sizes))
    if not _alike(*(work.counted(_shape) for work in works)):
        return _calls_of(works)
    for kind, key_of in _CAUSES:
        if len({key_of(part.row) for work in works for part in work.parts}) < 2:
            continue  # of one alone, another number of calls is no other one
        if only := _of_one_only(works, key_of):
            return Cause(kind, _shift(*only))
        if not _alike(*(work.counted(key_of) for work in works)):
            return Cause(kind, _counted(*_most_apart(works, key_of)))
    return SAME_WORK


def _of_one_only(works: Sequence[Site], key_of: Callable[[Row], str]) -> list[str]:
    """Return what each has most of that the other has none of; empty if there is no such thing."""
    counts = [work.counted(key_of) for work in works]
    only = [
        {
            key
            for key, calls in counts[side].items()
            if key not in counts[1 - side] and _is_apart(calls, 0)
        }
        for side in (0, 1)
    ]
    if not any(only):
        return []
    names = _shape if key_of is _sizes else key_of
    found = []
    for work, keys in zip(works, only, strict=True):
        named = work.by_time(lambda row: (key_of(row), names(row)))
        found.append(_first([name for key, name in named if key in keys]) or "none")
    return found


def _cause_of_one(works: Sequence[Site]) -> Cause | None:
    """Return other sizes or calls of what is one kernel in both; None if there is more to compare.

    Most operations are: of very many, counting takes the longest.
    """
    if any(len(work.parts) != 1 for work in works):
        return None
    one, other = (work.parts[0].row for work in works)
    counts = round(1000 * one.calls), round(1000 * other.calls)
    if _sizes(one) != _sizes(other) and min(counts) >= HALF_A_CALL:
        return Cause(ChangeKind.SHAPES, _shift(_shape(one), _shape(other)))
    if not _is_apart(*counts) or _shape(one) != _shape(other):
        return None
    return Cause(ChangeKind.CALLS, counted=_name(one), counts=(counts[0] / 1000, counts[1] / 1000))


def _calls_of(works: Sequence[Site]) -> Cause:
    """Return the change of calls, by name; if names have the same calls, by sizes."""
    if _alike(*(work.counted(_name) for work in works)):
        return Cause(ChangeKind.CALLS, _counted(*_most_apart(works, _shape)))
    name, *counts = _most_apart(works, _name)
    return Cause(ChangeKind.CALLS, counted=name, counts=(counts[0], counts[1]))


def _most_apart(works: Sequence[Site], key_of: Callable[[Row], str]) -> tuple[str, float, float]:
    """Return that of which the calls differ most, and its calls in both; of several, where most
    time goes."""
    ones, others = (work.counted(key_of) for work in works)
    keys = dict.fromkeys(key for work in reversed(works) for key in work.by_time(key_of))
    found = max(keys, key=lambda key: abs(others.get(key, 0) - ones.get(key, 0)))
    return found, ones.get(found, 0) / 1000, others.get(found, 0) / 1000


def _counted(name: str, one: float, other: float) -> str:
    return f"{name} {_shift(calls_text(one), calls_text(other))}"


def _name(row: Row) -> str:
    if isinstance(row, PrimitiveRow):
        return f"{row.primitive} {row.direction}".strip()
    return row.place.kernel or op_of(row)


def _size(row: Row) -> str:
    return row.problem if isinstance(row, PrimitiveRow) else row.place.dims


def _sizes(row: Row) -> str:
    """Return what computes and its sizes, in whichever direction."""
    name = row.primitive if isinstance(row, PrimitiveRow) else _name(row)
    return f"{name} {_size(row)}"


def _shape(row: Row) -> str:
    return f"{_name(row)} {_size(row)}".strip()


def _implementation(row: Row) -> str:
    return row.implementation if isinstance(row, PrimitiveRow) else ""


def _layout(row: Row) -> str:
    return row.layout if isinstance(row, PrimitiveRow) else row.place.strides


def _body(row: Row) -> str:
    return row.body if isinstance(row, PrimitiveRow) else ""


def _work(row: Row) -> tuple[str, ...]:
    """Return all that tells what a row does."""
    place = row.place
    if isinstance(row, PrimitiveRow):
        return row.body, row.problem
    return place.kernel, place.dims, place.strides, place.dtypes


def _same_work(row: Row, other: Row) -> bool:
    """Return whether rows are alike in all that `_work` tells; it makes nothing, of very many."""
    if isinstance(row, PrimitiveRow) or isinstance(other, PrimitiveRow):
        return _work(row) == _work(other)
    here, there = row.place, other.place
    return (
        here.dims == there.dims
        and here.kernel == there.kernel
        and here.strides == there.strides
        and here.dtypes == there.dtypes
    )


_CONVERSIONS: Sequence[tuple[ChangeKind, Callable[[Row], bool], Callable[[Row], str]]] = (
    (ChangeKind.REORDERS, is_reorder, _body),
    (ChangeKind.COPIES, is_copy, op_of),
)
"""What an operation does beside its work, each a change of its own; by what they are the same."""
_CAUSES = (
    (ChangeKind.IMPLEMENTATION, _implementation),
    (ChangeKind.LAYOUT, _layout),
)


def _first(found: Sequence[str]) -> str:
    return next((one for one in found if one), "")


def _shift(one: str, other: str) -> str:
    return f"{one} → {other}"
