"""Paired comparisons in a report: what each shows, and its pairs in order. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from controller.contracts.catalog import Catalog
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity, usable
from controller.reports.comparison import (
    NO_METRIC,
    batches_of,
    compare_pairs,
    measured_metric,
)
from controller.reports.sides import sides_of
from controller.reports.views.model import Compared, DeviceName, PairPoint
from controller.stats.medians import Ratio
from controller.stats.pairs import ratio_of_pairs


def compared_of(
    results: Sequence[StoredResult], names: Mapping[str, DeviceName], catalog: Catalog
) -> tuple[Compared, ...]:
    """Return what paired results show; repeats of one cell on one device are taken together.

    The VALID ones of them; if there are none, the DISTURBED ones, and the verdict says so. Those
    that don't tell their metric are left out: see uncompared_of.
    """
    sessions: dict[tuple[str, str, str, str], list[StoredResult]] = defaultdict(list)
    for result in results:
        if metric := measured_metric(result):
            sessions[result.sweep_id, result.cell_key, result.device, metric].append(result)
    shown = [(key[-1], of) for key, results in sessions.items() if (of := usable(results))]
    return tuple(
        _compared(f"compared-{number}", metric, of, names, catalog)
        for number, (metric, of) in enumerate(shown, start=1)
    )


def uncompared_of(results: Sequence[StoredResult]) -> tuple[str, ...]:
    """Return a line for each paired result, not INVALID, that doesn't tell its metric."""
    untold = [
        result
        for result in results
        if result.validity is not Validity.INVALID and measured_metric(result) is None
    ]
    return tuple(f"run {result.run_id}: {NO_METRIC}" for result in untold)


def _compared(
    anchor: str,
    metric: str,
    results: Sequence[StoredResult],
    names: Mapping[str, DeviceName],
    catalog: Catalog,
) -> Compared:
    first = results[0]
    found = compare_pairs(results, catalog)
    known = found.ratio_low is not None and found.ratio_high is not None
    interval = (found.ratio_low or 0.0, found.ratio_high or 0.0) if known else None
    points = tuple(point for result in results for point in _points(result, metric))
    return Compared(
        anchor=anchor,
        device=names[first.device],
        task=f"{first.workload} · {first.scenario}",
        a=found.a,
        b=found.b,
        pairs=found.pairs,
        sessions=len(results),
        validity=found.validity,
        verdict=found.verdict,
        ratio=Ratio(found.ratio, interval),
        points=points,
    )


def _points(result: StoredResult, metric: str) -> Iterator[PairPoint]:
    unit = result.metrics[f"{metric}_a"].unit
    batch_a, batch_b = batches_of(sides_of(result), metric) or (1, 1)
    warmup = ratio_of_pairs(result.pairs).warmup_pairs
    for number, pair in enumerate(result.pairs):
        ratio = median(pair.b) / median(pair.a)
        better = 1 / ratio if unit.lower_is_better else ratio
        better *= batch_b / batch_a
        yield PairPoint(better, is_warmup=number < warmup, ended_s=pair.ended_s)
