"""What two profiles differ in, and which part of the difference each change makes. Pure.

Every second of both is in exactly one change, so that the changes add up to the difference. Of
several threads, that is the difference of the sums over them, and not of the steps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter

from controller.contracts.profile import ProfileSummary
from controller.contracts.profile_diff import Change, ChangeKind, ProfileDiff, Ratio
from controller.profiles.counts import calls_text
from controller.profiles.diff_causes import FoundChange, changes_of, with_types
from controller.profiles.diff_conditions import are_known, conditions_of, reading_of
from controller.profiles.diff_detail import NAMES, in_same_detail
from controller.profiles.model import Profile
from controller.profiles.parts import UNEXPLAINED, WAITING
from controller.profiles.sites import Site, paired, sites_of
from controller.profiles.step_time import step_time
from controller.profiles.validity import NOISE, SHARES_APART

TINY_S = 1e-5
"""Clocks of traces tell no less."""
MACHINES_OWN = 0.2
"""Share of a machine's own change of speed by which parts of a step follow it more or less: memory
and cores need not change alike."""
SHARED = 0.8
"""Least share of the same work, by time, that follows it."""


def diff(one: Profile, other: Profile, names: tuple[str, str] = NAMES) -> ProfileDiff:
    """Return what profile B, the second, differs in from A, the first.

    Both are of one step, or both are of all there is. names: of the profiles, for an error. Raises
    UserError if one has only primitives, and the other none.
    """
    same = in_same_detail(one, other, names)
    sites = sites_of(same.one), sites_of(same.other)
    found = with_types(change for pair in paired(*sites) for change in changes_of(*pair))
    summaries = same.one.summary, same.other.summary
    one_s, other_s = (sum(site.seconds for site in of) for of in sites)
    seconds = step_time(summaries[0], one_s), step_time(summaries[1], other_s)
    conditions, known = tuple(conditions_of(*summaries)), all(map(are_known, summaries))
    rates = _matmul_rates(*summaries)
    # Rates that were taken beside a disturbed step may be of other moments than it.
    told = rates if all(summary.validity == "VALID" for summary in summaries) else (None, None)
    times = _times_of_same_work(found, told) if known and not conditions else 1.0
    together = _together(found, max(seconds), times)
    loads = summaries[0].load_s, summaries[1].load_s
    return ProfileDiff(
        per_step=one.summary.steps is not None,
        seconds=seconds,
        resolved=max(seconds) > (1 + NOISE) * min(seconds),
        validity=(summaries[0].validity, summaries[1].validity),
        load_s=loads,
        load_resolved=_is_load_resolved(*loads, max(seconds)),
        conditions=conditions,
        conditions_known=known,
        matmul_gflops=rates,
        same_work_times=times,
        changes=tuple(sorted(together, key=lambda change: -abs(change.difference_s))),
        phases=tuple(_ratios(sites, attrgetter("phase"))),
        modules=tuple(_ratios(sites, attrgetter("module"))),
        notes=(
            *_notes(*summaries),
            *same.notes,
            *_sums_over_threads(*summaries),
            *_untold_loading(*summaries),
        ),
    )


def _times_of_same_work(
    found: Sequence[FoundChange], rates: tuple[float | None, float | None]
) -> float:
    """Return how many times as long the same work took in B, if all of it did: the machine's own
    speed. 1.0 if that is not what slowed it, or made it faster.

    It did if most time was in the same work, most operations of which took about as many times as
    long as their median, while hardly any took as long as before; and if the rates of matrix
    products beside the steps, where both are known, agree.
    """
    operations: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    as_before_s = 0.0
    for change in found:
        if change.cause.kind is not ChangeKind.SAME_WORK:
            continue
        if change.one.op not in (UNEXPLAINED, WAITING):
            # Over all modules: that of one alone varies by more.
            took = operations[change.one.phase, change.one.op]
            took[0] += change.one.seconds
            took[1] += change.other.seconds
            if abs(change.other.seconds - change.one.seconds) < NOISE * change.one.seconds:
                as_before_s += change.one.seconds
    same = [(other_s / one_s, one_s) for one_s, other_s in operations.values() if one_s > 0]
    if not same:
        return 1.0
    times = _median_by_time(same)
    same_s = sum(seconds for _, seconds in same)
    alike_s = sum(s for own, s in same if abs(own - times) < MACHINES_OWN * times)
    is_most = 2 * same_s > sum(change.one.seconds for change in found)
    is_shared = alike_s > SHARED * same_s and as_before_s < SHARES_APART * same_s
    is_apart = max(times, 1 / times) > 1 + NOISE if times else False
    return times if is_most and is_shared and is_apart and _agree(times, rates) else 1.0


def _median_by_time(times: Iterable[tuple[float, float]]) -> float:
    """Return the median of numbers that each have a time, of which there is one at least."""
    ordered = sorted(times)
    until = accumulate(seconds for _, seconds in ordered)
    half_s = sum(seconds for _, seconds in ordered) / 2
    return next(own for (own, _), taken_s in zip(ordered, until, strict=True) if taken_s >= half_s)


def _agree(times: float, rates: tuple[float | None, float | None]) -> bool:
    """Return whether rates beside the steps say, too, that the machine became slower or faster: by
    half of that at least, as a power, since memory and cores need not change alike."""
    one, other = rates
    if not one or not other:
        return True
    half = math.sqrt(times)
    return one / other > half if times > 1 else one / other < half


def _together(found: Iterable[FoundChange], step_s: float, times: float) -> Iterator[Change]:
    """Yield a change for all modules in which an operation has changed in the same way.

    step_s: of the longer step; times: what the same work took in B, in times of A.
    """
    groups: dict[tuple[str, ...], _Group] = {}
    for change in found:
        cause = change.cause
        typed = cause.detail if cause.kind in _BY_TYPES else cause.counted
        # Opposite ones are two changes: their calls would cancel.
        way = "more" if cause.counts[1] > cause.counts[0] else ""
        key = (cause.kind, change.one.phase, change.one.op, change.other.op, typed, way)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(change)
        group.add(change)
    yield from (group.change(step_s, times) for group in groups.values())


_BY_TYPES = (ChangeKind.DATA_TYPE, ChangeKind.COPIES)
"""Changes of which each shift of types is one of its own."""


@dataclass(slots=True)
class _Group:
    """Changes of one operation in several modules."""

    largest: FoundChange
    largest_s: float = -1.0
    modules: dict[str, None] = field(default_factory=dict)
    calls: list[float] = field(default_factory=lambda: [0.0, 0.0])
    counts: list[float] = field(default_factory=lambda: [0.0, 0.0])
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, change: FoundChange) -> None:
        """Add a change; a profile may have a hundred thousand."""
        cause, one, other = change.cause, change.one, change.other
        apart_s = abs(other.seconds - one.seconds)
        if apart_s > self.largest_s:
            self.largest, self.largest_s = change, apart_s
        if one.module:
            self.modules[one.module] = None
        for side, site in enumerate((one, other)):
            self.calls[side] += _calls(cause.kind, site)
            self.counts[side] += cause.counts[side]
            self.seconds[side] += site.seconds

    def change(self, step_s: float, times: float) -> Change:
        """Return them as one change, in the words of the largest; see _together."""
        found, seconds = self.largest, (self.seconds[0], self.seconds[1])
        one, other, kind = found.one, found.other, found.cause.kind
        # The operation itself needs no other name; its calls are those that differ.
        is_itself = found.cause.counted in (one.op, other.op)
        detail = found.cause.detail if is_itself else self._detail()
        calls = self.counts if is_itself else self.calls
        return Change(
            kind=kind,
            phase=one.phase,
            op=one.op,
            op_b=other.op if other.op != one.op else None,
            detail=self._beside(times) if kind is ChangeKind.SAME_WORK and times != 1 else detail,
            modules=tuple(self.modules),
            calls=(calls[0], calls[1]),
            seconds=seconds,
            resolved=_is_resolved(
                seconds[0] * (times if kind is ChangeKind.SAME_WORK and one.op != WAITING else 1.0),
                seconds[1],
                _least_s(kind, step_s),
            ),
        )

    @staticmethod
    def _beside(times: float) -> str:
        return f"where all of the same work took {times:.2f}×"

    def _detail(self) -> str:
        cause = self.largest.cause
        if not cause.counted:
            return cause.detail
        one, other = map(calls_text, self.counts)
        return f"{cause.counted} {one} → {other}"


def _calls(kind: ChangeKind, site: Site) -> float:
    return site.all_calls if kind in (ChangeKind.REORDERS, ChangeKind.COPIES) else site.calls


def _is_resolved(one_s: float, other_s: float, least_s: float) -> bool:
    """Return whether times differ by more than each may be off by itself."""
    return abs(other_s - one_s) > NOISE * (one_s + other_s) + least_s


def _least_s(kind: ChangeKind, step_s: float) -> float:
    """Return what a change has to make of a step: the same work differs from run to run."""
    return SHARES_APART * step_s if kind is ChangeKind.SAME_WORK else TINY_S


def _is_load_resolved(one_s: float | None, other_s: float | None, step_s: float) -> bool:
    """Return whether loading differs, by a share of the longer step; what is not known is not 0."""
    if one_s is None or other_s is None:
        return False
    return _is_resolved(one_s, other_s, SHARES_APART * step_s)


def _matmul_rates(one: ProfileSummary, other: ProfileSummary) -> tuple[float | None, float | None]:
    return reading_of(one, "matmul_gflops"), reading_of(other, "matmul_gflops")


def _ratios(sites: Sequence[Sequence[Site]], name_of: Callable[[Site], str]) -> list[Ratio]:
    """Return the time of both sides by what their sites are in, that which differs most first."""
    seconds: dict[str, list[float]] = {}
    for side, of_side in enumerate(sites):
        for site in of_side:
            seconds.setdefault(name_of(site), [0.0, 0.0])[side] += site.seconds
    found = [Ratio(name=name, seconds=(of[0], of[1])) for name, of in seconds.items()]
    return sorted(found, key=lambda ratio: -abs(ratio.seconds[1] - ratio.seconds[0]))


def _notes(one: ProfileSummary, other: ProfileSummary) -> Iterator[str]:
    for name, summary in zip(NAMES, (one, other), strict=True):
        for reason in summary.reasons:
            yield f"{name} is {summary.validity}: {reason}"
    if (one.step_s is None) != (other.step_s is None):
        yield "only one was timed unwatched, too: the other's times have the overhead of watching"


def _sums_over_threads(one: ProfileSummary, other: ProfileSummary) -> Iterator[str]:
    if max(one.op_threads, other.op_threads) > 1:
        yield (
            "times of changes, phases and modules are sums over threads "
            f"({one.op_threads} in A, {other.op_threads} in B): they need not add up to the "
            "difference of the steps"
        )


def _untold_loading(one: ProfileSummary, other: ProfileSummary) -> Iterator[str]:
    """Yield that only one tells of loading, if it takes a share of the step."""
    for name, summary, unknown in (("A", one, other), ("B", other, one)):
        load_s, step_s = summary.load_s, summary.step_s
        if unknown.load_s is None and load_s and step_s and load_s > SHARES_APART * step_s:
            yield (
                f"loading a batch takes {load_s / step_s:.0%} of a step more in {name}, beside the "
                "step; the other doesn't tell it"
            )
