"""A session so far, and what comes next in it: a function of it, of the pauses and the clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from controller.contracts.mobile import task_of
from controller.contracts.records import StoredResult
from controller.contracts.run import Run, RunState
from controller.scheduling.suite_plan import Place


@dataclass(frozen=True, slots=True)
class Span:
    """When a device worked at something, in seconds since the epoch."""

    device: str
    start: float
    end: float | None
    """None: it still does."""


@dataclass(frozen=True, slots=True)
class PartRun:
    """A part of the suite in one try."""

    place: Place
    sweep_id: str
    workload: str
    scenario: str
    state: RunState
    spans: tuple[Span, ...] = ()
    """Its attempts, in order."""
    result: StoredResult | None = None
    failure: str = ""
    """Why it has no result."""

    @classmethod
    def of(
        cls, place: Place, run: Run, result: StoredResult | None = None, failure: str = ""
    ) -> PartRun:
        """Return that of a run."""
        return cls(
            place,
            run.sweep_id,
            run.cell.workload,
            run.cell.scenario,
            run.state,
            measured_spans(run, result),
            result,
            failure,
        )

    @property
    def number(self) -> int:
        """The number of its try."""
        return self.place.number

    @property
    def part(self) -> tuple[str, str]:
        """Task and scenario."""
        return task_of(self.workload), self.scenario

    @property
    def label(self) -> str:
        """Task, scenario and try."""
        return f"{' '.join(self.part)}, try {self.number}"

    @property
    def is_lost(self) -> bool:
        """Whether it has ended without a result."""
        return self.state in (RunState.FAILED, RunState.CANCELLED)

    @property
    def end(self) -> float | None:
        """When its last attempt ended."""
        return self.spans[-1].end if self.spans else None


def spans_of(run: Run) -> tuple[Span, ...]:
    """Return when a run's attempts had their devices."""
    return tuple(Span(a.device_id, a.leased_at, a.ended_at) for a in run.attempts)


def measured_spans(run: Run, result: StoredResult | None) -> tuple[Span, ...]:
    """Return when a run's attempts used their devices.

    Beside the device, which rests meanwhile, the host computes the reference for its answers. That
    is a part of the attempt, and of the pause after it.
    """
    spans = spans_of(run)
    end = spans[-1].end if spans else None
    seconds = result.environment.get("reference_s") if result else None
    if end is None or not isinstance(seconds, int | float):
        return spans
    return (*spans[:-1], replace(spans[-1], end=max(spans[-1].start, end - seconds)))


@dataclass(frozen=True, slots=True)
class Session:
    """The parts of a session that were submitted, in order."""

    id: str
    runs: tuple[PartRun, ...]
    others: tuple[Span, ...] = ()
    """What else its device did, ever."""

    def tries(self) -> Iterator[tuple[PartRun, ...]]:
        """Yield the parts of each try."""
        for number in sorted({run.number for run in self.runs}):
            yield tuple(run for run in self.runs if run.number == number)

    def parts(self) -> list[tuple[str, str]]:
        """Return each part that was submitted, once."""
        return list(dict.fromkeys(run.part for run in self.runs))

    def spans(self) -> list[Span]:
        """Return all attempts, in order."""
        return list(chain.from_iterable(run.spans for run in self.runs))


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds to wait before the next task of a try, and before the next try."""

    task_s: float
    try_s: float


@dataclass(frozen=True, slots=True)
class Submit:
    """The next part is to be submitted now."""

    place: Place


@dataclass(frozen=True, slots=True)
class Follow:
    """A part is under way."""

    run: PartRun


@dataclass(frozen=True, slots=True)
class Wait:
    """The next part is to be submitted at a time."""

    until: float
    place: Place


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is left to do."""

    lost: tuple[PartRun, ...] = ()
    """Parts of the last try without a result, because of which there are no further tries."""


Step = Submit | Follow | Wait | Ended


def next_step(session: Session, parts: int, tries: int, pauses: Pauses, now: float) -> Step:
    """Return what comes next in a session.

    parts: of each try; now: seconds since the epoch. A try goes on after a part that has failed,
    since the others are worth having; but it is the last: the session can no longer be whole. After
    a clock that was set back no pause can be known, and none is made.
    """
    if not session.runs:
        return Submit(Place(session.id, 1, 0))
    for run in session.runs:
        if not run.state.terminal:
            return Follow(run)
    last = session.runs[-1].place
    if last.part + 1 < parts:
        return _after(session, Place(session.id, last.number, last.part + 1), pauses.task_s, now)
    lost = tuple(r for r in session.runs if r.number == last.number and r.is_lost)
    if lost or last.number >= tries:
        return Ended(lost)
    return _after(session, Place(session.id, last.number + 1, 0), pauses.try_s, now)


def _after(session: Session, place: Place, pause_s: float, now: float) -> Submit | Wait:
    ends = [span.end for span in session.spans() if span.end is not None]
    end = ends[-1] if ends else None
    if end is None or not end <= now < end + pause_s:
        return Submit(place)
    return Wait(end + pause_s, place)


def in_order(runs: Iterable[PartRun]) -> tuple[PartRun, ...]:
    """Return runs in the order of their tries and parts."""
    return tuple(sorted(runs, key=lambda run: run.place))
