"""What two profiles differ in, in words and tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich.table import Table

from controller.contracts.base import Scalar
from controller.contracts.facts import unit_of
from controller.contracts.profile_diff import Change, ChangeKind, Condition, ProfileDiff
from controller.profiles.counts import calls_text
from controller.profiles.diff_conditions import DENORMALS
from controller.profiles.diff_detail import NAMES
from controller.profiles.parts import NO_PHASE, UNEXPLAINED, WAITING
from controller.profiles.validity import NOISE, SHARES_APART
from controller.reports.profile_lines import NO_MODULE
from controller.reports.profile_tables import duration
from controller.reports.views.conditions import fact_text

RATIO_HEADINGS = ("A", "B", "difference", "B/A", "share")
COMPARE = "`benchfarm compare` takes turns and tells smaller ones."
NAMED = 3
"""Changes of work that are named together."""
MOST_NAMES = 12
"""Conditions, or values of one, in a line."""


@dataclass(frozen=True, slots=True)
class SortedChanges:
    """Changes by how they are told, each largest difference first."""

    resolved: Sequence[Change]
    other_work: Sequence[Change]
    """Other work, each too little to tell, together more than a share of the step; else empty."""
    rest: Sequence[Change]
    """Too small to tell."""


def sorted_changes(found: ProfileDiff) -> SortedChanges:
    """Return the changes of two profiles by how they are told."""
    resolved = [change for change in found.changes if change.resolved]
    small = [change for change in found.changes if not change.resolved]
    works = [change for change in small if _is_other_work(change)]
    # By their time and not by the difference: other work may take as long as the work before.
    together_s = sum(max(change.seconds) for change in works)
    if together_s <= SHARES_APART * max(found.seconds):
        return SortedChanges(resolved, [], small)
    rest = [change for change in small if not _is_other_work(change)]
    return SortedChanges(resolved, works, rest)


def _is_other_work(change: Change) -> bool:
    return change.kind is not ChangeKind.SAME_WORK and change.op not in (UNEXPLAINED, WAITING)


def answer_lines(found: ProfileDiff, top: int) -> list[str]:
    """Return what differs, in words: the whole, conditions, and the largest changes."""
    return [
        _headline(found),
        *(f"note: {note}" for note in found.notes),
        *_condition_lines(found.conditions),
        *_loading(found),
        *_change_lines(found, top),
    ]


def ratio_tables(found: ProfileDiff, top: int) -> Iterator[Table]:
    """Yield the times of phases and of modules in both, largest difference first."""
    per = "a step" if found.per_step else "in all"
    named = (("phase", found.phases, NO_PHASE), ("module", found.modules, NO_MODULE))
    for heading, ratios, nameless in named:
        if any(ratio.name for ratio in ratios):
            rows = [(of.name or nameless, *ratio_cells(found, of.seconds)) for of in ratios[:top]]
            yield _table(heading, rows, per, len(ratios) - top)


def is_same(found: ProfileDiff) -> bool:
    """Return whether nothing is shown to differ: no time that is told, nor work, nor conditions.

    If nothing else differs, a step that is slower as a whole is so by the machine, or by what no
    profile records.
    """
    if found.conditions or found.load_resolved:
        return False
    changes = sorted_changes(found)
    return not (changes.resolved or changes.other_work)


def _headline(found: ProfileDiff) -> str:
    one, other = found.seconds
    told = _told(found)
    if min(one, other) <= 0:
        return f"B took {told}"
    nothing_else = is_same(found)
    if nothing_else and found.resolved:
        return f"{_unexplained(found)} {COMPARE}"
    if not found.resolved:
        which = "no difference shown" if nothing_else else "the whole: no difference shown"
        return (
            f"{which}: B took {other / one:.2f}× the time of A, {told}. Two profiles don't tell "
            f"less than {NOISE:.0%}. {COMPARE}"
        )
    slower = other > one
    times = other / one if slower else one / other
    word = "slower" if slower else "faster"
    return f"B is {duration(abs(other - one))} {word}: {told}, {times:.2f}×"


def _told(found: ProfileDiff) -> str:
    one, other = found.seconds
    per = "a step" if found.per_step else "in all"
    return f"{duration(other)} {per} against {duration(one)}"


def _unexplained(found: ProfileDiff) -> str:
    """Return that the wholes differ and nothing else does, and what that tells of the machine."""
    one, other = found.seconds
    times = f"B took {other / one:.2f}× the time of A, {_told(found)}"
    if not found.conditions_known:
        return (
            f"no difference of work shown: {times}. Not all conditions are known of both, so "
            "nothing tells why."
        )
    whole = f"no difference of work or conditions shown: {times}."
    a, b = found.matmul_gflops
    if a is None or b is None:
        return f"{whole} So the machine itself had another speed."
    there = f"matrix products beside the steps ran at {_rate(a)} in A, {_rate(b)} in B"
    if (a - b) * (other - one) > 0 and max(a, b) > (1 + NOISE) * min(a, b):
        return f"{whole} So the machine itself had another speed: {there}."
    return f"{whole} Nothing that is recorded explains it: {there}."


def _rate(gflops: float) -> str:
    return fact_text(gflops, unit_of("matmul_gflops", {}))


def _condition_lines(conditions: Sequence[Condition]) -> Iterator[str]:
    """Yield a line for each condition that differs, and one for those that a profile doesn't tell;
    a single one is told with what the other says."""
    sides = ([of for of in conditions if of.a is None], [of for of in conditions if of.b is None])
    unknown = [[of.name for of in side if of.name != DENORMALS] for side in sides]
    gathered = [names if len(names) > 1 else [] for names in unknown]
    for condition in conditions:
        if not any(condition.name in names for names in gathered):
            yield f"differs: {_condition(condition)}"
    for name, names in zip(NAMES, gathered, strict=True):
        if names:
            yield f"not known in {name}: {_shortened(', ', names)}"


def _condition(condition: Condition) -> str:
    a, b = condition.a, condition.b
    if isinstance(a, tuple) and isinstance(b, tuple):
        alone = (_alone("A", a, b), _alone("B", b, a))
        return f"{condition.name} ({', '.join(text for text in alone if text)})"
    texts = (
        "not known" if value is None else fact_text(value, unit_of(condition.name, {}))
        for value in (a, b)
    )
    return f"{condition.name} {' → '.join(texts)}"


def _alone(name: str, values: Sequence[Scalar], others: Sequence[Scalar]) -> str:
    """Return what only one has of a list, such as instruction sets."""
    found = [str(value) for value in values if value not in others]
    return f"{_shortened(' ', found)} only in {name}" if found else ""


def _shortened(between: str, names: Sequence[str], most: int = MOST_NAMES) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


def _loading(found: ProfileDiff) -> Iterator[str]:
    one, other = found.load_s
    if found.load_resolved and one is not None and other is not None:
        yield f"{_signed(other - one)}  loading a batch, beside the step: {_times(one, other)}"


def _change_lines(found: ProfileDiff, top: int) -> Iterator[str]:
    changes = sorted_changes(found)
    for change in changes.resolved[:top]:
        yield f"{_signed(change.difference_s)}  {change_text(change)}"
    if more := changes.resolved[top:]:
        yield f"{_signed(_difference_s(more))}  {len(more)} more changes"
    if works := changes.other_work:
        yield f"{_signed(_difference_s(works))}  {other_work_text(works)}"
    if changes.rest and not is_same(found):
        yield f"{_signed(_difference_s(changes.rest))}  {small_text(found, changes.rest)}"


def _difference_s(changes: Sequence[Change]) -> float:
    return sum(change.difference_s for change in changes)


def small_text(found: ProfileDiff, changes: Sequence[Change]) -> str:
    """Return what changes are that say nothing each."""
    said = f"{len(changes)} changes too small to tell"
    times = found.same_work_times
    return said if times == 1 else f"{said} beside the machine's own speed: {times:.2f}× the time"


def other_work_text(changes: Sequence[Change]) -> str:
    """Return in one line what works differ in, those with most time first."""
    largest = sorted(changes, key=lambda change: -max(change.seconds))
    named = _shortened(", ", [f"{_ops(of)} ({of.kind})" for of in largest], NAMED)
    return f"other work, each time too small to tell: {named}: {_times(*sum_of(changes))}"


def sum_of(changes: Sequence[Change]) -> tuple[float, float]:
    """Return the seconds of changes in A and in B."""
    one, other = (sum(change.seconds[side] for change in changes) for side in (0, 1))
    return one, other


def change_text(change: Change) -> str:
    """Return a change in words: the operation, what it was and is, where, and its times."""
    return f"{_ops(change)}: {_what(change)}{_where(change)}: {_times(*change.seconds)}"


def change_name(change: Change) -> str:
    """Return a change in a few words: the operation, what it was and is, and where."""
    return f"{_ops(change)}: {change.kind}{_where(change)}"


def _ops(change: Change) -> str:
    return change.op if change.op_b is None else f"{change.op} → {change.op_b}"


def _what(change: Change) -> str:
    calls = " → ".join(map(calls_text, change.calls))
    match change.kind:
        case ChangeKind.ONLY_A | ChangeKind.ONLY_B:
            return f"{change.kind}, {calls_text(max(change.calls))} calls"
        case ChangeKind.REORDERS | ChangeKind.COPIES:
            types = f" with data type {change.detail}" if change.detail else ""
            return f"{change.kind} {calls}{types}"
        case ChangeKind.CALLS:
            return f"calls {change.detail or calls}"
        case ChangeKind.SAME_WORK:
            a_s, b_s = change.seconds
            work = "" if change.op in (UNEXPLAINED, WAITING) else "same work, "
            beside = f", {change.detail}" if change.detail else ""
            return f"{work}{b_s / a_s:.2f}× the time{beside}" if a_s else f"{work}other time"
        case _:
            return f"{change.kind} {change.detail}"


def _where(change: Change) -> str:
    modules = change.modules
    if not modules:
        where = change.phase
    elif len(modules) == 1:
        where = f"{change.phase} of {modules[0]}".strip()
    else:
        inside = f" in {shared}" if (shared := _shared(modules)) else ""
        where = f"{change.phase} of {len(modules)} modules{inside}".strip()
    return f", {where}" if where and change.op != UNEXPLAINED else ""


def _shared(modules: Sequence[str]) -> str:
    """Return the module that all of some modules are in; empty if there is none."""
    levels = zip(*(name.split(".") for name in modules), strict=False)
    same = takewhile(lambda level: len(set(level)) == 1, levels)
    return ".".join(level[0] for level in same)


def _times(one: float, other: float) -> str:
    return f"{duration(one)} → {duration(other)}"


def _signed(seconds: float) -> str:
    return f"{'−' if seconds < 0 else '+'}{duration(abs(seconds))}"


def ratio_cells(found: ProfileDiff, seconds: tuple[float, float]) -> tuple[str, ...]:
    """Return times in A and B under RATIO_HEADINGS, formatted; shares are those of each step."""
    one, other = seconds
    times = f"{other / one:.2f}" if one else "–"
    return duration(one), duration(other), _signed(other - one), times, _shift(found, seconds)


def _shift(found: ProfileDiff, seconds: tuple[float, float]) -> str:
    # Every second is in one phase, so shares come to 100 %, also of times summed over threads.
    wholes = (sum(phase.seconds[side] for phase in found.phases) for side in (0, 1))
    shares = (
        f"{of / whole:.1%}" if whole else "–" for of, whole in zip(seconds, wholes, strict=True)
    )
    return " → ".join(shares)


def _table(heading: str, rows: Sequence[tuple[str, ...]], per: str, more: int) -> Table:
    table = Table(title=f"{heading}s, {per}", title_justify="left")
    table.add_column(heading, overflow="fold")
    for name in RATIO_HEADINGS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    if more > 0:
        table.caption = f"and {more} more"
    return table
