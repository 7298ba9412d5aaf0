"""The budget of a step. Pure; made of the parts of a step, so that its columns add up to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from controller.contracts.budget import Budget, BudgetLine
from controller.profiles.model import PrimitiveRow, Profile, phase_number
from controller.profiles.parts import NO_PHASE, UNEXPLAINED, WAITING, Part, parts_of

Key = tuple[str, str]
"""Phase and operation."""


def budget_of(profile: Profile) -> Budget:
    """Return the budget of a profile's step."""
    parts = parts_of(profile)
    step = _line(("", ""), parts)
    phases = _grouped(parts, lambda part: (part.row.place.phase or NO_PHASE, ""))
    known = any(part.headroom_s is not None for part in parts)
    left_s = step.seconds - step.above_roof_s
    summary = profile.summary
    return Budget(
        per_step=summary.steps is not None,
        op_threads=summary.op_threads,
        validity=summary.validity,
        reasons=summary.reasons,
        step=step,
        phases=tuple(sorted(phases, key=lambda line: phase_number(line.phase))),
        operations=tuple(sorted(_grouped(parts, _operation), key=lambda line: -line.between_s)),
        faster_at_peaks=step.seconds / step.at_peak_s if known and step.at_peak_s else None,
        faster_without_headroom=step.seconds / left_s if known and left_s else None,
    )


def _grouped(parts: Iterable[Part], key_of: Callable[[Part], Key]) -> list[BudgetLine]:
    groups: dict[Key, list[Part]] = {}
    for part in parts:
        groups.setdefault(key_of(part), []).append(part)
    return [_line(key, group) for key, group in groups.items()]


def _line(key: Key, parts: Sequence[Part]) -> BudgetLine:
    told = [(part, _column(part)) for part in parts]
    known = [part for part, column in told if column == "above_roof_s"]
    above_s = sum(part.headroom_s or 0.0 for part in known)
    return BudgetLine(
        phase=key[0],
        operation=key[1],
        seconds=sum(part.seconds for part in parts),
        at_peak_s=sum(part.seconds for part in known) - above_s,
        above_roof_s=above_s,
        **{
            column: sum(part.seconds for part, of in told if of == column)
            for column in ("no_roof_s", "waiting_s", "in_no_op_s")
        },
    )


def _column(part: Part) -> str:
    """Return what a part's time above its peak is called."""
    place = part.row.place
    if not isinstance(part.row, PrimitiveRow) and not place.op:
        return "waiting_s" if place.waits else "in_no_op_s"
    return "no_roof_s" if part.headroom_s is None else "above_roof_s"


def _operation(part: Part) -> Key:
    row = part.row
    phase = row.place.phase or NO_PHASE
    if isinstance(row, PrimitiveRow):
        return phase, f"{row.primitive} {row.direction}".strip()
    return phase, WAITING if row.place.waits else row.place.kernel or UNEXPLAINED
