"""A step in parts that don't overlap: every table and every sum of a profile is made of these.

A part is a primitive, or what a kernel spent itself without its primitives. So the parts of all
modules, of all ops and of all kinds are the same ones, and come to the same time. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.profiles.model import KernelRow, PrimitiveRow, Profile

UNEXPLAINED = "(in no op)"
WAITING = "(waiting)"
NO_PHASE = "(between phases)"
Row = KernelRow | PrimitiveRow


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step; seconds are those of a step."""

    row: Row
    seconds: float
    headroom_s: float | None
    """Above what the roofline allows; None where it says nothing."""


def parts_of(profile: Profile) -> list[Part]:
    """Return all parts of a profile's step."""
    return [*map(part_of, profile.primitives), *map(part_of, profile.kernels)]


def part_of(row: Row) -> Part:
    """Return the time that belongs to a row and to no other, and what of it is headroom."""
    own_s = row.self_s - row.primitive_s if isinstance(row, KernelRow) else row.seconds
    seconds = own_s if own_s > 0 else 0.0  # below by rounding only
    if row.attainable_s is None:
        return Part(row, seconds, None)
    return Part(row, seconds, max(0.0, seconds - row.calls * row.attainable_s))


def headroom_of(parts: Iterable[Part]) -> float | None:
    """Return the headroom of some parts, over all that the roofline knows of; None if of none."""
    known = [part.headroom_s for part in parts if part.headroom_s is not None]
    return sum(known) if known else None
