"""Export of a profile to formats of other tools. Pure: text out.

Collapsed stacks (one a line: frames joined by `;`, then microseconds) are read by flamegraph.pl,
speedscope and inferno; chrome traces by Perfetto and chrome://tracing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from controller.profiles.model import Place, PrimitiveRow, Profile, phase_number
from controller.profiles.parts import UNEXPLAINED, WAITING, parts_of

GRID_US = 1 / 8
"""Times of a trace are multiples of this, because viewers nest frames by comparing sums: Perfetto
in whole nanoseconds, speedscope in floats, and both sums are exact. A frame ends one unit before
the next, because speedscope would begin the second of two adjacent frames of the same name too
early."""


def collapsed_stacks(profile: Profile) -> str:
    """Return a stack a line: phase, modules, op, kernel, primitive; microseconds of a step."""
    lines: dict[str, float] = {}
    for stack, seconds in stacks_of(profile):
        key = ";".join(frame.replace(";", ":").replace("\n", " ") for frame in stack)
        lines[key] = lines.get(key, 0.0) + seconds * 1e6
    return "".join(f"{key} {round(us)}\n" for key, us in sorted(lines.items()) if round(us) > 0)


def chrome_trace(profile: Profile) -> str:
    """Return one step as a chrome trace: the stacks one after another, in the order of phases.

    Its times are means over steps, so neighbours in the trace need not have run one after
    another; when something ran, only the timeline of one step tells.
    """
    merged: dict[tuple[str, ...], float] = {}
    for stack, seconds in stacks_of(profile):
        merged[tuple(stack)] = merged.get(tuple(stack), 0.0) + seconds * 1e6
    # Sorted so that stacks with a common frame are adjacent; viewers expect an enclosing frame
    # first.
    begun: dict[tuple[str, ...], float] = {}
    ended: dict[tuple[str, ...], float] = {}
    now = 0.0
    for path, us in sorted(merged.items(), key=lambda item: (phase_number(item[0][0]), item[0])):
        after = now + round(us / GRID_US) * GRID_US
        if after > now + GRID_US:
            for frame in (path[:depth] for depth in range(1, len(path) + 1)):
                begun.setdefault(frame, now)
                ended[frame] = after - GRID_US
        now = after
    events = [_complete(frame[-1], at, ended[frame] - at) for frame, at in begun.items()]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def stacks_of(profile: Profile) -> Iterator[tuple[list[str], float]]:
    """Yield every stack, outermost frame first, with its seconds in a step."""
    for part in parts_of(profile):
        frames = _frames(part.row.place)
        if isinstance(row := part.row, PrimitiveRow):
            if not row.place.op and not profile.kernels:  # a log's: it tells no operations
                frames.pop()
            name = " ".join(filter(None, (row.primitive, row.direction, row.implementation)))
            frames += [name, row.problem]
        yield frames, part.seconds


def _frames(place: Place) -> list[str]:
    modules = place.module.split(".") if place.module else []
    kernel = [place.kernel] if place.kernel and place.kernel != place.op else []
    op = WAITING if place.waits else place.op or UNEXPLAINED
    return [place.phase or "step", *modules, op, *kernel]


def _complete(name: str, started_us: float, us: float) -> dict[str, object]:
    kind = {"ph": "X", "cat": "profile", "pid": 1, "tid": 1}
    return {**kind, "name": name, "ts": started_us, "dur": us}
