"""A convolution along its dimensions: its outputs, and which taps meet its input. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

MOST_TAPS: Final = 1000
"""Of a convolution along one dimension."""


class Axis(NamedTuple):
    """A convolution along one of its dimensions."""

    size: int
    """Of the input."""
    out: int
    """Size of the output."""
    taps: int
    padding: int
    """Before the input."""
    stride: int
    apart: int
    """How far a tap is from the next: 1 without dilation."""


def share_inside(axes: Iterable[Axis]) -> float | None:
    """Return the share of a convolution's taps that are inside its input: others need no FLOPs.

    None of what no convolution is, and of very many taps.
    """
    share = 1.0
    for size, out, taps, padding, stride, apart in axes:
        if not 0 < taps <= MOST_TAPS or out < 1 or stride < 1:
            return None
        begins = [tap * apart - padding for tap in range(taps)]
        spans = (min(out - 1, (size - 1 - at) // stride) - max(0, -(at // stride)) for at in begins)
        share *= sum(max(0, span + 1) for span in spans) / (out * taps)
    return share


def axis_of(size: int, taps: int, padding: int, stride: int, apart: int) -> Axis:
    """Return a dimension with as many outputs as fit, padded alike at both ends."""
    out = (size + 2 * padding - apart * (taps - 1) - 1) // stride + 1
    return Axis(size, out, taps, padding, stride, apart)
