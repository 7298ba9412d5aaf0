"""What two profiles differ in, and which part of the difference each change makes. Pure.

Every second of both is in exactly one change, so that the changes add up to the difference. Of
several threads, that is the difference of the sums over them, and not of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.contracts.profile_diff import Change, ChangeKind, Condition, ProfileDiff, Ratio
from controller.profiles.advising.units import DENORMAL_SHARE
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.parts import Row
from controller.profiles.sites import (
    Key,
    Site,
    dtype_of,
    is_copy,
    is_reorder,
    op_of,
    paired,
    sites_of,
)
from controller.profiles.validity import NOISE, SHARES_APART

CONDITIONS = (
    *("cpu_model", "cores", "threads", "interop_threads", "numa", "malloc", "governor"),
    *("torch", "onednn", "ipex", "python", "kernel", "microcode", "cpu_isa"),
)
"""Facts of the environment that can change how fast the same work is done."""
DENORMALS = "denormal_share"
"""A fact that differs by a little from step to step."""
HALF_A_CALL = 500
"""Thousandths of a call, a step."""
TINY_S = 1e-5
"""Clocks of traces tell no less."""


@dataclass(frozen=True, slots=True)
class _Found:
    kind: ChangeKind
    one: Site
    other: Site
    detail: str = ""


def diff(one: Profile, other: Profile) -> ProfileDiff:
    """Return what profile B, the second, differs in from A, the first.

    Both are of one step, or both are of all there is.
    """
    sites = sites_of(one), sites_of(other)
    found = [change for pair in paired(*sites) for change in _changes(*pair)]
    summaries = one.summary, other.summary
    seconds = _whole(summaries[0], sites[0]), _whole(summaries[1], sites[1])
    together = _together(found, max(seconds))
    changes = sorted(together, key=lambda change: -abs(change.difference_s))
    loads = summaries[0].load_s, summaries[1].load_s
    return ProfileDiff(
        per_step=one.summary.steps is not None,
        seconds=seconds,
        resolved=max(seconds) > (1 + NOISE) * min(seconds),
        validity=(summaries[0].validity, summaries[1].validity),
        load_s=loads,
        load_resolved=_is_resolved(loads[0] or 0.0, loads[1] or 0.0),
        conditions=tuple(_conditions(*summaries)),
        changes=tuple(changes),
        phases=tuple(_ratios(*([(site.phase, site) for site in of] for of in sites))),
        modules=tuple(_ratios(*([(site.module, site) for site in of] for of in sites))),
        notes=tuple(_notes(*summaries)),
    )


def _whole(summary: ProfileSummary, sites: Sequence[Site]) -> float:
    """Return the step as timed; else what its parts come to, but of several threads as traced.

    A trace that marks no steps has time between its ops that is in no part.
    """
    traced_s = summary.traced_step_s if summary.op_threads > 1 else None
    known = (summary.step_s, traced_s)
    return next((of for of in known if of is not None), sum(site.seconds for site in sites))


def _changes(one: Site | None, other: Site | None) -> Iterator[_Found]:
    if one is None or other is None:
        there = one or other or Site()
        nowhere = Site(there.phase, there.module, there.op)
        kind = ChangeKind.ONLY_A if one else ChangeKind.ONLY_B
        yield _Found(kind, one or nowhere, other or nowhere)
        return
    if one.same(other, _same_work):
        yield _Found(ChangeKind.SAME_WORK, one, other)
        return
    for kind, is_apart, key_of in _CONVERSIONS:
        (found, rest), (found_b, rest_b) = one.split(is_apart), other.split(is_apart)
        if not (found.parts or found_b.parts):
            continue
        if not _alike(found.counted(key_of), found_b.counted(key_of)):  # else a part of the work
            yield _Found(kind, found, found_b)
            one, other = rest, rest_b
    if one.parts or other.parts:
        kind, detail = _cause(one, other)
        yield _Found(kind, one, other, detail)


def _alike(ones: Mapping[Key, int], others: Mapping[Key, int]) -> bool:
    """Return whether calls are the same, as `Site.counted` has them, but for parts of one.

    What is called once in several steps is called in some windows of steps and not in others.
    """
    return all(abs(ones.get(key, 0) - others.get(key, 0)) < HALF_A_CALL for key in {*ones, *others})


def _cause(one: Site, other: Site) -> tuple[ChangeKind, str]:
    """Return what differs first in what an operation does, and what it was and is."""
    if _alike(one.counted(_work), other.counted(_work)):
        return ChangeKind.SAME_WORK, ""
    types = [_first(site.by_time(dtype_of)) for site in (one, other)]
    if types[0] != types[1]:
        return ChangeKind.DATA_TYPE, _shift(*(kind or "none" for kind in types))
    works = [site.work() for site in (one, other)]
    for kind, key_of in _CAUSES:
        counts = [work.counted(key_of) for work in works]
        if counts[0].keys() != counts[1].keys():
            only = (
                _first([of for of in work.by_time(key_of) if of not in counts[1 - side]])
                for side, work in enumerate(works)
            )
            return kind, _shift(*(of or "none" for of in only))
        if not _alike(*counts):
            return ChangeKind.CALLS, ""
    return ChangeKind.SAME_WORK, ""


def _together(found: Iterable[_Found], step_s: float) -> Iterator[Change]:
    """Yield a change for all modules in which an operation has changed in the same way."""
    groups: dict[tuple[str, ...], _Group] = {}
    for change in found:
        typed = change.detail if change.kind is ChangeKind.DATA_TYPE else ""
        key = (change.kind, change.one.phase, change.one.op, change.other.op, typed)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(change)
        group.add(change)
    yield from (group.change(step_s) for group in groups.values())


@dataclass(slots=True)
class _Group:
    """Changes of one operation in several modules."""

    largest: _Found
    largest_s: float = -1.0
    modules: dict[str, None] = field(default_factory=dict)
    calls: list[float] = field(default_factory=lambda: [0.0, 0.0])
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, change: _Found) -> None:
        """Add a change; a profile may have a hundred thousand."""
        kind, one, other = change.kind, change.one, change.other
        apart_s = abs(other.seconds - one.seconds)
        if apart_s > self.largest_s:
            self.largest, self.largest_s = change, apart_s
        if one.module:
            self.modules[one.module] = None
        self.calls[0] += _calls(kind, one)
        self.calls[1] += _calls(kind, other)
        self.seconds[0] += one.seconds
        self.seconds[1] += other.seconds

    def change(self, step_s: float) -> Change:
        """Return them as one change, in the words of the largest. step_s: of the longer step."""
        found, seconds = self.largest, (self.seconds[0], self.seconds[1])
        one, other = found.one, found.other
        return Change(
            kind=found.kind,
            phase=one.phase,
            op=one.op,
            op_b=other.op if other.op != one.op else None,
            detail=found.detail,
            modules=tuple(self.modules),
            calls=(self.calls[0], self.calls[1]),
            seconds=seconds,
            resolved=_is_resolved(*seconds, _least_s(found.kind, step_s)),
        )


def _calls(kind: ChangeKind, site: Site) -> float:
    return site.all_calls if kind in (ChangeKind.REORDERS, ChangeKind.COPIES) else site.calls


def _is_resolved(one_s: float, other_s: float, least_s: float = TINY_S) -> bool:
    """Return whether times differ by more than each may be off by itself."""
    return abs(other_s - one_s) > NOISE * (one_s + other_s) + least_s


def _least_s(kind: ChangeKind, step_s: float) -> float:
    """Return what a change has to make of a step: the same work differs from run to run."""
    return SHARES_APART * step_s if kind is ChangeKind.SAME_WORK else TINY_S


def _ratios(ones: Iterable[tuple[str, Site]], others: Iterable[tuple[str, Site]]) -> list[Ratio]:
    seconds: dict[str, list[float]] = {}
    for side, sites in enumerate((ones, others)):
        for name, site in sites:
            seconds.setdefault(name, [0.0, 0.0])[side] += site.seconds
    found = [Ratio(name=name, seconds=(of[0], of[1])) for name, of in seconds.items()]
    return sorted(found, key=lambda ratio: -abs(ratio.seconds[1] - ratio.seconds[0]))


def _conditions(one: ProfileSummary, other: ProfileSummary) -> Iterator[Condition]:
    origins = one.origin or ProfileOrigin(), other.origin or ProfileOrigin()
    for name in ("workload", "stack", "device", "threads"):
        a, b = (getattr(origin, name) for origin in origins)
        if a != b:
            yield Condition(name=name, a=a, b=b)
    knobs = [origin.knobs or {} for origin in origins]
    for name in dict.fromkeys((*knobs[0], *knobs[1])):
        if knobs[0].get(name) != knobs[1].get(name) and name != "threads":
            yield Condition(name=name, a=knobs[0].get(name), b=knobs[1].get(name))
    told = [origin.environment for origin in origins]
    for name in CONDITIONS:
        if name != "threads" and name not in knobs[0] and told[0].get(name) != told[1].get(name):
            yield Condition(name=name, a=told[0].get(name), b=told[1].get(name))
    shares = [facts.get(DENORMALS) for facts in told]
    many = [isinstance(share, float) and share >= DENORMAL_SHARE for share in shares]
    if many[0] != many[1]:
        yield Condition(name=DENORMALS, a=shares[0], b=shares[1])


def _notes(one: ProfileSummary, other: ProfileSummary) -> Iterator[str]:
    for name, summary in (("A", one), ("B", other)):
        for reason in summary.reasons:
            yield f"{name} is {summary.validity}: {reason}"
    if (one.step_s is None) != (other.step_s is None):
        yield "only one was timed unwatched, too: the other's times have the overhead of watching"
    if max(one.op_threads, other.op_threads) > 1:
        yield (
            "times of changes, phases and modules are sums over threads "
            f"({one.op_threads} in A, {other.op_threads} in B): they need not add up to the "
            "difference of the steps"
        )


def _shape(row: Row) -> str:
    if isinstance(row, PrimitiveRow):
        return f"{row.primitive} {row.problem}"
    return f"{row.place.kernel or op_of(row)} {row.place.dims}".strip()


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
    (ChangeKind.SHAPES, _shape),
    (ChangeKind.IMPLEMENTATION, _implementation),
    (ChangeKind.LAYOUT, _layout),
)


def _first(found: Sequence[str]) -> str:
    return next((one for one in found if one), "")


def _shift(one: str, other: str) -> str:
    return f"{one} → {other}"
