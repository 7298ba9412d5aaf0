"""Terminal tables of a profile."""

from __future__ import annotations

from rich.table import Table

from controller.contracts.profile import ProfileSummary
from controller.reports.profile_lines import Line, Lines

NUMBERS = ("calls", "time", "share", "efficiency", "headroom")


def lines_table(found: Lines, top: int) -> Table:
    """Return the largest lines as a table, with a row for the rest."""
    table = Table(title=found.title, title_justify="left")
    for heading in found.headings:
        table.add_column(heading, overflow="fold")
    for heading in NUMBERS:
        table.add_column(heading, justify="right", no_wrap=True)
    for line in found.lines[:top]:
        table.add_row(*line.key, *numbers_of(line))
    if len(found.lines) > top:
        rest = sum(line.seconds for line in found.lines[top:])
        table.caption = f"and {len(found.lines) - top} more with {duration(rest)}"
    return table


def numbers_of(line: Line) -> tuple[str, ...]:
    """Return a line's values under the headings NUMBERS, formatted."""
    return (
        f"{line.calls:g}",
        duration(line.seconds),
        f"{line.share:.1%}",
        f"{line.efficiency:.0%}" if line.efficiency is not None else "–",
        duration(line.headroom_s) if line.headroom_s is not None else "–",
    )


def summary_lines(summary: ProfileSummary) -> list[str]:
    """Return a profile's summary in a few lines."""
    lines = []
    if summary.step_s:
        lines.append(f"step {duration(summary.step_s)}" + _overheads(summary))
    elif summary.traced_step_s:
        lines.append(f"{summary.steps} steps of {duration(summary.traced_step_s)} as traced")
    if summary.explained is not None:
        lines.append(f"explained: {summary.explained:.1%} of the traced time is in named ops")
    if summary.onednn_s is not None:
        release = f" {', '.join(summary.libraries)}" if summary.libraries else ""
        lines.append(
            f"oneDNN{release}: {duration(summary.onednn_s)} in primitives" + _matched(summary)
        )
    if summary.efficiency is not None:
        share = f" ({summary.replayed:.1%} of their time was replayed)" if summary.replayed else ""
        lines.append(f"efficiency {summary.efficiency:.1%}: replayed alone over measured{share}")
    if summary.headroom_s is not None:
        lines.append(f"headroom {duration(summary.headroom_s)} a step above the roofline")
    if summary.skipped:
        lines.append(f"skipped {summary.skipped}, the first: {summary.example}")
    return lines + [f"note: {note}" for note in summary.notes]


def _overheads(summary: ProfileSummary) -> str:
    step_s = summary.step_s or 1.0
    named = (("torch.profiler", summary.traced_step_s), ("verbose", summary.verbose_step_s))
    found = [f"{name} {seconds / step_s - 1:+.1%}" for name, seconds in named if seconds]
    return f"; overhead: {', '.join(found)}" if found else ""


def _matched(summary: ProfileSummary) -> str:
    if summary.matched is None:
        return ""
    return f", {summary.matched:.2%} of it matched to an op and a module"


def duration(seconds: float) -> str:
    """Return formatted seconds."""
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1e3:.4g} ms"
