"""A profile's rows added up for people: by op, by primitive, by module. Pure.

Every table adds up the same parts of a step, so that all of them come to the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import efficiency_of
from controller.profiles.model import KernelRow, PrimitiveRow, Profile, Projection, phase_number
from controller.profiles.parts import (
    NO_PHASE,
    UNEXPLAINED,
    WAITING,
    Part,
    Row,
    headroom_of,
    parts_of,
)

NO_MODULE = "(in no module)"
OUTSIDE = "(outside oneDNN)"
NO_SHARES = "note: no shares of primitives: the trace does not tell which of its time is oneDNN's"
NO_OPS = "note: no phases, modules and operations: a log of oneDNN tells none"
NO_EFFICIENCY = (
    "note: no efficiency: no primitive was replayed, as `profile run` does, and of a log "
    "`profile import --project`"
)
NO_HEADROOM = "note: no headroom: no primitive has a roof that is known"


@dataclass(frozen=True, slots=True)
class Line:
    """Some parts together; seconds are those of a step, if steps are known."""

    key: tuple[str, ...]
    calls: float
    seconds: float
    share: float
    """Of the seconds of all parts of the profile."""
    efficiency: float | None
    """Time when replayed alone / measured time."""
    headroom_s: float | None
    """Time beyond the roofline's bound."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A table: the headings of its keys, and its lines, largest first."""

    name: str
    title: str
    headings: tuple[str, ...]
    lines: Sequence[Line]


def tables_of(profile: Profile) -> list[Lines]:
    """Return all tables of a profile that have lines."""
    made = (phase_lines, op_lines, kind_lines, primitive_lines, module_lines)
    return [found for lines_of in made if (found := lines_of(profile)).lines]


def phase_lines(profile: Profile) -> Lines:
    """Add up phases of a step, in their order; none if no phase is known."""
    parts = parts_of(profile)
    known = any(part.row.place.phase for part in parts)
    lines = _added(parts if known else (), parts, lambda row: (row.place.phase or NO_PHASE,))
    in_order = sorted(lines, key=lambda line: phase_number(line.key[0]))
    return Lines("phases", f"phases: {_own(profile.summary)}", ("phase",), in_order)


def op_lines(profile: Profile) -> Lines:
    """Add up ops and the kernels in them, whatever module they ran in; none without a trace."""
    parts = parts_of(profile)
    chosen = parts if profile.kernels else ()
    lines = _added(chosen, parts, lambda row: (_op_of(row), row.place.kernel, row.place.phase))
    return Lines("ops", f"ops: {_own(profile.summary)}", ("op", "kernel", "phase"), lines)


def tells_primitives(profile: Profile) -> bool:
    """Return whether it is known what ran in oneDNN, if only that nothing did: a trace that was
    imported doesn't tell."""
    return bool(profile.primitives) or profile.summary.verbose_step_s is not None


def untold_lines(profile: Profile) -> list[str]:
    """Return a line for each kind of figure that a profile has none of, with the reason."""
    primitives, is_log = profile.primitives, not profile.kernels
    told = {
        NO_SHARES: not is_log and not tells_primitives(profile),
        NO_OPS: bool(primitives) and is_log,
        NO_EFFICIENCY: bool(primitives) and profile.summary.efficiency is None,
        NO_HEADROOM: bool(primitives) and profile.summary.headroom_s is None,
    }
    return [line for line, is_so in told.items() if is_so]


def primitive_lines(profile: Profile) -> Lines:
    """Sum the primitives by kind and implementation."""
    parts = parts_of(profile)
    chosen = [part for part in parts if isinstance(part.row, PrimitiveRow)]
    headings = ("primitive", "direction", "implementation", "type", "problem")
    title = f"primitives: time in oneDNN, {per(profile.summary)}"
    return Lines("primitives", title, headings, _added(chosen, parts, _primitive_key))


def kind_lines(profile: Profile) -> Lines:
    """Add up all parts: primitives by what they are, and the rest; none if nothing tells them."""
    parts = parts_of(profile)
    lines = _added(parts if tells_primitives(profile) else (), parts, _kind_key)
    title = f"kinds of primitives, and the rest: {_own(profile.summary)}"
    return Lines("kinds", title, ("primitive", "direction"), lines)


def module_lines(profile: Profile) -> Lines:
    """Sum the modules by phase, each without its submodules; empty if no module is known."""
    parts = parts_of(profile)
    known = any(part.row.place.module for part in parts)
    lines = _added(parts if known else (), parts, lambda row: (_module_of(row), row.place.phase))
    title = f"modules: {_own(profile.summary)}, without modules inside"
    return Lines("modules", title, ("module", "phase"), lines)


def per(summary: ProfileSummary) -> str:
    """Return what times are those of: a step, all there is, and of how many threads."""
    of = "in all" if summary.steps is None else "a step"
    return f"{of}, sum over {summary.op_threads} threads" if summary.op_threads > 1 else of


def _own(summary: ProfileSummary) -> str:
    return f"time of their own, {per(summary)}"


def _op_of(row: Row) -> str:
    return WAITING if row.place.waits else row.place.op or UNEXPLAINED


def _module_of(row: Row) -> str:
    return WAITING if row.place.waits else row.place.module or NO_MODULE


def _kind_key(row: Row) -> tuple[str, ...]:
    if isinstance(row, PrimitiveRow):
        return (row.primitive, row.direction)
    return (OUTSIDE if row.place.op else _op_of(row), "")


def _primitive_key(row: Row) -> tuple[str, ...]:
    if isinstance(row, KernelRow):
        return ()
    return (row.primitive, row.direction, row.implementation, row.data_types, row.problem)


def _replayed(row: Row) -> tuple[float, float, Projection | None]:
    """Return the seconds of a step that a row's replay covers, of how many calls, and the replay.

    A kernel's seconds include those of what it calls.
    """
    if isinstance(row, KernelRow):
        return row.total_s, row.calls, row.replay
    return row.seconds, row.kept_calls, row.replay


def _added(
    parts: Iterable[Part], whole: Iterable[Part], key_of: Callable[[Row], tuple[str, ...]]
) -> list[Line]:
    groups: dict[tuple[str, ...], list[Part]] = {}
    for part in parts:
        groups.setdefault(key_of(part.row), []).append(part)
    total = sum(part.seconds for part in whole)
    lines = [_line(key, group, total) for key, group in groups.items()]
    return sorted(lines, key=lambda line: -line.seconds)


def _line(key: tuple[str, ...], parts: Sequence[Part], total: float) -> Line:
    rows = [part.row for part in parts]
    kernels = [row for row in rows if isinstance(row, KernelRow)]
    seconds = sum(part.seconds for part in parts)
    replayed = efficiency_of(map(_replayed, rows))
    return Line(
        key=key,
        # A primitive is called by a kernel: of what holds both, kernels are what is called.
        calls=sum(row.calls for row in kernels or rows),
        seconds=seconds,
        share=seconds / total if total else 0.0,
        efficiency=replayed.value,
        headroom_s=headroom_of(parts),
    )
