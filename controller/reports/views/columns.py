"""The columns of a ranking: metric, quality, other metrics and knobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from controller.contracts.catalog import Catalog
from controller.contracts.suite_version import quality_target
from controller.contracts.units import Unit
from controller.reports.figures import HEADINGS
from controller.reports.groups import ENERGY, Group
from controller.reports.views.model import Columns, Metric, Quality

LATENCY = "latency"
"""Raw latencies of single queries, from which LoadGen's percentiles are computed."""


def columns_of(
    groups: Sequence[Group], catalog: Catalog, published: Sequence[Group] = ()
) -> Columns:
    """Return the columns for the groups of one task; the scenario must be in the catalogue.

    published: imported groups that are ranked beside them.
    """
    origin = groups[0].origin
    metrics = _measured(groups) | _energy_column(groups)
    name = catalog.scenarios[origin.scenario].metric
    unit = _unit_of(name, [*groups, *published])
    metric = metrics.get(name, Metric(name, HEADINGS.get(name, name), unit))
    quality = _quality(groups, metrics, catalog)
    taken = {name, quality.metric.name if quality else ""}
    several = len({group.origin.stack for group in groups}) > 1
    names = list(dict.fromkeys(name for group in groups for name in group.origin.knobs))
    varying = [n for n in names if len({repr(g.origin.knobs.get(n)) for g in groups}) > 1]
    same = {name: value for name, value in origin.knobs.items() if name not in varying}
    fixed = same if several else {"stack": origin.stack, **same}
    return Columns(
        metric=metric,
        compares_speed=catalog.scenarios[origin.scenario].compares_speed,
        quality=quality,
        details=tuple(metrics[n] for n in _listed(metrics, groups, catalog) if n not in taken),
        distribution=_sampled(metric, metrics, groups),
        several_stacks=several,
        knobs=tuple(varying),
        fixed=tuple(f"{name}={value}" for name, value in fixed.items()),
    )


def with_stacks(columns: Columns, groups: Sequence[Group]) -> Columns:
    """Return the columns with one for stacks, if groups that join have another one."""
    if len({group.origin.stack for group in groups}) == 1:
        return columns
    fixed = tuple(said for said in columns.fixed if not said.startswith("stack="))
    return replace(columns, several_stacks=True, fixed=fixed)


def _listed(names: Iterable[str], groups: Sequence[Group], catalog: Catalog) -> Iterator[str]:
    """Yield the metrics to show: the main ones, and all others of a user's program."""
    found = list(names)
    yield from (name for name in HEADINGS if name in found)
    stacks = {group.origin.stack for group in groups}
    if any(catalog.stacks[name].command for name in stacks if name in catalog.stacks):
        yield from (name for name in found if name not in HEADINGS)


def _measured(groups: Sequence[Group]) -> dict[str, Metric]:
    found = {name: m.unit for group in groups for name, m in group.measurements().items()}
    return {name: Metric(name, HEADINGS.get(name, name), unit) for name, unit in found.items()}


def _unit_of(metric: str, groups: Sequence[Group]) -> Unit:
    """Return the unit of a metric that no result shown has; INVALID results may, too."""
    units = (r.metrics[metric].unit for g in groups for r in g.results if metric in r.metrics)
    return next(units, Unit.SECONDS)  # seconds if nobody measured it: then nothing is shown in it


def _energy_column(groups: Sequence[Group]) -> dict[str, Metric]:
    """Return the energy column if some rows have a reason why energy is unknown."""
    if not any(group.energy_unknown for group in groups):
        return {}
    units = [m.unit for g in groups for n, m in g.measurements().items() if n == ENERGY]
    return {ENERGY: Metric(ENERGY, HEADINGS[ENERGY], units[0] if units else Unit.JOULES)}


def _quality(
    groups: Sequence[Group], metrics: Mapping[str, Metric], catalog: Catalog
) -> Quality | None:
    """Return the column of the quality, and its target if it is one and the same in all rows."""
    manifest = catalog.workloads.get(groups[0].origin.workload)
    each = [quality_target(manifest, group.origin.knobs) for group in groups] if manifest else []
    if (target := next(filter(None, each), None)) and target.metric in metrics:
        return Quality(metrics[target.metric], target.value if len({*each}) == 1 else None)
    return Quality(metrics["loss"], None) if "loss" in metrics else None


def _sampled(
    metric: Metric, metrics: Mapping[str, Metric], groups: Sequence[Group]
) -> Metric | None:
    if LATENCY in metrics:
        return metrics[LATENCY]
    sampled = any(len(run) > 1 for group in groups for run in group.samples(metric.name))
    return metric if sampled else None
