"""What two profiles differ in, and which part of the difference each change makes. Pure.

Every second of both is in exactly one change, so that the changes add up to the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.contracts.profile_diff import Change, ChangeKind, Condition, ProfileDiff, Ratio
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.parts import Row
from controller.profiles.sites import Site, dtype_of, op_of, paired, sites_of
from controller.profiles.validity import NOISE

CONDITIONS = (
    *("cpu_model", "cores", "threads", "interop_threads", "numa", "malloc", "governor"),
    *("torch", "onednn", "ipex", "python", "kernel", "microcode", "cpu_isa"),
)
"""Facts of the environment that can change how fast the same work is done."""
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
    changes = sorted(_together(found), key=lambda change: -abs(change.difference_s))
    summaries = one.summary, other.summary
    seconds = _whole(summaries[0], sites[0]), _whole(summaries[1], sites[1])
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
    if summary.step_s is not None:
        return summary.step_s
    return sum(site.seconds for site in sites)


def _changes(one: Site | None, other: Site | None) -> Iterator[_Found]:
    if one is None or other is None:
        there = one or other or Site()
        nowhere = Site(there.phase, there.module, there.op)
        kind = ChangeKind.ONLY_A if one else ChangeKind.ONLY_B
        yield _Found(kind, one or nowhere, other or nowhere)
        return
    (reorders, rest), (reorders_b, rest_b) = one.split(), other.split()
    if reorders.counted(_layouts) == reorders_b.counted(_layouts):
        rest, rest_b = one, other  # the same ones: they are a part of the work
    else:
        yield _Found(ChangeKind.REORDERS, reorders, reorders_b)
    if rest.parts or rest_b.parts:
        kind, detail = _cause(rest, rest_b)
        yield _Found(kind, rest, rest_b, detail)


def _cause(one: Site, other: Site) -> tuple[ChangeKind, str]:
    """Return what differs first in what an operation does, and what it was and is."""
    types = [_first(site.by_time(dtype_of)) for site in (one, other)]
    if types[0] != types[1]:
        return ChangeKind.DATA_TYPE, _shift(*(kind or "none" for kind in types))
    names = [site.counted(_name) for site in (one, other)]
    shapes = [site.counted(_shape) for site in (one, other)]
    if shapes[0] != shapes[1] and set(shapes[0]) != set(shapes[1]):
        return ChangeKind.SHAPES, _apart(one, other, set(shapes[0]), set(shapes[1]))
    if names[0] != names[1] or shapes[0] != shapes[1]:
        return ChangeKind.CALLS, ""
    for kind, key_of in (
        (ChangeKind.IMPLEMENTATION, _implementation),
        (ChangeKind.LAYOUT, _layouts),
    ):
        if one.counted(key_of) != other.counted(key_of):
            mains = [_first(s.by_time(key_of)) for s in (one, other)]
            return kind, _shift(*mains) if mains[0] != mains[1] else "of a part"
    return ChangeKind.SAME_WORK, ""


def _together(found: Iterable[_Found]) -> Iterator[Change]:
    """Yield a change for all modules in which an operation has changed in the same way."""
    groups: dict[tuple[str, ...], list[_Found]] = {}
    for change in found:
        typed = change.detail if change.kind is ChangeKind.DATA_TYPE else ""
        key = (change.kind, change.one.phase, change.one.op, change.other.op, typed)
        groups.setdefault(key, []).append(change)
    for group in groups.values():
        largest = max(group, key=lambda of: abs(of.other.seconds - of.one.seconds))
        one, other = largest.one, largest.other
        seconds = sum(of.one.seconds for of in group), sum(of.other.seconds for of in group)
        calls = (
            sum(_calls(largest.kind, of.one) for of in group),
            sum(_calls(largest.kind, of.other) for of in group),
        )
        yield Change(
            kind=largest.kind,
            phase=one.phase,
            op=one.op,
            op_b=other.op if other.op != one.op else None,
            detail=largest.detail,
            modules=tuple(dict.fromkeys(of.one.module for of in group if of.one.module)),
            calls=calls,
            seconds=seconds,
            resolved=_is_resolved(*seconds),
        )


def _calls(kind: ChangeKind, site: Site) -> float:
    return site.all_calls if kind is ChangeKind.REORDERS else site.calls


def _is_resolved(one_s: float, other_s: float) -> bool:
    """Return whether times differ by more than each may be off by itself."""
    return abs(other_s - one_s) > NOISE * (one_s + other_s) + TINY_S


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


def _notes(one: ProfileSummary, other: ProfileSummary) -> Iterator[str]:
    for name, summary in (("A", one), ("B", other)):
        for reason in summary.reasons:
            yield f"{name} is {summary.validity}: {reason}"
    if (one.step_s is None) != (other.step_s is None):
        yield "only one of them was timed unwatched: the other's times have the overhead of watching"
    if one.op_threads != other.op_threads:
        yield f"times are sums over threads: over {one.op_threads} in A, {other.op_threads} in B"


def _name(row: Row) -> str:
    return row.primitive if isinstance(row, PrimitiveRow) else row.place.kernel or op_of(row)


def _shape(row: Row) -> str:
    sizes = row.problem if isinstance(row, PrimitiveRow) else row.place.dims
    return f"{_name(row)} {sizes}"


def _implementation(row: Row) -> str:
    return row.implementation if isinstance(row, PrimitiveRow) else ""


def _layouts(row: Row) -> str:
    return f"{row.layout} {row.problem}" if isinstance(row, PrimitiveRow) else row.place.strides


def _first(found: Sequence[str]) -> str:
    return next((one for one in found if one), "")


def _apart(one: Site, other: Site, shapes: set[str], shapes_b: set[str]) -> str:
    """Return the shapes with most time that only one of them has."""
    only = (
        next((s for s in one.by_time(_shape) if s not in shapes_b), "none"),
        next((s for s in other.by_time(_shape) if s not in shapes), "none"),
    )
    return _shift(*only)


def _shift(one: str, other: str) -> str:
    return f"{one} → {other}"
