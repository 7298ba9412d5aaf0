"""The roofs of a machine's roofline: the best of what was measured, and what is faster. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from controller.contracts.peaks import (
    BEYOND_CACHES,
    COPY,
    MOVING,
    UPDATE,
    MeasuredPeaks,
    Peaks,
    Rate,
    Roof,
)
from controller.profiles.convolutions import Axis, share_inside
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.primitive import primitive_of
from controller.profiles.updates import is_update

KEPT: Final = 32
"""Measurements of a machine's peaks that are kept; the ones that count are among them."""
ABOVE: Final = 1.1
"""Tolerated factor above a peak: a convolution may be slightly faster than the best matrix
product."""
SHORTEST_S: Final = 1e-4
"""A call that takes less is too short for clocks to tell its rate."""
WINOGRAD: Final = "wino"
"""In the names of implementations that compute less than a primitive's FLOPs, and so have no rate
that a matrix product could reach."""
WIDE: Final = ("f32", "f64")
"""Types that products may be narrower than."""
_MODE: Final = re.compile(r"attr-fpmath:(?!strict)")
"""A mode that lets oneDNN round factors to a narrower type, where that is faster."""


def peaks_of(measured: Sequence[MeasuredPeaks]) -> Peaks | None:
    """Return the best rates over stacks and time; None before copying was measured."""
    best = _best(measured)
    roofs = {
        name: Roof(**one.rates[name].model_dump(), source=one.source, date=one.date)
        for name, one in best.items()
    }
    if COPY not in roofs:
        return None
    return Peaks(
        gemm_flops={name: roof.best for name, roof in roofs.items() if name not in MOVING},
        copy_bytes=roofs[COPY].best,
        update_bytes=roofs[UPDATE].best if UPDATE in roofs else None,
        measured_at=max((roof.date for roof in roofs.values() if roof.date), default=None),
        roofs=roofs,
    )


def with_measured(
    known: Sequence[MeasuredPeaks], new: MeasuredPeaks, most: int = KEPT
) -> tuple[MeasuredPeaks, ...]:
    """Return what is kept, by age: the ones that count, then the newest."""
    found = (*known, new)
    counting = [id(one) for one in _best(found).values()]
    others = [id(one) for one in reversed(found) if id(one) not in counting]
    wanted = {*counting, *others[: max(0, most - len(set(counting)))]}
    return tuple(one for one in found if id(one) in wanted)


def _best(measured: Iterable[MeasuredPeaks]) -> dict[str, MeasuredPeaks]:
    best: dict[str, MeasuredPeaks] = {}
    for one in measured:
        for name, rate in one.rates.items():
            if name not in best or _counts_more(name, rate, best[name].rates[name]):
                best[name] = one
    return best


def _counts_more(name: str, rate: Rate, other: Rate) -> bool:
    """Return whether a rate counts rather than another: that of larger arrays, else the better.

    Smaller ones may have been in caches.
    """
    if name in MOVING and rate.beyond != other.beyond:
        return rate.beyond > other.beyond
    return rate.best > other.best


class Faster(NamedTuple):
    """What is faster than a peak of a machine."""

    rate: float
    """Of its work a second, in the watched steps, before times were scaled."""
    work: str
    """Primitive and direction, or an update's kernel."""
    calls: float
    """In a step."""


def above_roof(profile: Profile, peaks: Peaks) -> dict[str, Faster]:
    """Return the fastest work that is faster than its peak, by the peak's name.

    That is a primitive, by its data type, or the optimizer's update.
    """
    scale = profile.summary.scale or 1.0
    fastest: dict[str, Faster] = {}
    beyond = beyond_caches(peaks)
    for name, found in (*_primitives(profile, scale), *_updates(profile, scale, beyond)):
        peak = _peak(name, peaks)
        best = fastest[name].rate if name in fastest else 0.0
        if peak and found.rate > max(ABOVE * peak, best):
            fastest[name] = found
    return fastest


def _primitives(profile: Profile, scale: float) -> Iterator[tuple[str, Faster]]:
    for row in profile.primitives:
        work = f"{row.primitive} {row.direction}".strip()
        yield row.dtype, Faster(_rate(row, scale), work, row.calls)


def beyond_caches(peaks: Peaks) -> int:
    """Return the bytes that an update has to move to be none of caches alone."""
    return peaks.roofs[UPDATE].beyond if UPDATE in peaks.roofs else BEYOND_CACHES


def _updates(profile: Profile, scale: float, beyond: int) -> Iterator[tuple[str, Faster]]:
    """Yield updates that no cache can hold: they move so many bytes at least."""
    for row in profile.kernels:
        moved, watched_s = row.bytes or 0.0, row.self_s / scale
        if is_update(row.place.kernel) and moved >= beyond and watched_s:
            rate = moved * row.calls / watched_s
            yield UPDATE, Faster(rate, row.place.kernel, row.calls)


def _rate(row: PrimitiveRow, scale: float) -> float:
    """Return FLOPs a second as watched; 0 if they can't be told."""
    watched_s = row.seconds / (scale * row.kept) if row.kept else 0.0
    if not row.flops or watched_s < SHORTEST_S * row.calls or WINOGRAD in row.implementation:
        return 0.0
    inside = taps_inside(row)
    if inside is None or is_narrowed(row):
        return 0.0
    return row.flops * inside * row.calls / watched_s if watched_s else 0.0


def taps_inside(row: PrimitiveRow) -> float | None:
    """Return the share of a convolution's taps that are inside its input: others need no FLOPs.

    None of what isn't counted here, a deconvolution with padding.
    """
    padded = [dim for dim in "dhw" if row.parameters.get(f"p{dim}", 0)]
    if padded and row.primitive != "convolution":
        return None
    return share_inside(_axis(row.parameters, dim) for dim in padded)


def _axis(p: Mapping[str, int], dim: str) -> Axis:
    size, out, taps = (p.get(f"{name}{dim}", 1) for name in "iok")
    stride, apart = max(1, p.get(f"s{dim}", 1)), p.get(f"d{dim}", 0) + 1
    return Axis(size, out, taps, p.get(f"p{dim}", 0), stride, apart)


def is_narrowed(row: PrimitiveRow) -> bool:
    """Return whether products may be in a narrower type than the first tensor's: by a mode of
    arithmetic, or since the weights have one. Then it has no roof: nothing tells which type."""
    if _MODE.search(row.attributes):
        return True
    primitive = primitive_of(row.body) if row.dtype in WIDE and ":" in row.data_types else None
    types = {memory.role: memory.dtype for memory in primitive.memory} if primitive else {}
    return types.get("src") in WIDE and types.get("wei", row.dtype) not in WIDE


def raised_by(profile: Profile, peaks: Peaks, run: str) -> list[MeasuredPeaks]:
    """Return the rates by which the work of a VALID profile raises peaks; of others, none."""
    summary = profile.summary
    if summary.validity != "VALID":
        return []
    origin = summary.origin
    return [
        MeasuredPeaks(
            rates={
                name: Rate(
                    best=found.rate,
                    median=found.rate,
                    runs=max(1, round(found.calls * (summary.steps or 1))),
                    array_bytes=beyond_caches(peaks) if name == UPDATE else None,
                )
            },
            stack=str(origin.stack if origin else None),
            date=origin.date if origin else None,
            knobs=(origin.knobs if origin else None) or {},
            primitive=found.work,
            run=run,
        )
        for name, found in above_roof(profile, peaks).items()
    ]


def raises_told(raises: Iterable[MeasuredPeaks], peaks: Peaks) -> tuple[str, ...]:
    """Return a note for each peak that was raised. peaks: those before."""
    return tuple(
        f"{one.source} reached {_told(name, rate.best)}: the machine's peak of "
        f"{_peak(name, peaks) * 1e-9:.0f} is raised to it"
        for one in raises
        for name, rate in one.rates.items()
    )


def above_told(profile: Profile, peaks: Peaks) -> tuple[str, ...]:
    """Return a note for each peak that was exceeded, as in a profile that is not VALID."""
    return tuple(
        f"{found.work} reached {_told(name, found.rate)}, above the measured peak of "
        f"{_peak(name, peaks) * 1e-9:.0f}: headroom is more; a VALID profile raises the peak"
        for name, found in above_roof(profile, peaks).items()
    )


def _told(name: str, rate: float) -> str:
    return f"{rate * 1e-9:.0f} {'GB/s' if name == UPDATE else f'GFLOP/s in {name}'}"


def _peak(name: str, peaks: Peaks) -> float:
    return peaks.update_bytes or 0.0 if name == UPDATE else peaks.gemm_flops.get(name, 0.0)
