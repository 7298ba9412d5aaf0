"""When in a step what ran: the spans of the quickest step of a trace. Pure.

Lanes of a thread: the step, its phases, then what is inside one another: modules, autograd's nodes,
ops, kernels, primitives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

from controller.profiles.marks import MODULE, PHASE, STEP
from controller.profiles.model import Place, Span
from controller.profiles.primitive import primitive_of
from controller.profiles.trace import Event

MOST_SPANS: Final = 20_000
"""Of a timeline, the longest: as many as a page draws at once and carries in a megabyte."""
MOST_FRAMES: Final = 400_000
"""Of a step; the spans of a longer one are not kept."""
MOST_DETAIL: Final = 160
STEP_LANE, PHASE_LANE, FIRST_LANE = 0, 1, 2
_TORCH_MODULE: Final = "nn.Module: "


class Frame(Protocol):
    """An event that ran inside others."""

    @property
    def event(self) -> Event:
        """What the trace has of it."""
        ...

    @property
    def seconds(self) -> float:
        """Those inside what is around it; final once the step has ended."""
        ...

    @property
    def place(self) -> Place:
        """Where its time is counted."""
        ...

    @property
    def depth(self) -> int:
        """How many frames are around it within the step, without those of steps and phases."""
        ...


@dataclass(slots=True)
class _Step:
    """What was seen of a step."""

    frame: Frame
    frames: list[Frame] = field(default_factory=list)
    primitives: list[tuple[Event, Frame]] = field(default_factory=list)
    """Each at its middle, with what it ran in."""

    @property
    def size(self) -> int:
        return len(self.frames) + len(self.primitives)


class Recorder:
    """Keeps the frames of the quickest step that has been seen."""

    def __init__(self, most_frames: int = MOST_FRAMES) -> None:
        self._most = most_frames
        self._now: _Step | None = None
        self._best: _Step | None = None

    def begin_step(self, frame: Frame) -> None:
        """Begin a step; the one before has ended."""
        self._judge()
        self._now = _Step(frame)

    def take(self, frame: Frame) -> None:
        """Take what begins inside the current step; else it is left out."""
        if self._now and self._now.size <= self._most:
            self._now.frames.append(frame)

    def take_primitive(self, event: Event, frame: Frame) -> None:
        """Take a primitive, whose start is its middle, and what it ran in."""
        if self._now and self._now.size <= self._most:
            self._now.primitives.append((event, frame))

    def spans(self) -> tuple[tuple[Span, ...], int]:
        """Return the longest spans in the order of their starts, and how many are left out."""
        self._judge()
        self._now = None
        if self._best is None:
            return (), 0
        found = sorted(_spans_of(self._best), key=lambda s: (s.lane >= FIRST_LANE, -s.seconds))
        kept = sorted(found[:MOST_SPANS], key=lambda s: (s.start_s, s.lane))
        return tuple(kept), max(0, len(found) - MOST_SPANS)

    def _judge(self) -> None:
        now, best = self._now, self._best
        if now and now.size <= self._most and (not best or now.frame.seconds < best.frame.seconds):
            self._best = now


def _spans_of(step: _Step) -> Iterator[Span]:
    """Yield all spans of a step."""
    begin_s, threads = step.frame.event.start_s, {step.frame.event.thread: 0}
    whole = step.frame.seconds
    yield Span("step", "step", "", 0, STEP_LANE, 0.0, whole)
    for frame in step.frames:
        if not frame.event.name.startswith((STEP, PHASE)):  # what has spans
            threads.setdefault(frame.event.thread, len(threads))
    own = [frame for frame in step.frames if frame.event.thread == step.frame.event.thread]
    yield from _phases(own, begin_s)
    for frame in step.frames:
        event = frame.event
        if not event.name.startswith((STEP, PHASE)):
            kind, name, detail = _told(frame)
            lane = FIRST_LANE + frame.depth
            start_s = event.start_s - begin_s
            yield Span(kind, name, detail, threads[event.thread], lane, start_s, frame.seconds)
    for event, frame in step.primitives:
        name, detail = _primitive(event.name)
        around = frame.event
        seconds = min(event.seconds, frame.seconds)
        # Clocks of oneDNN and torch.profiler differ by microseconds: it stays inside its kernel.
        latest_s = around.start_s + frame.seconds - seconds
        start_s = min(max(around.start_s, event.start_s - event.seconds / 2), latest_s) - begin_s
        lane = FIRST_LANE + frame.depth + 1
        yield Span("primitive", name, detail, threads[around.thread], lane, start_s, seconds)


def _phases(frames: Iterable[Frame], begin_s: float) -> Iterator[Span]:
    """Yield the phases: outermost frames that follow one another in the same phase are one."""
    name, start_s, end_s, covered_s = "", 0.0, 0.0, 0.0
    for frame in frames:
        began_s = frame.event.start_s - begin_s
        # Inside one that was seen: by its middle, as clocks are rounded.
        if not frame.place.phase or began_s + frame.seconds / 2 < covered_s:
            continue
        covered_s = began_s + frame.seconds
        if frame.place.phase != name:
            if name:
                yield Span("phase", name, "", 0, PHASE_LANE, start_s, end_s - start_s)
            name, start_s, end_s = frame.place.phase, began_s, 0.0
        end_s = max(end_s, began_s + frame.seconds)
    if name:
        yield Span("phase", name, "", 0, PHASE_LANE, start_s, end_s - start_s)


def _told(frame: Frame) -> tuple[str, str, str]:
    """Return kind, name and detail of a frame."""
    event, place = frame.event, frame.place
    for prefix in (MODULE, _TORCH_MODULE):
        if event.name.startswith(prefix):
            return "module", event.name.removeprefix(prefix), ""
    detail = " ".join(filter(None, (place.module, event.dims)))[:MOST_DETAIL]
    if place.waits:
        return "waiting", event.name, detail
    if place.kernel != event.name:
        return "region", event.name, place.module[:MOST_DETAIL]
    return "op", event.name, detail


@lru_cache(maxsize=4096)
def _primitive(body: str) -> tuple[str, str]:
    """Return a primitive's name and detail."""
    found = primitive_of(body)
    if found is None:
        return body[:MOST_DETAIL], ""
    name = " ".join(filter(None, (found.kind, found.direction)))
    return name, " ".join((found.implementation, found.problem))[:MOST_DETAIL]
