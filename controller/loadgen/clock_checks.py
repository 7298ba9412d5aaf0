"""When entries were logged, against each other and against the clock times in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from controller.loadgen.checks import Check, judged, within
from controller.loadgen.detail import Stamp
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.texts import number
from controller.loadgen.time_checks import CLOCK_S, CLOCKS_APART, moment

_FIGURE: Final = "time_ms"


def clock_checks(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of when entries were logged; none of the older form."""
    stamps = run.detail.stamps
    if not stamps:
        return
    by = "entries of one thread come in the order in which they were logged"
    odd = _backwards(stamps)
    if odd:
        yield judged(_FIGURE, odd[0], odd[1], by, same=False)
        return
    yield judged(_FIGURE, "rises", "rises", by, same=True)
    yield from _lasted(run)


def _backwards(stamps: Sequence[Stamp]) -> tuple[str, str] | None:
    """Return the first time that is before one of its thread, or none; and what it has to be."""
    latest: dict[str, float] = {}
    for stamp in stamps:
        time, least = number(stamp.time_ms), latest.get(stamp.thread, 0.0)
        if time is None or time < least:
            said = "no time" if time is None else f"{time:.9g}"
            return f"{stamp.key}: {said}", f"at least {least:.9g}"
        latest[stamp.thread] = time
    return None


def _lasted(run: RunLogs) -> Iterator[Check]:
    """Yield the check that each part ended no sooner than its clock times allow."""
    made, ended = (
        [number(stamp.time_ms) or 0.0 for stamp in run.detail.stamps if stamp.key == key]
        for key in ("generated_query_count", "power_end")
    )
    moments = [
        [moment(t) for t in run.detail.every.get(f"power_{k}", ())] for k in ("begin", "end")
    ]
    if not len(made) == len(ended) == len(moments[0]) == len(moments[1]) or not made:
        return
    spans = [
        (end - begin).total_seconds() if begin and end else 0.0
        for begin, end in zip(*moments, strict=True)
    ]
    found = [
        (done - start, (span * (1 - CLOCKS_APART) - CLOCK_S) * 1e3)
        for start, done, span in zip(made, ended, spans, strict=True)
    ]
    took, least = min(found, key=lambda each: each[0] - each[1])
    by = "from power_begin to power_end"
    yield within(f"{_FIGURE} of power_end", took, max(0.0, least), float("inf"), by)
