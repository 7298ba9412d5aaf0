"""Selection of stored results by sides such as `torch:precision=bf16`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.base import Scalar, scalar_text
from controller.contracts.errors import NotFound, UserError
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity, usable
from controller.contracts.sweep import Side
from controller.reports.sides import side_of, sides_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """The user's choice of what to compare."""

    a: Side
    """A knob may be left out if all stored results have the same value of it."""
    b: Side
    workload: str
    scenario: str
    knobs: Mapping[str, Scalar]
    """Knobs of both sides."""
    device: str | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The selected results: paired ones or, if there are none, those of each side.

    VALID ones; DISTURBED paired ones if no VALID pair is stored, and then the verdict says so.
    """

    sides: tuple[Side, Side]
    paired: tuple[StoredResult, ...] = ()
    a: tuple[StoredResult, ...] = ()
    b: tuple[StoredResult, ...] = ()


def choose(results: Sequence[StoredResult], wanted: Wanted) -> Chosen:
    """Select results; raises NotFound if there are none, UserError if a side is ambiguous."""
    meant = [result for result in results if _is_meant_by(result, wanted)]
    paired = usable(r for r in meant if r.versus and _turned(r, wanted))
    if turned := [sides for result in paired if (sides := _turned(result, wanted))]:
        sides = _only([a for a, _ in turned], "A"), _only([b for _, b in turned], "B")
        return Chosen(sides, paired=tuple(paired))
    # Both sides of a pair were measured in turns under one disturbance; separate runs were not.
    alone = [r for r in meant if not r.versus and r.validity is Validity.VALID]
    a, b = _of_side(alone, wanted, wanted.a, "A"), _of_side(alone, wanted, wanted.b, "B")
    sides = _only([side_of(r) for r in a], "A"), _only([side_of(r) for r in b], "B")
    return Chosen(sides, a=tuple(a), b=tuple(b))


def is_comparison_of(result: StoredResult, wanted: Wanted) -> bool:
    """Return whether a result, VALID or not, is a paired one of the sides that are meant."""
    meant = (result.workload, result.scenario) == (wanted.workload, wanted.scenario)
    on_it = wanted.device in (None, result.device)
    return bool(result.versus and meant and on_it and _turned(result, wanted))


def stray_knob(chosen: Chosen, wanted: Wanted) -> str | None:
    """Return the first knob that differs between the sides though the user didn't ask for it, or
    None."""
    a, b = (side.knobs for side in chosen.sides)
    named = wanted.a.knobs.keys() | wanted.b.knobs.keys()
    for name in sorted((a.keys() & b.keys()) - named):
        if a[name] != b[name]:
            return f"{name} differs: {a[name]} and {b[name]}"
    return None


def _is_meant_by(result: StoredResult, wanted: Wanted) -> bool:
    return (
        result.counted
        and (result.workload, result.scenario) == (wanted.workload, wanted.scenario)
        and wanted.device in (None, result.device)
    )


def _turned(result: StoredResult, wanted: Wanted) -> tuple[Side, Side] | None:
    """Return a paired result's sides in the user's order, or None if it doesn't match."""
    one, other = sides_of(result)
    for a, b in ((one, other), (other, one)):
        if _is_meant(a, wanted.a, wanted) and _is_meant(b, wanted.b, wanted):
            return a, b
    return None


def _is_meant(side: Side, meant: Side, wanted: Wanted) -> bool:
    named = {**wanted.knobs, **meant.knobs}
    return side.stack == meant.stack and all(
        side.knobs.get(name) == value for name, value in named.items()
    )


def _of_side(
    results: Sequence[StoredResult], wanted: Wanted, meant: Side, name: str
) -> list[StoredResult]:
    found = [result for result in results if _is_meant(side_of(result), meant, wanted)]
    if not found:
        knobs = " ".join(f"{k}={v}" for k, v in {**wanted.knobs, **meant.knobs}.items())
        where = f" on {wanted.device}" if wanted.device else ""
        raise NotFound(
            f"find results of side {name}",
            f"no VALID result is stored for {wanted.workload} under {wanted.scenario} with stack "
            f"{meant.stack} {knobs}".rstrip()
            + where,
            "Run `benchfarm results list` to see what is stored.",
        )
    return found


def _only(sides: Sequence[Side], name: str) -> Side:
    """Return the only distinct side; raises UserError naming a knob if there are several."""
    first = sides[0]
    for other in sides:
        for knob in sorted(first.knobs.keys() | other.knobs.keys()):
            one, two = first.knobs.get(knob), other.knobs.get(knob)
            if one != two:
                # A cell that is older than the knob lacks it, and none can be named by that.
                named = next(scalar_text(value) for value in (one, two) if value is not None)
                raise UserError(
                    f"choose results of side {name}",
                    f"several cells are stored, with {knob} {one} and {two}",
                    f"Name one, such as {first.stack}:{knob}={named} or --knob {knob}={named}.",
                )
    return first
