"""What was counted in each phase, as rows of tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from controller.contracts.counters import Counters, PhaseCounts
from controller.contracts.profile import ProfileSummary
from controller.contracts.topdown import LEVELS, TopDown
from controller.profiles.parts import NO_PHASE
from controller.reports.profile_tables import duration
from controller.reports.topdown_lines import node_name, untold

NUMBERS = (
    *("time", "minor faults", "major faults", "waits", "preemptions"),
    *("migrations", "user", "system"),
)
"""Headings of a phase's counts; waits are voluntary switches, preemptions the others."""
ADD = (
    "Measure on the machine itself with `perf stat -x, --topdown -o FILE` or PerfSpect, and add it "
    "with `benchfarm profile topdown FILE --into DIR`."
)
UNKNOWN = "this profile has no counters."


def counts_title(counters: Counters) -> str:
    """Return what the table of counts is of."""
    return f"counted by the kernel: all threads, a step, means of {counters.steps}"


def counts_rows(counters: Counters) -> Iterator[tuple[str, ...]]:
    """Yield the phase and its counts, which have the headings NUMBERS."""
    return (_counts(found) for found in counters.phases)


def counts_table(counters: Counters) -> Table:
    """Return the counts as a table."""
    table = Table(title=counts_title(counters), title_justify="left")
    table.add_column("phase", overflow="fold")
    for heading in NUMBERS:
        table.add_column(heading, justify="right")
    for row in counts_rows(counters):
        table.add_row(*row)
    return table


def count_notes(counters: Counters | None) -> list[str]:
    """Return what makes the counts less sure."""
    return [f"the run that counts: {note}" for note in counters.notes] if counters else []


def why_no_topdown(summary: ProfileSummary) -> str:
    """Return why a profile has no top-down shares, and what to do."""
    missing = untold(summary.counters)
    return f"{missing[0].upper()}{missing[1:]}. {ADD}" if missing else f"None: {UNKNOWN} {ADD}"


def phase_shares(counters: Counters | None) -> Iterator[tuple[str, ...]]:
    """Yield each phase that has shares, and these."""
    for found in counters.phases if counters else ():
        if found.topdown:
            yield (found.phase or NO_PHASE, *_shares(found.topdown))


def phase_share_headings() -> tuple[str, ...]:
    """Return the headings of `phase_shares`: each node of level 1 before its own of level 2."""
    nodes = (name for parent, children in LEVELS.items() for name in (parent, *children))
    return ("phase", *(node_name(name) for name in nodes))


def _shares(found: TopDown) -> Iterator[str]:
    for parent, children in LEVELS.items():
        for name in (parent, *children):
            yield f"{found.shares[name]:.1%}" if name in found.shares else "–"


def _counts(found: PhaseCounts) -> tuple[str, ...]:
    return (
        found.phase or NO_PHASE,
        duration(found.seconds),
        *(_count(n) for n in (found.minor_faults, found.major_faults)),
        *(_count(n) for n in (found.voluntary_switches, found.involuntary_switches)),
        "–" if found.migrations is None else _count(found.migrations),
        duration(found.user_s),
        duration(found.system_s),
    )


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
