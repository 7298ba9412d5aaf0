"""Sums over a profile's rows: by op, by primitive, by module. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from controller.profiles.model import KernelRow, PrimitiveRow, Profile

UNEXPLAINED = "(in no op)"
NO_MODULE = "(in no module)"
Row = KernelRow | PrimitiveRow
RowType = TypeVar("RowType", KernelRow, PrimitiveRow, Row)


@dataclass(frozen=True, slots=True)
class Line:
    """A sum over rows; times are seconds of a step."""

    key: tuple[str, ...]
    calls: float
    seconds: float
    share: float
    """Share of the time of all lines."""
    efficiency: float | None
    """Time when replayed alone / measured time."""
    headroom_s: float | None
    """Time beyond the roofline's bound."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A table: the headings of its keys, and its lines, largest first."""

    title: str
    headings: tuple[str, ...]
    lines: Sequence[Line]


def op_lines(profile: Profile) -> Lines:
    """Sum the kernels by framework op, over all modules."""
    lines = _added(
        profile.kernels,
        lambda row: (row.place.op or UNEXPLAINED, row.place.kernel, row.place.phase),
    )
    return Lines("ops: time of their own, a step", ("op", "kernel", "phase"), lines)


def primitive_lines(profile: Profile) -> Lines:
    """Sum the primitives by kind and implementation."""
    lines = _added(profile.primitives, _primitive_key)
    headings = ("primitive", "direction", "implementation", "type", "problem")
    return Lines("primitives: time in oneDNN, a step", headings, lines)


def kind_lines(profile: Profile) -> Lines:
    """Sum the primitives by kind, over all implementations."""
    lines = _added(profile.primitives, lambda row: (row.primitive, row.direction))
    return Lines("kinds of primitives: time in oneDNN, a step", ("primitive", "direction"), lines)


def module_lines(profile: Profile) -> Lines:
    """Sum the modules by phase, each without its submodules; empty if no module is known."""
    rows: Sequence[Row] = profile.kernels or profile.primitives
    known = any(row.place.module for row in rows)
    lines = _added(
        rows if known else (), lambda row: (row.place.module or NO_MODULE, row.place.phase)
    )
    return Lines("modules: time of their own ops, a step", ("module", "phase"), lines)


def seconds_of(row: Row) -> float:
    """Return a row's own seconds of a step."""
    return row.self_s if isinstance(row, KernelRow) else row.seconds


def _replayed_s(row: Row) -> float:
    """Return the seconds of a step that a row's replay covers; a kernel's include those it
    calls."""
    return row.total_s if isinstance(row, KernelRow) else row.seconds


def _primitive_key(row: PrimitiveRow) -> tuple[str, ...]:
    return (row.primitive, row.direction, row.implementation, row.data_types, row.problem)


def _added(rows: Iterable[RowType], key_of: Callable[[RowType], tuple[str, ...]]) -> list[Line]:
    groups: dict[tuple[str, ...], list[RowType]] = {}
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    total = sum(seconds_of(row) for group in groups.values() for row in group)
    lines = [_line(key, group, total) for key, group in groups.items()]
    return sorted(lines, key=lambda line: -line.seconds)


def _line(key: tuple[str, ...], rows: Sequence[Row], total: float) -> Line:
    seconds = sum(map(seconds_of, rows))
    replayed = [(_replayed_s(r), r.calls * r.replay.seconds) for r in rows if r.replay]
    replayed_s = sum(measured for measured, _ in replayed)
    above = [seconds_of(r) - r.calls * r.attainable_s for r in rows if r.attainable_s is not None]
    return Line(
        key=key,
        calls=sum(row.calls for row in rows),
        seconds=seconds,
        share=seconds / total if total else 0.0,
        efficiency=sum(alone for _, alone in replayed) / replayed_s if replayed_s else None,
        headroom_s=sum(max(0.0, spare) for spare in above) if above else None,
    )
