"""What two profiles differ in, in words and tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from rich.table import Table

from controller.contracts.facts import unit_of
from controller.contracts.profile_diff import Change, ChangeKind, Condition, ProfileDiff
from controller.profiles.parts import NO_PHASE, UNEXPLAINED, WAITING
from controller.profiles.validity import NOISE
from controller.reports.profile_lines import NO_MODULE
from controller.reports.profile_tables import duration
from controller.reports.views.conditions import fact_text

RATIO_HEADINGS = ("A", "B", "difference", "B/A", "share")
COMPARE = "`benchfarm compare` takes turns and tells smaller ones."


def answer_lines(found: ProfileDiff, top: int) -> list[str]:
    """Return what differs, in words: the whole, conditions, and the largest changes."""
    return [
        _headline(found),
        *(f"note: {note}" for note in found.notes),
        *(f"differs: {_condition(condition)}" for condition in found.conditions),
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
    changed = any(change.resolved for change in found.changes)
    return not (changed or found.conditions or found.load_resolved)


def _headline(found: ProfileDiff) -> str:
    one, other = found.seconds
    per = "a step" if found.per_step else "in all"
    told = f"{duration(other)} {per} against {duration(one)}"
    if min(one, other) <= 0:
        return f"B took {told}"
    if is_same(found) and found.resolved:
        return (
            f"no difference of work or conditions shown: B took {other / one:.2f}× the time of A, "
            f"{told}. So the machine itself had another speed. {COMPARE}"
        )
    if not found.resolved:
        which = "no difference shown" if is_same(found) else "the whole: no difference shown"
        return (
            f"{which}: B took {other / one:.2f}× the time of A, {told}. Two profiles don't tell "
            f"less than {NOISE:.0%}. {COMPARE}"
        )
    slower = other > one
    times = other / one if slower else one / other
    word = "slower" if slower else "faster"
    return f"B is {duration(abs(other - one))} {word}: {told}, {times:.2f}×"


def _condition(condition: Condition) -> str:
    a, b = (
        "not known" if value is None else fact_text(value, unit_of(condition.name, {}))
        for value in (condition.a, condition.b)
    )
    return f"{condition.name} {a} → {b}"


def _loading(found: ProfileDiff) -> Iterator[str]:
    one, other = (seconds or 0.0 for seconds in found.load_s)
    if found.load_resolved:
        yield f"{_signed(other - one)}  loading a batch, beside the step: {_times(one, other)}"


def _change_lines(found: ProfileDiff, top: int) -> Iterator[str]:
    shown = [change for change in found.changes if change.resolved]
    for change in shown[:top]:
        yield f"{_signed(change.difference_s)}  {change_text(change)}"
    if len(shown) > top:
        rest = sum(change.difference_s for change in shown[top:])
        yield f"{_signed(rest)}  {len(shown) - top} more changes"
    unresolved = [change for change in found.changes if not change.resolved]
    if unresolved and not is_same(found):
        rest = sum(change.difference_s for change in unresolved)
        yield f"{_signed(rest)}  {len(unresolved)} changes too small to tell"


def change_text(change: Change) -> str:
    """Return a change in words: the operation, what it was and is, where, and its times."""
    op = change.op if change.op_b is None else f"{change.op} → {change.op_b}"
    return f"{op}: {_what(change)}{_where(change)}: {_times(*change.seconds)}"


def _what(change: Change) -> str:
    one, other = change.calls
    match change.kind:
        case ChangeKind.ONLY_A | ChangeKind.ONLY_B:
            return f"{change.kind}, {max(one, other):g} calls"
        case ChangeKind.REORDERS | ChangeKind.COPIES:
            return f"{change.kind} {one:g} → {other:g}"
        case ChangeKind.CALLS:
            return f"calls {one:g} → {other:g}"
        case ChangeKind.SAME_WORK:
            a_s, b_s = change.seconds
            work = "" if change.op in (UNEXPLAINED, WAITING) else "same work, "
            return f"{work}{b_s / a_s:.2f}× the time" if a_s else f"{work}other time"
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
