"""Terminal tables of sweeps, results and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.table import Table

from controller.contracts.device import likeness
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.sweep import side_labels
from controller.contracts.units import Unit
from controller.reports.comparison import Comparison, sides_of
from controller.reports.verdict import bounds, tie, times
from controller.stats.bootstrap import Ratio

_SHOWN: Mapping[Unit, Callable[[float], str]] = {
    Unit.SECONDS: lambda v: f"{v:.3f} s" if v >= 1 else f"{v * 1e3:.4g} ms",
    Unit.IMAGES_PER_SECOND: lambda v: f"{v:.2f} images/s",
    Unit.SEQUENCES_PER_SECOND: lambda v: f"{v:.2f} sequences/s",
    Unit.SAMPLES_PER_SECOND: lambda v: f"{v:.1f} samples/s",
    Unit.TOKENS_PER_SECOND: lambda v: f"{v:.2f} tokens/s",
    Unit.FRACTION: lambda v: f"{v:.2%}",
    Unit.BYTES: lambda v: f"{v / 2**30:.2f} GiB",
    Unit.JOULES: lambda v: f"{v:.4g} J",
    Unit.JOULES_PER_QUERY: lambda v: f"{v:.4g} J/query",
    Unit.JOULES_PER_STEP: lambda v: f"{v:.4g} J/step",
    Unit.LOSS: lambda v: f"{v:.4g}",
    Unit.RATIO: lambda v: f"{v:.3f}×",
    Unit.DECIBELS: lambda v: f"{v:.2f} dB",
}
RULES = "rules"
"""The fact of a result that names its rules, if they are not this project's."""
OPERATORS_SHOWN = 30
HEADINGS = {
    "step_time": "step time",
    "latency_p90": "p90 latency",
    "latency_mean": "mean latency",
    "latency_p50": "p50",
    "latency_p99": "p99",
    "throughput": "throughput",
    "top1": "top-1",
    "mAP": "mAP",
    "mIoU": "mIoU",
    "F1": "F1",
    "exact_match": "exact match",
    "PSNR": "PSNR",
    "loss": "loss",
    "peak_memory": "peak memory",
    "energy": "energy",
    "energy_gross": "energy with idle",
    "efficiency": "efficiency",
    "headroom": "headroom",
    "eager_ratio": "faster than eager",
    "compile_ratio": "faster than compiled",
    "copy_share": "of copy's speed",
    "eager_copy_share": "eager's of copy's",
}
"""Headings of the main metrics, in order; `results show` lists all metrics."""


def shown(value: float, unit: Unit) -> str:
    """Return a formatted value in the unit's customary form."""
    return _SHOWN[unit](value)


def results_table(results: Sequence[StoredResult], metric_of: Mapping[str, str]) -> Table:
    """Return a table with one line a result, oldest first."""
    table = Table("run", "device", "workload", "stack", "scenario", "result", "validity", "started")
    for result in results:
        metric = result.metrics.get(
            "ratio" if result.versus else metric_of.get(result.scenario, "")
        )
        table.add_row(
            result.run_id,
            result.device_label,
            result.workload,
            " vs ".join(side_labels(*sides_of(result))) if result.versus else result.stack,
            result.scenario,
            shown(metric.value, metric.unit) if metric else "",
            _verdict(result),
            started(result),
        )
    return table


def _verdict(result: StoredResult) -> str:
    own = ", by the program's own rules" if RULES in result.environment else ""
    return f"{result.validity}{own}{'' if result.counted else ' (late, not counted)'}"


def op_profile_table(rows: Sequence[Mapping[str, str]], source: str) -> Table:
    """Return the operator profile that a user's program printed, with its own columns."""
    title = f"operators, as the program said; all in {source}"
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows[:OPERATORS_SHOWN]:
        table.add_row(*row.values())
    if len(rows) > OPERATORS_SHOWN:
        table.caption = f"and {len(rows) - OPERATORS_SHOWN} more"
    return table


def comparison_table(found: Comparison) -> Table:
    """Return a table with one line a side: its knobs and its metric."""
    which = ", ".join(found.device_names) + likeness(virtual=found.virtual)
    how = f"pairs: {found.pairs}" if found.pairs else f"separate runs: {len(found.runs)}"
    title = f"{found.workload} {found.scenario} on {which}, {how}"
    table = Table("", "side", found.metric, title=title, title_justify="left")
    table.add_row("A", found.a, shown(found.value_a, found.unit))
    table.add_row("B", found.b, shown(found.value_b, found.unit))
    return table


def failures_table(failures: Sequence[StoredFailure]) -> Table:
    """Return a table with one line a failed attempt, oldest first."""
    table = Table("run", "attempt", "device", "workload", "blame", "kind", "what happened")
    for f in failures:
        what = (f.workload, f.blame, f.kind, f.message)
        table.add_row(f.run_id, str(f.attempt), f.shown_device, *what)
    return table


def started(record: StoredResult | StoredFailure) -> str:
    """Return the start of an attempt, UTC, to the second."""
    return str(record.model_dump(mode="json")["started_at"])[:19].replace("T", " ")


def draws_text(draws: Sequence[float], unit: Unit) -> str:
    """Return the range of several measurements of a ratio; empty for one or none."""
    if len(draws) < 2:
        return ""
    return f"{shown(min(draws), unit)} to {shown(max(draws), unit)} in {len(draws)} draws"


def ratio_text(ratio: Ratio) -> str:
    """Return a ratio with its interval for people, and what to call it where that contains 1."""
    if ratio.interval is None:
        return f"{times(ratio)} (one run)"
    return ", ".join(part for part in (f"{times(ratio)} {bounds(ratio)}", tie(ratio)) if part)


def outcome_table(record: StoredResult | StoredFailure) -> Table:
    """Return a table of everything known about one attempt's outcome."""
    counted = "" if record.counted else ", late: not counted"
    title = f"run {record.run_id}, attempt {record.attempt}{counted}"
    table = Table("what", "value", title=title, title_justify="left")
    for name, value in record.model_dump(mode="json").items():
        if name == "metrics" and isinstance(record, StoredResult):
            for metric, m in record.metrics.items():
                count = f" ({len(m.samples)} samples)" if m.samples else ""
                table.add_row(metric, f"{shown(m.value, m.unit)}{count}")
        elif name == "pairs":
            table.add_row(name, f"{len(value)} (results show --json has their samples)")
        elif isinstance(value, dict):
            for key, inner in value.items():
                table.add_row(f"{name}.{key}", str(inner))
        else:
            table.add_row(name, str(value))
    return table
