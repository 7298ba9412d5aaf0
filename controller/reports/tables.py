"""Terminal tables of sweeps, results and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from controller.contracts.device import likeness
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.suite_session import MEETS, NOT_VERIFIED
from controller.contracts.units import Unit
from controller.reports.comparison import Comparison
from controller.reports.figures import fact_label, shown
from controller.reports.verdict import bounds, tie, times
from controller.stats.medians import Ratio

OPERATORS_SHOWN = 30


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
                table.add_row(f"{name}.{fact_label(key)}", str(inner))
        else:
            table.add_row(name, str(value))
    if record.environment.get(MEETS) is True:
        table.caption = NOT_VERIFIED
    return table
