"""A log's projection beside a live profile: whether they are of the same work, and agree. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, NoReturn

from controller.contracts.errors import UserError
from controller.contracts.profile import ProfileSummary
from controller.contracts.projection_check import Agreement, ComparedKind, ProjectionCheck
from controller.profiles.assembling import Efficiency, efficiency_of
from controller.profiles.log_replays import likeness, way_of
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.primitive import primitive_of
from controller.profiles.projecting import measured_of

LIMIT: Final = 0.1
"""Share by which an efficiency from a log alone may differ from the live one."""
LEAST_COMMON: Final = 0.9
"""Share of each side's time in primitives that the other has to have, too."""
CALLS_APART: Final = 1.5
"""Factor by which a primitive's calls may differ: logs have a first step, and may be torn."""
_REMEDY: Final = "Give a profile of the same workload, knobs and machine."
_EDGES: Final = 1e-9
"""By which figures that come from the same times may differ."""
Work = tuple[str, ...]
Kind = tuple[str, str]
"""Of primitive, and its direction."""


@dataclass(frozen=True, slots=True)
class Named:
    """A log or profile with the name that the user gave it."""

    name: str
    profile: Profile


def require_live(live: Named) -> None:
    """Raise UserError unless it was measured and replayed here, and is not INVALID."""
    summary = live.profile.summary
    if summary.origin is None or summary.origin.workload is None:
        why = "no workload ran for it: it was imported"
    elif summary.validity == "INVALID":
        why = f"it is INVALID: {summary.reasons[0]}"
    elif summary.efficiency is None or not any(row.replay for row in live.profile.primitives):
        why = "none of its primitives was replayed"
    else:
        return
    remedy = "Give a folder that `benchfarm profile run -o DIR` wrote."
    raise UserError(f"compare with profile {live.name}", why, remedy)


def require_same(log: Named, live: Named) -> None:
    """Raise UserError, with what differs, unless both are of the same work on such machines."""
    for why in (*_other_machine(log, live), *_other_work(log, live), *_other_runs(log, live)):
        _refuse(log, live, why)


def require_this_host(isa: str | None, live: Named) -> None:
    """Raise UserError if the replays' oneDNN tells another instruction set than the profile's.

    isa: as oneDNN logs it; None if it tells none.
    """
    theirs = live.profile.summary.isa
    if isa and theirs and isa != theirs:
        raise UserError(
            f"compare with profile {live.name}",
            f"its machine has {theirs}, and the replays ran on {isa}",
            "Project the log on the machine of both.",
        )


def checked(log: Named, live: Named, again: Profile) -> ProjectionCheck:
    """Return how the projection of a log agrees with a live profile; raises UserError.

    again: the live profile with the times of replays beside the log's. Only what was replayed for
    both is compared.
    """
    sides = [_replayed(of) for of in (log.profile, again)]
    common = sides[0].keys() & sides[1].keys()
    rows = [[row for work in common for row in side[work]] for side in sides]
    if not rows[0]:
        _refuse(log, live, "no primitive was replayed for both")
    scale = _unwatched(live.profile.summary)
    off = [_steps_off(named.profile) or (1.0, 1.0) for named in (log, live)]
    whole_s = _seconds(log.profile.primitives)
    compared = _Comparing(rows[0], rows[1], scale, whole_s)
    kinds: dict[Kind, Kind] = {}
    for row in rows[0]:
        kinds.setdefault(_kind_of(row), (row.primitive, row.direction))
    whole = compared.of(lambda _: True, off)
    return ProjectionCheck(
        limit=LIMIT,
        agreement=_agreement(whole),
        whole=whole,
        kinds=tuple(sorted(compared.each(kinds), key=lambda kind: -kind.share)),
        live_share=_seconds(rows[1]) / _seconds(live.profile.primitives),
        shown_efficiency=live.profile.summary.efficiency or 0.0,
        notes=(*_notes(log, live), *(f"{live.name}: {note}" for note in again.summary.notes)),
    )


@dataclass(frozen=True, slots=True)
class _Comparing:
    """Rows of both sides that do the same work, replayed for both."""

    log: Sequence[PrimitiveRow]
    live: Sequence[PrimitiveRow]
    scale: float
    """By which the profile's times are to be divided, for those of its median watched step."""
    whole_s: float
    """The log's, in all primitives."""

    def each(self, kinds: Mapping[Kind, Kind]) -> Iterator[ComparedKind]:
        """Yield the kinds, each by its replays' intervals alone; kinds: with what they are told."""
        for kind, (primitive, direction) in kinds.items():
            told = {"primitive": primitive, "direction": direction}
            yield self.of(partial(_is_of, kind)).model_copy(update=told)

    def of(
        self,
        belongs: Callable[[PrimitiveRow], bool],
        off: Sequence[tuple[float, float]] = ((1.0, 1.0), (1.0, 1.0)),
    ) -> ComparedKind:
        """Return some rows together. off: by which factors each side's steps may be off."""
        mine = [row for row in self.log if belongs(row)]
        theirs = [row for row in self.live if belongs(row)]
        log = _bounded(_efficiency(mine, 1.0), off[0])
        live = _bounded(_efficiency(theirs, self.scale), off[1])
        return ComparedKind(
            share=_seconds(mine) / self.whole_s,
            log=log[0],
            live=live[0],
            ratio=log[0] / live[0],
            low=log[1] / live[2],
            high=log[2] / live[1],
        )


def _unwatched(summary: ProfileSummary) -> float:
    """Return by what a profile's times are divided, for those of its median watched step.

    To that, a log's is compared: the median by its time in primitives; if not known, by its time.
    """
    if summary.scale and summary.onednn_median:
        return summary.scale / summary.onednn_median
    if summary.step_s and summary.verbose_step_s:
        return summary.step_s / summary.verbose_step_s
    return summary.scale or 1.0


def _is_of(kind: Kind, row: PrimitiveRow) -> bool:
    return _kind_of(row) == kind


def _kind_of(row: PrimitiveRow) -> Kind:
    """Return a row's kind of primitive and direction; both forward ones are one where they do the
    same work."""
    primitive = primitive_of(row.body)
    return row.primitive, way_of(primitive) if primitive else row.direction


def _efficiency(rows: Sequence[PrimitiveRow], scale: float) -> Efficiency:
    """Return the efficiency of times as they were watched, not scaled."""
    return efficiency_of([(row.seconds / scale, row.kept_calls, row.replay) for row in rows])


def _bounded(found: Efficiency, off: tuple[float, float]) -> tuple[float, float, float]:
    value, low, high = found.value or 0.0, found.low or 0.0, found.high or 0.0
    return value, low * off[0], high * off[1]


def _steps_off(profile: Profile) -> tuple[float, float] | None:
    """Return by which factors the efficiency's bounds are wider than its replays' own.

    None if a run of it has no steps to tell it by.
    """
    found, told = efficiency_of(measured_of(profile)), profile.summary
    if not found.low or not found.high or told.efficiency_low is None:
        return None
    return told.efficiency_low / found.low, (told.efficiency_high or found.high) / found.high


def _agreement(whole: ComparedKind) -> Agreement:
    least, most = 1 - LIMIT - _EDGES, 1 + LIMIT + _EDGES
    if least <= whole.low and whole.high <= most:
        return Agreement.WITHIN
    return Agreement.BEYOND if whole.high < least or whole.low > most else Agreement.NOT_RESOLVED


def _notes(log: Named, live: Named) -> Iterator[str]:
    for named in (log, live):
        if _steps_off(named.profile) is None:
            yield f"nothing tells how {named.name}'s steps vary: the interval leaves them out"
        for reason in named.profile.summary.reasons:
            yield f"{named.name} is {named.profile.summary.validity}: {reason}"


def _other_machine(log: Named, live: Named) -> Iterator[str]:
    """Yield what oneDNN's first lines tell of another machine, release or number of threads."""
    one, other = log.profile.summary, live.profile.summary
    told = (
        ("oneDNN", ", ".join(one.libraries), ", ".join(other.libraries)),
        ("instruction set", one.isa, other.isa),
        ("threads", _threads(one), _threads(other)),
    )
    for name, here, there in told:
        if here and there and here != there:
            yield (
                f"they are not of one machine and setting: {name} {here} in the log, {there} in "
                "the profile"
            )


def _threads(summary: ProfileSummary) -> int | None:
    return summary.origin.threads if summary.origin else None


def _other_work(log: Named, live: Named) -> Iterator[str]:
    """Yield what one side has that the other has not, or much more often."""
    sides = [_by_work(named.profile.primitives) for named in (log, live)]
    common = sides[0].keys() & sides[1].keys()
    for (here, there), side in zip(((log, live), (live, log)), sides, strict=True):
        lacking = {work: rows for work, rows in side.items() if work not in common}
        share = _share(lacking, side)
        if share > 1 - LEAST_COMMON:
            yield (
                f"they are not of the same work: {share:.0%} of {here.name}'s time is in "
                f"primitives that {there.name} has not, most in {_largest(lacking)}"
            )
    calls = [{work: sum(row.calls for row in side[work]) for work in common} for side in sides]
    ratios = {work: calls[0][work] / calls[1][work] for work in common if calls[1][work]}
    if not ratios:
        return
    usual = _usual(ratios, sides[0])
    odd = {
        work: sides[0][work]
        for work, ratio in ratios.items()
        if not usual / CALLS_APART <= ratio <= usual * CALLS_APART
    }
    share = _share(odd, sides[0])
    if share > 1 - LEAST_COMMON:
        yield (
            f"they are not of the same work: primitives with {share:.0%} of {log.name}'s time were "
            f"called more or less often beside the others, most in {_largest(odd)}"
        )


def _usual(ratios: Mapping[Work, float], rows: Mapping[Work, Sequence[PrimitiveRow]]) -> float:
    """Return the median of the ratios, each with the weight of its time."""
    half_s, spent_s = sum(_seconds(rows[work]) for work in ratios) / 2, 0.0
    for work in sorted(ratios, key=lambda work: ratios[work]):
        spent_s += _seconds(rows[work])
        if spent_s >= half_s:
            return ratios[work]
    return 1.0


def _other_runs(log: Named, live: Named) -> Iterator[str]:
    """Yield that the same work ran by other implementations, as on another machine."""
    sides = [_by_work(named.profile.primitives) for named in (log, live)]
    other = {
        work: rows
        for work, rows in sides[0].items()
        if work in sides[1] and not _implementations(rows) & _implementations(sides[1][work])
    }
    share = _share(other, sides[0])
    if share > 1 - LEAST_COMMON:
        work = max(other, key=lambda work: _seconds(other[work]))
        names = ["/".join(sorted(_implementations(rows))) for rows in (other[work], sides[1][work])]
        yield (
            f"they did not run alike: {share:.0%} of {log.name}'s time is by other implementations "
            f"than {live.name}'s for the same work, such as {names[0]} in place of {names[1]}"
        )


def _refuse(log: Named, live: Named, why: str) -> NoReturn:
    raise UserError(f"compare {log.name} with profile {live.name}", why, _REMEDY)


def _replayed(profile: Profile) -> dict[Work, list[PrimitiveRow]]:
    rows = profile.primitives
    return _by_work([r for r in rows if r.replay and r.replay.low > 0 and r.seconds > 0])


def _by_work(rows: Sequence[PrimitiveRow]) -> dict[Work, list[PrimitiveRow]]:
    found: defaultdict[Work, list[PrimitiveRow]] = defaultdict(list)
    for row in rows:
        found[_work(row.body)].append(row)
    return dict(found)


@lru_cache(maxsize=16384)
def _work(body: str) -> Work:
    """Return what primitives that do the same work have in common; of an unknown one, itself."""
    primitive = primitive_of(body)
    return likeness(primitive) if primitive else (body,)


def _implementations(rows: Sequence[PrimitiveRow]) -> frozenset[str]:
    return frozenset(row.implementation for row in rows)


def _share(
    some: Mapping[Work, Sequence[PrimitiveRow]], of: Mapping[Work, Sequence[PrimitiveRow]]
) -> float:
    whole_s = sum(_seconds(rows) for rows in of.values())
    return sum(_seconds(rows) for rows in some.values()) / whole_s if whole_s else 0.0


def _largest(some: Mapping[Work, Sequence[PrimitiveRow]]) -> str:
    row = max(some.values(), key=_seconds)[0]
    return " ".join(part for part in (row.primitive, row.direction, row.problem) if part)


def _seconds(rows: Sequence[PrimitiveRow]) -> float:
    return sum(row.seconds for row in rows)
