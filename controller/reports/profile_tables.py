"""Terminal tables of a profile."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from controller.contracts.profile import ProfileSummary
from controller.profiles.counts import calls_text
from controller.reports.profile_lines import Line, Lines, per
from controller.reports.topdown_lines import topdown_lines, untold

WIDE = 0.2
"""Share of an efficiency from which its interval says little."""
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
        calls_text(line.calls),
        duration(line.seconds),
        f"{line.share:.1%}",
        f"{line.efficiency:.0%}" if line.efficiency is not None else "–",
        duration(line.headroom_s) if line.headroom_s is not None else "–",
    )


def summary_lines(summary: ProfileSummary) -> list[str]:
    """Return a profile's summary in a few lines."""
    return [
        *(f"{summary.validity}: {reason}" for reason in summary.reasons),
        *_time_lines(summary),
        *_onednn_lines(summary),
        *_topdown_lines(summary),
        *_skipped_lines(summary),
        *(f"note: {note}" for note in summary.notes),
    ]


def _time_lines(summary: ProfileSummary) -> Iterator[str]:
    if summary.step_s:
        yield f"step {duration(summary.step_s)}{_overheads(summary)}"
    elif summary.traced_step_s and summary.steps:
        yield f"{summary.steps} steps of {duration(summary.traced_step_s)} as traced"
    elif summary.traced_step_s:
        yield f"{duration(summary.traced_step_s)} traced in all"
    if summary.steps is None:
        yield "nothing tells steps apart: times are those in all; if you know, give --steps"
    if summary.explained is not None:
        yield f"explained: {summary.explained:.1%} of the watched time is in named ops"
    if summary.waiting_s:
        yield f"waiting: {duration(summary.waiting_s)} {per(summary)}, which is no work"
    if summary.load_s:
        yield f"loading a batch: {duration(summary.load_s)} as watched, beside the step"


def _skipped_lines(summary: ProfileSummary) -> Iterator[str]:
    if summary.skipped:
        first = "" if summary.example is None else f", the first: {summary.example}"
        yield f"skipped {summary.skipped}{first}"


def _topdown_lines(summary: ProfileSummary) -> list[str]:
    counters, found = summary.counters, summary.topdown
    lines = topdown_lines(found) if found else []
    is_added = found is not None and (counters is None or counters.whole is None)
    missing = None if is_added else untold(counters)
    return [*lines, *([f"top-down: {missing}"] if missing else [])]


def _onednn_lines(summary: ProfileSummary) -> Iterator[str]:
    if summary.onednn_s is not None:
        release = f" {', '.join(summary.libraries)}" if summary.libraries else ""
        of = "in all" if summary.steps is None else "a step"
        spent = f"{duration(summary.onednn_s)} {of} in primitives"
        yield f"oneDNN{release}: {spent}{_matched(summary)}"
    if summary.created:
        yield f"creating primitives, in all and in no figure above: {_created(summary)}"
    if summary.efficiency is not None:
        share = f" ({summary.replayed:.1%} of their time was replayed)" if summary.replayed else ""
        told = f"{summary.efficiency:.0%}{_interval(summary)}"
        yield f"efficiency {told}: replayed alone over measured{share}"
    if summary.headroom_s is not None:
        yield f"headroom {duration(summary.headroom_s)} {per(summary)} above the roofline"


def _interval(summary: ProfileSummary) -> str:
    """Return how sure the efficiency is."""
    low, high = summary.efficiency_low, summary.efficiency_high
    if low is None or high is None:
        return " (interval not known)"
    told = f" [{low * 100:.0f}, {high * 100:.0f}]"
    wide = high - low > WIDE * (summary.efficiency or 0.0)
    return f"{told}, not resolved: steps or replays differed too much" if wide else told


def _overheads(summary: ProfileSummary) -> str:
    step_s = summary.step_s or 1.0
    named = (("torch.profiler", summary.traced_step_s), ("verbose", summary.verbose_step_s))
    found = [f"{name} {seconds / step_s - 1:+.1%}" for name, seconds in named if seconds]
    scaled = "; times below a step are scaled to it" if summary.scale else ""
    return f"; overhead: {', '.join(found)}{scaled}" if found else ""


def _matched(summary: ProfileSummary) -> str:
    if summary.matched is None:
        return ""
    return f", {summary.matched:.2%} of it matched to an op and a module"


def _created(summary: ProfileSummary) -> str:
    return ", ".join(
        f"{one.calls:,} {one.kind or 'creations'} {duration(one.seconds)}"
        for one in summary.created
    )


def rounded(number: float) -> str:
    """Return a number with four digits, or with those before its point."""
    return f"{number:.4g}" if number < 1000 else f"{number:,.0f}"


def duration(seconds: float) -> str:
    """Return formatted seconds."""
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1e3:.4g} ms"
