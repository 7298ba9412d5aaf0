"""An explanation for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from controller.contracts.base import scalar_text
from controller.contracts.explanation import (
    Cause,
    Effect,
    Explanation,
    FactChange,
    FactValue,
    PossibleCause,
    Speed,
)
from controller.reports.explanation.changes import differing
from controller.reports.figures import shown
from controller.reports.verdict import bounds, inverse, times
from controller.stats.medians import Ratio

LISTED: Final = 6
"""Parts of a list that are shown."""
NOTHING: Final = "nothing that was recorded explains it"
NO_EFFECT: Final = "changed, with no effect that is shown:"
OTHER_WAY: Final = "changed as well, but could only act the other way:"
RATIO: Final = "ratio"
"""The metric of paired comparisons, which is no speed."""
_UNTESTED: Final = (Cause.BUNDLE, Cause.VERSIONS, Cause.KERNEL, Cause.MICROCODE, Cause.SYSTEM)


def explanation_lines(found: Explanation) -> Iterator[str]:
    """Yield an explanation: first how much the run differs, in words; then the causes."""
    yield _verdict(found)
    where = f"{found.workload} {found.scenario} on {found.device_name or found.device}"
    values = f"{shown(found.value, found.unit)}; before {shown(found.before, found.unit)}"
    yield f"{where}, run {found.run_id}: {found.metric} {values}"
    yield f"compared with {_compared(found)}"
    if found.speed is not Speed.NOT_SHOWN:
        yield ""
        yield from _causes(found)
    if found.changed:
        yield ""
        yield NO_EFFECT if found.speed is Speed.NOT_SHOWN else OTHER_WAY
        yield from (f"    {_change(change)}" for change in found.changed)
    if found.not_recorded:
        yield ""
        yield f"not recorded now or before, so not compared: {', '.join(found.not_recorded)}"


def _verdict(found: Explanation) -> str:
    slower, faster = ("lower", "higher") if found.metric == RATIO else ("slower", "faster")
    ratio = Ratio(found.times_slower, found.interval)
    count = len(found.earlier)
    others = "the run before" if count == 1 else f"the {count} runs before"
    if found.speed is Speed.SLOWER:
        return f"{times(ratio)} {slower} than {others}, 95 % {bounds(ratio)}"
    if found.speed is Speed.FASTER:
        turned = inverse(ratio)
        return f"{times(turned)} {faster} than {others}, 95 % {bounds(turned)}"
    word = slower if found.times_slower >= 1 else faster
    turned = ratio if found.times_slower >= 1 else inverse(ratio)
    if found.speed is Speed.NO_INTERVAL:
        return f"{times(turned)} {word} than {others}; one run has no interval: measure it again"
    return f"no difference is shown: {times(turned)} {word} than {others}, 95 % {bounds(turned)}"


def _compared(found: Explanation) -> str:
    ids = ", ".join(found.earlier[-LISTED:])
    more = "" if len(found.earlier) <= LISTED else f" and {len(found.earlier) - LISTED} before"
    where = "repeats of its own sweep" if found.same_sweep else "runs of the same cell and device"
    return f"{where}: {ids}{more}"


def _causes(found: Explanation) -> Iterator[str]:
    if not found.causes:
        yield NOTHING
        return
    for number, cause in enumerate(found.causes, start=1):
        yield f"{number:>2}  {cause.cause}: {_effect(cause, found)}"
        yield from (f"      {_change(change)}" for change in cause.evidence)
    if all(cause.effect is Effect.PART for cause in found.causes):
        yield f"{NOTHING} as a whole"
    together = [cause.cause for cause in found.causes if cause.cause in _UNTESTED]
    if len(together) > 1:
        yield f"changed together, so nothing recorded tells them apart: {', '.join(together)}"


def _effect(cause: PossibleCause, found: Explanation) -> str:
    if cause.at_most is None:
        return "how much it does is not known"
    word = "slower" if found.times_slower >= 1 else "faster"
    most = f"may make it up to {cause.at_most:.2f}× {word}"
    return f"{most}, a part of it" if cause.effect is Effect.PART else most


def _change(change: FactChange) -> str:
    before, now = differing(change)
    if isinstance(before, tuple) and isinstance(now, tuple):
        return f"{change.fact}: {_list(before)} → {_list(now)}"
    return f"{change.fact}: {_before(change)} → {_text(now, change.unit)}"


def _before(change: FactChange) -> str:
    numbers = [value for value in change.before if isinstance(value, float)]
    if len(numbers) < len(change.before) or len(numbers) == 1:
        values = list(dict.fromkeys(change.before))
        return " or ".join(_text(value, change.unit) for value in values[-LISTED:])
    ends = (_text(end, None) for end in (min(numbers), max(numbers)))
    return f"{_text(median(numbers), change.unit)} ({' to '.join(ends)})"


def _list(parts: Sequence[FactValue]) -> str:
    more = f" and {len(parts) - LISTED} more" if len(parts) > LISTED else ""
    return " ".join(_text(part, None) for part in parts[:LISTED]) + more if parts else "nothing"


def _text(value: FactValue, unit: str | None) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, tuple):
        return _list(value)
    text = f"{value:.4g}" if isinstance(value, float) and abs(value) < 1e4 else scalar_text(value)
    text = text.removesuffix(".0")
    return f"{text} {unit}" if unit else text
