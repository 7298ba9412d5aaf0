"""Building the profile of a cell from the files of its profile passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import kernel_rows, primitive_rows, summarised
from controller.profiles.attribution import PRIMITIVE
from controller.profiles.model import Profile
from controller.profiles.reading import read_trace
from controller.profiles.trace import Event
from controller.profiles.verbose import LogFacts, executions, started_s

NOISE = 0.1
"""Share by which medians of a few steps may differ on a quiet machine."""


@dataclass(frozen=True, slots=True)
class Captured:
    """The files of a cell's profile passes, and the medians of their steps in seconds."""

    trace: Path
    """Trace of the pass under torch.profiler."""
    verbose: Path
    """oneDNN's verbose log of another pass."""
    verbose_trace: Path
    """Trace of that pass under torch.profiler, which matches primitives to ops."""
    step_s: float
    traced_step_s: float
    verbose_step_s: float


def profile_of(captured: Captured) -> Profile:
    """Return the profile from all files; raises ProfileUnreadable."""
    traced = read_trace(captured.trace)
    facts = LogFacts()
    with captured.verbose.open("rb") as log:
        verbose = read_trace(captured.verbose_trace, beside=_executions(log, facts))
    found = verbose.found
    primitives, strange = primitive_rows(found.primitives, max(1, len(found.steps)))
    summary = ProfileSummary(
        steps=len(traced.found.steps),
        step_s=captured.step_s,
        traced_step_s=captured.traced_step_s,
        verbose_step_s=captured.verbose_step_s,
        explained=traced.found.explained,
        libraries=tuple(facts.libraries),
        isa=facts.isa,
        skipped=facts.skipped + strange + traced.skipped + verbose.skipped,
        example=facts.example or traced.example or verbose.example,
        notes=(*_notes(captured), *traced.notes, *verbose.notes),
    )
    return summarised(summary, kernel_rows(traced.found, primitives), primitives)


def _notes(captured: Captured) -> Iterator[str]:
    """Yield notes on doubtful figures, such as a traced step that is faster than a timed one."""
    quickest_s = min(captured.traced_step_s, captured.verbose_step_s)
    if quickest_s < (1 - NOISE) * captured.step_s:
        yield (
            f"the machine was not quiet: a watched step took {quickest_s:.4g} s, a timed one "
            f"{captured.step_s:.4g} s; efficiency and overhead are off by as much"
        )


def _executions(log: BinaryIO, facts: LogFacts) -> Iterator[Event]:
    """Yield the executions of a log with timestamps as events, each placed at its middle."""
    for head, body, seconds in executions(log, facts):
        started = started_s(head)
        if started is None:
            facts.skip(head)
            continue
        yield Event(
            name=body.decode(errors="replace"),
            category=PRIMITIVE,
            thread=0,
            start_s=started + seconds / 2,
            seconds=seconds,
        )
