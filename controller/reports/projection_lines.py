"""A log's efficiency beside a live profile's, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from controller.contracts.projection_check import Agreement, ComparedKind, ProjectionCheck

HEADINGS: Final = ("share", "log", "live", "log / live")
TOLD: Final = 0.02
"""Share by which the profile's own efficiency differs from the compared one before it is told."""


def kinds_table(found: ProjectionCheck, top: int) -> Table:
    """Return the kinds with the most time, and all together."""
    title = "efficiency by what was replayed for both; times as watched"
    table = Table(title=title, title_justify="left")
    table.add_column("primitive", overflow="fold")
    table.add_column("direction", overflow="fold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in found.kinds[:top]:
        table.add_row(kind.primitive, kind.direction, *_numbers(kind))
    table.add_row("all", "", *_numbers(found.whole), style="bold")
    if len(found.kinds) > top:
        table.caption = f"and {len(found.kinds) - top} more"
    return table


def agreement_lines(found: ProjectionCheck) -> Iterator[str]:
    """Yield whether the efficiencies agree, and what limits that."""
    whole = found.whole
    ratio = f"{whole.ratio:.2f} [{whole.low:.2f}, {whole.high:.2f}]"
    yield (
        f"efficiency of the log {whole.log:.0%}, live {whole.live:.0%}: ratio {ratio}, "
        f"{_verdict(found)}"
    )
    yield (
        f"compared: {whole.share:.1%} of the log's time in primitives, {found.live_share:.1%} of "
        "the profile's"
    )
    if abs(found.shown_efficiency - whole.live) > TOLD * whole.live:
        yield (
            f"the profile itself shows {found.shown_efficiency:.0%}: of all that was replayed, "
            "with times scaled to its plain step"
        )
    yield from (f"note: {note}" for note in found.notes)


def _verdict(found: ProjectionCheck) -> str:
    limit = f"{found.limit:.0%}"
    match found.agreement:
        case Agreement.WITHIN:
            return f"within {limit}"
        case Agreement.BEYOND:
            return f"further apart than {limit}"
        case Agreement.NOT_RESOLVED:
            inside = abs(found.whole.ratio - 1) <= found.limit
            side = "within" if inside else "further apart than"
            return f"{side} {limit} as measured, but the interval reaches across: not resolved"


def _numbers(kind: ComparedKind) -> tuple[str, ...]:
    return (
        f"{kind.share:.1%}",
        f"{kind.log:.0%}",
        f"{kind.live:.0%}",
        f"{kind.ratio:.2f} [{kind.low:.2f}, {kind.high:.2f}]",
    )
