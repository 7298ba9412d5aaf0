"""Rows of `kernels bench`: several measurements of one become draws of it, and the table. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from rich.table import Table

from controller.contracts.kernels import KernelDraw, KernelFigures, KernelPairing, KernelRow
from controller.contracts.result import Validity, used, worst
from controller.reports.verdict import bounds, times
from controller.stats.medians import Ratio
from controller.stats.pairs import sessions_interval

_HEADINGS = (
    *("operator", "shape", "variant", "baseline", "direction", "speed-up", "ms p20/p50/p80"),
    *("GB/s", "of copy", "copy GB/s", "matmul GFLOP/s", "memory", "measured (UTC)", "validity"),
)


def combined(rows: Iterable[KernelRow]) -> list[KernelRow]:
    """Return a row for each operator and baseline, in order of appearance.

    Measurements of one are draws: memory and neighbours are what they are at a minute, for all
    pairs of it, so that the interval of several is that of `sessions_interval`. One given twice
    counts once. A row keeps all its draws, and its figures are those of the ones that `used` takes.
    """
    alike: dict[tuple[object, ...], list[KernelRow]] = defaultdict(list)
    for row in rows:
        alike[_identity(row)].append(row)
    return [_combined(of) for of in alike.values()]


def with_earlier(
    rows: Sequence[KernelRow], earlier: Sequence[KernelRow]
) -> tuple[list[KernelRow], int]:
    """Return rows as measured now, with what was measured earlier of each as further draws.

    And how many of the earlier rows are of something else, on another CPU, or with other settings.
    """
    found = combined(rows)
    now = {_identity(row) for row in found}
    fitting = [row for row in earlier if _identity(row) in now]
    return combined([*fitting, *found]), len(earlier) - len(fitting)


def _identity(row: KernelRow) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in KernelPairing.model_fields)


def _combined(rows: Sequence[KernelRow]) -> KernelRow:
    known = {draw: None for row in rows for draw in row.draws}
    draws = tuple(sorted(known, key=lambda draw: draw.measured_at))
    taken = tuple(used(draws))
    if own := next((row for row in rows if tuple(used(row.draws)) == taken), None):
        return own.model_copy(update={"draws": draws})
    middle, low, high = sessions_interval([[*map(math.log, draw.ratios)] for draw in taken])
    bounded = math.isfinite(high)
    return rows[-1].model_copy(
        update={
            **{name: _median(taken, name) for name in KernelFigures.model_fields},
            "ratio": math.exp(middle),
            "ratio_low": math.exp(low) if bounded else None,
            "ratio_high": math.exp(high) if bounded else None,
            "pairs": sum(len(draw.ratios) for draw in taken),
            "draws": draws,
        }
    )


def _median(draws: Sequence[KernelFigures], name: str) -> float:
    """Return the median of a figure, which stays whole if it is a number of bytes."""
    of_each: list[float] = [getattr(draw, name) for draw in draws]
    return round(median(of_each)) if isinstance(of_each[0], int) else median(of_each)


def kernel_table(rows: Iterable[KernelRow]) -> Table:
    """Return one line a row; where it has several draws, their range, too."""
    table = Table(*_HEADINGS)
    for row in rows:
        times = "/".join(f"{s * 1e3:.3g}" for s in (row.p20_s, row.p50_s, row.p80_s))
        table.add_row(
            f"{row.op} {row.dtype}",
            row.shape,
            row.variant,
            row.baseline,
            row.direction,
            speed_up(row),
            times,
            f"{row.gbps:.3g}, baseline {row.baseline_gbps:.2g}",
            f"{row.gbps / row.copy_gbps:.0%}, baseline {row.baseline_gbps / row.copy_gbps:.0%}",
            _range([draw.copy_gbps for draw in used(row.draws)]),
            _range([draw.matmul_gflops for draw in used(row.draws)]),
            f"{row.memory_share:.2f}×",
            _when(row.draws),
            validity_said(row),
        )
    return table


def speed_up(row: KernelRow) -> str:
    """Return the ratio of a row with its interval, and the range of the draws that it is from."""
    bounded = row.ratio_low is not None and row.ratio_high is not None
    interval = (row.ratio_low or 0.0, row.ratio_high or 0.0) if bounded else None
    ratio = Ratio(row.ratio, interval)
    said = f"{times(ratio)} {bounds(ratio)}".rstrip()
    draws = [draw.ratio for draw in used(row.draws)]
    if len(draws) == 1:
        return said
    # With as many places as the ratio.
    least, most = (times(Ratio(end, interval)) for end in (min(draws), max(draws)))
    return f"{said}, {len(draws)} draws: {least} to {most}"


def validity_said(row: KernelRow) -> str:
    """Return the validity of the draws that a row is from, and how many were left out."""
    taken = used(row.draws)
    of, left_out = worst(draw.validity for draw in taken), len(row.draws) - len(taken)
    return f"{of}, {left_out} of {len(row.draws)} draws left out" if left_out else str(of)


def disturbances(rows: Iterable[KernelRow]) -> list[str]:
    """Return a line for each draw that is not VALID, with the reasons."""
    return [
        f"{row.op} {row.dtype} {row.variant}, {row.baseline}, {draw.measured_at:%m-%d %H:%M}: "
        f"{draw.validity}: {'; '.join(draw.reasons)}"
        for row in rows
        for draw in row.draws
        if draw.validity is not Validity.VALID
    ]


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


def _when(draws: Sequence[KernelDraw]) -> str:
    first, last = (f"{draws[at].measured_at:%m-%d %H:%M}" for at in (0, -1))
    return first if first == last else f"{first} to {last}"
