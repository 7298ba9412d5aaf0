"""Assembling a profile's rows and summary from attributions and totals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from controller.contracts.profile import Peaks, ProfileSummary, TopPrimitive
from controller.profiles import operations
from controller.profiles.attribution import Attribution, Spent
from controller.profiles.model import KernelRow, Place, PrimitiveRow, Profile, Projection
from controller.profiles.primitive import primitive_of
from controller.profiles.verbose import Total

TOP = 12
"""Pairs of primitive and direction in a summary."""
ABOVE = 1.1
"""Tolerated factor above a peak: a convolution may be slightly faster than the best matrix
product."""
Primitives = Mapping[tuple[Place, str], Spent]


def from_totals(totals: Mapping[bytes, Total]) -> Primitives:
    """Return the primitives of a log alone, which gives no places."""
    return {
        (Place(), body.decode(errors="replace")): Spent(
            calls=total.calls,
            self_s=total.seconds,
            total_s=total.seconds,
            least_s=total.least,
        )
        for body, total in totals.items()
    }


def kernel_rows(found: Attribution, primitives: Iterable[PrimitiveRow] = ()) -> list[KernelRow]:
    """Return the kernels of a trace, largest first, with the seconds of their primitives."""
    steps = max(1, len(found.steps))
    inside: dict[Place, float] = {}
    for row in primitives:
        inside[row.place] = inside.get(row.place, 0.0) + row.seconds
    rows = [
        KernelRow(
            place=place,
            calls=spent.calls / steps,
            self_s=spent.self_s / steps,
            total_s=spent.total_s / steps,
            primitive_s=inside.get(place, 0.0),
            flops=operations.flops(place.kernel, place.dims, place.values),
            bytes=operations.input_bytes(place.kernel, place.dims, place.dtypes),
        )
        for place, spent in found.kernels.items()
    ]
    return sorted(rows, key=lambda row: -row.self_s)


def primitive_rows(found: Primitives, steps: int) -> tuple[list[PrimitiveRow], int]:
    """Return the primitives, largest first, and the number of executions that could not be
    parsed."""
    rows, strange = [], 0
    for (place, body), spent in found.items():
        primitive = primitive_of(body)
        if primitive is None:
            strange += spent.calls
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
                parameters=primitive.parameters,
                body=body,
                calls=spent.calls / steps,
                seconds=spent.total_s / steps,
                least_s=spent.least_s,
                flops=primitive.flops(),
                bytes=primitive.bytes(),
            )
        )
    return sorted(rows, key=lambda row: -row.seconds), strange


def summarised(
    summary: ProfileSummary, kernels: list[KernelRow], primitives: list[PrimitiveRow]
) -> Profile:
    """Return the profile with a summary of its rows."""
    onednn_s = sum(row.seconds for row in primitives)
    matched_s = sum(row.seconds for row in primitives if row.place.op and row.place.module)
    has_places = any(row.place.op for row in primitives)
    told = summary.model_copy(
        update={
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
            efficiency=efficiency_of([(r.seconds, r.calls, r.replay) for r in group])[0],
        )
        for (primitive, direction), group in groups.items()
    ]
    return sorted(found, key=lambda top: -top.seconds)[:TOP]


def efficiency_of(
    measured: Iterable[tuple[float, float, Projection | None]],
) -> tuple[float | None, float]:
    """Return Σ calls × replay / Σ measured of what was replayed, and its share of all seconds."""
    alone_s = replayed_s = all_s = 0.0
    for seconds, calls, replay in measured:
        all_s += seconds
        if replay is not None:
            replayed_s += seconds
            alone_s += calls * replay.seconds
    share = replayed_s / all_s if all_s else 0.0
    return (alone_s / replayed_s if replayed_s else None), share


def under_roofline(profile: Profile, peaks: Peaks) -> Profile:
    """Return the profile with the attainable times of its rows, and the headroom above them."""
    primitives = [
        replace(row, attainable_s=attainable(row.flops, row.bytes, row.dtype, peaks))
        for row in profile.primitives
    ]
    kernels = [
        row
        if row.primitive_s or not row.place.op
        else replace(
            row,
            attainable_s=attainable(
                row.flops, row.bytes, operations.main_dtype(row.place.dtypes), peaks
            ),
        )
        for row in profile.kernels
    ]
    spare = [(r.seconds, r.calls, r.attainable_s) for r in primitives]
    spare += [(r.self_s, r.calls, r.attainable_s) for r in kernels]
    headroom_s = sum(max(0.0, s - calls * best) for s, calls, best in spare if best is not None)
    notes = (*profile.summary.notes, *_above_roof(primitives, peaks))
    summary = profile.summary.model_copy(
        update={"headroom_s": headroom_s, "peaks": peaks, "notes": notes}
    )
    return Profile(summary, tuple(kernels), tuple(primitives))


def _above_roof(primitives: Iterable[PrimitiveRow], peaks: Peaks) -> Iterator[str]:
    """Yield a note if primitives are faster than the measured peaks, which may then be
    disturbed."""
    best: dict[str, float] = {}
    for row in primitives:
        if row.flops and row.seconds:
            rate = row.flops * row.calls / row.seconds
            best[row.dtype] = max(best.get(row.dtype, 0.0), rate)
    for dtype, rate in best.items():
        if (peak := peaks.gemm_flops.get(dtype)) and rate > ABOVE * peak:
            yield (
                f"a primitive reached {rate * 1e-9:.0f} GFLOP/s in {dtype}, above the measured "
                f"peak of {peak * 1e-9:.0f}: headroom is more; benchfarm machine peaks --again"
            )


def attainable(flops: float | None, moved: float | None, dtype: str, peaks: Peaks) -> float | None:
    """Return the least seconds of a call by the roofline: the larger of computing and moving."""
    peak = peaks.gemm_flops.get(dtype)
    computing = flops / peak if flops is not None and peak else None
    moving = moved / peaks.copy_bytes if moved is not None else None
    known = [seconds for seconds in (computing, moving) if seconds is not None]
    if flops is not None and computing is None:
        return None  # without a measured roof, moving alone would be too low a bound
    return max(known, default=None)
