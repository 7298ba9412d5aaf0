"""Assembling a profile's rows and summary from attributions and totals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary, TopPrimitive
from controller.profiles import operation_flops, operations, updates
from controller.profiles.attribution import Attribution, Spent
from controller.profiles.model import KernelRow, Place, PrimitiveRow, Profile, Projection
from controller.profiles.parts import headroom_of, parts_of
from controller.profiles.primitive import primitive_of
from controller.profiles.primitive_bytes import moved_bytes
from controller.profiles.roofs import above_told, is_narrowed, taps_inside
from controller.profiles.verbose import MAX_EXAMPLE, Total

TOP = 12
"""Pairs of primitive and direction in a summary."""
ROUNDING = 1e-9
"""Share by which sums of many floats may differ."""
MOST_SIZE = 2**63 - 1
"""Of a parameter: a damaged log may tell of more than a table's column holds."""
MOST_WORK = 1e30
"""FLOPs or bytes of a call, more than any machine's in a year; a damaged log may tell of more, and
of less than none."""
UNCOUNTED = "rnn"
"""The kind of primitive that computes much, of FLOPs that are not told."""
Primitives = Mapping[tuple[Place, str], Spent]


class Strange(NamedTuple):
    """Executions whose descriptions are not known."""

    calls: int
    example: str | None
    """The first description."""


def from_totals(totals: Mapping[bytes, Total]) -> Primitives:
    """Return the primitives of a log alone, which gives no places.

    Bodies that are no UTF-8 may become the same text: these are added up.
    """
    found: dict[tuple[Place, str], Spent] = {}
    for body, total in totals.items():
        spent = found.setdefault((Place(), body.decode(errors="replace")), Spent())
        spent.calls += total.calls
        spent.self_s += total.seconds
        spent.total_s += total.seconds
        spent.least_s = min(spent.least_s, total.least)
    return found


def kernel_rows(found: Attribution, steps: int = 1, scale: float = 1.0) -> list[KernelRow]:
    """Return the kernels of a trace of some steps, largest first, their times scaled."""
    learning = updates.parameters(
        updates.Accumulated(place.dims, place.dtypes, spent.calls / steps)
        for place, spent in found.kernels.items()
        if place.kernel == updates.ACCUMULATED
    )
    if not updates.is_one_group(found.kernels):
        learning = None
    rows = [
        KernelRow(
            place=place,
            calls=spent.calls / steps,
            self_s=spent.self_s / steps * scale,
            total_s=spent.total_s / steps * scale,
            flops=_possible(operation_flops.flops(place.kernel, place.dims, place.values)),
            bytes=_possible(_moved(place, spent.calls / steps, learning)),
        )
        for place, spent in found.kernels.items()
    ]
    return sorted(rows, key=lambda row: -row.self_s)


def _moved(place: Place, calls: float, learning: updates.Learning | None) -> float | None:
    """Return the bytes that a call moves: of an update all, of others the inputs'.

    calls: of the kernel, a step. learning: the parameters; None if not known.
    """
    if updates.is_update(place.kernel):
        moved = updates.update_bytes(place.kernel, place.values, learning)
        return moved / calls if moved else None
    return operations.input_bytes(place.kernel, place.dims, place.dtypes, place.strides)


def _possible(work: float | None) -> float | None:
    return work if work is not None and 0 <= work <= MOST_WORK else None


def nested(
    kernels: Iterable[KernelRow], primitives: Iterable[PrimitiveRow]
) -> tuple[list[KernelRow], list[PrimitiveRow], float]:
    """Return kernels that know the time of their primitives, primitives, and seconds cut off.

    A primitive takes no more than the kernel that it ran in: what is above (clocks differ, or it
    ran beside others) is cut off, so that parts come to the time of the whole.
    """
    own = {row.place: row.self_s for row in kernels}
    told: dict[Place, float] = {}
    for primitive in primitives:
        told[primitive.place] = told.get(primitive.place, 0.0) + primitive.seconds
    inside = {place: min(seconds, own.get(place, 0.0)) for place, seconds in told.items()}
    shares = {place: inside[place] / seconds if seconds else 1.0 for place, seconds in told.items()}
    fitting = [_cut(row, shares[row.place]) for row in primitives]
    with_inside = [replace(row, primitive_s=inside.get(row.place, 0.0)) for row in kernels]
    return with_inside, fitting, sum(told.values()) - sum(inside.values())


def _cut(row: PrimitiveRow, share: float) -> PrimitiveRow:
    if share == 1.0:
        return row
    return replace(row, seconds=row.seconds * share, least_s=row.least_s * share, kept=share)


def primitive_rows(
    found: Primitives, steps: int, scale: float = 1.0
) -> tuple[list[PrimitiveRow], Strange]:
    """Return the primitives, largest first, and the executions that could not be understood.

    scale: what their times are multiplied by.
    """
    rows, strange = [], Strange(0, None)
    for (place, body), spent in found.items():
        primitive = primitive_of(body)
        if primitive is None:
            strange = Strange(strange.calls + spent.calls, strange.example or body[:MAX_EXAMPLE])
            continue
        rows.append(
            PrimitiveRow(
                place=place,
                engine=primitive.engine,
                primitive=primitive.kind,
                implementation=primitive.implementation,
                direction=primitive.direction,
                data_types=primitive.dtypes,
                dtype=primitive.dtype,
                layout=primitive.layout,
                attributes=primitive.attributes,
                post_ops=primitive.post_ops,
                algorithm=primitive.algorithm,
                problem=primitive.problem,
                parameters={n: of for n, of in primitive.parameters.items() if of <= MOST_SIZE},
                body=body,
                calls=spent.calls / steps,
                seconds=spent.total_s / steps * scale,
                least_s=spent.least_s * scale,
                flops=_possible(primitive.flops()),
                bytes=_possible(moved_bytes(primitive)),
            )
        )
    return sorted(rows, key=lambda row: -row.seconds), strange


def summarised(
    summary: ProfileSummary, kernels: Sequence[KernelRow], primitives: Sequence[PrimitiveRow]
) -> Profile:
    """Return the profile with a summary of its rows."""
    waiting_s = sum(row.self_s for row in kernels if row.place.waits)
    onednn_s = sum(row.seconds for row in primitives)
    matched_s = sum(row.seconds for row in primitives if row.place.op and row.place.module)
    has_places = any(row.place.op for row in primitives)
    told = summary.model_copy(
        update={
            "waiting_s": waiting_s or None,
            "onednn_s": onednn_s if primitives else None,
            "matched": matched_s / onednn_s if onednn_s and has_places else None,
            "top": tuple(top_primitives(primitives)),
        }
    )
    return Profile(told, tuple(kernels), tuple(primitives))


def top_primitives(rows: Iterable[PrimitiveRow]) -> list[TopPrimitive]:
    """Return the pairs of primitive and direction, largest first."""
    groups: dict[tuple[str, str], list[PrimitiveRow]] = {}
    for row in rows:
        groups.setdefault((row.primitive, row.direction), []).append(row)
    total_s = sum(row.seconds for group in groups.values() for row in group)
    found = [
        TopPrimitive(
            primitive=primitive,
            direction=direction,
            calls=sum(row.calls for row in group),
            seconds=(seconds := sum(row.seconds for row in group)),
            share=seconds / total_s if total_s else 0.0,
            efficiency=efficiency_of([(r.seconds, r.kept_calls, r.replay) for r in group]).value,
        )
        for (primitive, direction), group in groups.items()
    ]
    return sorted(found, key=lambda top: -top.seconds)[:TOP]


class Efficiency(NamedTuple):
    """What was replayed, alone over measured."""

    value: float | None
    """None if nothing was replayed."""
    low: float | None
    high: float | None
    """Bounds by the intervals of the replays; those of the steps are not in it."""
    share: float
    """Of all seconds, those that were replayed."""


def efficiency_of(
    measured: Iterable[tuple[float, float, Projection | None]],
) -> Efficiency:
    """Return Σ calls × replay / Σ measured. measured: seconds, calls and replay of each."""
    alone_s = low_s = high_s = replayed_s = all_s = 0.0
    for seconds, calls, replay in measured:
        all_s += seconds
        if replay is not None:
            replayed_s += seconds
            alone_s += calls * replay.seconds
            low_s += calls * replay.low
            high_s += calls * replay.high
    share = replayed_s / all_s if all_s else 0.0
    if not replayed_s:
        return Efficiency(None, None, None, share)
    return Efficiency(alone_s / replayed_s, low_s / replayed_s, high_s / replayed_s, share)


def under_roofline(profile: Profile, peaks: Peaks) -> Profile:
    """Return the profile with the attainable times of its rows, and the headroom above them."""
    primitives = [
        replace(row, attainable_s=_primitive_attainable(row, peaks)) for row in profile.primitives
    ]
    kernels = [
        row
        if row.primitive_s or not row.place.op
        else replace(row, attainable_s=_kernel_attainable(row, peaks))
        for row in profile.kernels
    ]
    whole = replace(profile, kernels=tuple(kernels), primitives=tuple(primitives))
    headroom_s = headroom_of(parts_of(whole))
    notes = [*profile.summary.notes, *above_told(profile, peaks)]
    step_s = profile.summary.step_s
    if headroom_s is not None and step_s is not None:
        if headroom_s > step_s * (1 + ROUNDING):
            notes.append("headroom is left out: as a sum over threads it is more than the step")
            headroom_s = None
        else:
            headroom_s = min(headroom_s, step_s)
    told = {"headroom_s": headroom_s, "peaks": peaks, "notes": tuple(notes)}
    return replace(whole, summary=profile.summary.model_copy(update=told))


def _primitive_attainable(row: PrimitiveRow, peaks: Peaks) -> float | None:
    if row.primitive == UNCOUNTED or (row.flops is not None and is_narrowed(row)):
        return None
    return attainable(_needed(row.flops, taps_inside(row)), row.bytes, row.dtype, peaks)


def _needed(flops: float | None, inside: float | None) -> float | None:
    """Return the FLOPs of taps inside the input; all where it is not known how many are."""
    return flops if flops is None or inside is None else flops * inside


def _kernel_attainable(row: KernelRow, peaks: Peaks) -> float | None:
    """Return the least seconds of a kernel's call; None without FLOPs of what computes much, and
    of what only calls others."""
    place, moved = row.place, row.bytes
    if updates.is_update(place.kernel):
        return moved / peaks.update_bytes if moved and peaks.update_bytes else None
    if _calls_others(row) or (row.flops is None and operations.computes(place.kernel)):
        return None
    if moved is not None:
        moved += operations.output_bytes(place.kernel, place.dims, place.dtypes)
    inside = operation_flops.taps_inside(place.kernel, place.dims, place.values)
    flops = _needed(row.flops, inside)
    return attainable(flops, moved, operations.main_dtype(place.dtypes), peaks)


def _calls_others(row: KernelRow) -> bool:
    """Return whether most of a kernel's time is in others: these do its work, and have its roof.

    A matrix product does its own, however short it is beside the views that it makes.
    """
    return row.place.kernel not in operations.GEMMS and row.total_s - row.self_s > row.self_s


def attainable(flops: float | None, moved: float | None, dtype: str, peaks: Peaks) -> float | None:
    """Return the least seconds of a call by the roofline: the larger of computing and moving."""
    peak = peaks.gemm_flops.get(dtype)
    computing = flops / peak if flops is not None and peak else None
    moving = moved / peaks.copy_bytes if moved is not None else None
    known = [seconds for seconds in (computing, moving) if seconds is not None]
    if flops is not None and computing is None:
        return None  # without a measured roof, moving alone would be too low a bound
    return max(known, default=None)
