"""Building the profile of a cell from the files of its profile passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import BinaryIO

from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import kernel_rows, nested, primitive_rows, summarised
from controller.profiles.attribution import PRIMITIVE
from controller.profiles.model import Profile
from controller.profiles.reading import TraceRead, read_trace
from controller.profiles.trace import Event
from controller.profiles.validity import NOISE, drift, judged, objections
from controller.profiles.verbose import LogFacts, executions, started_s

MOST_CUT = 0.01
"""Share of a step by which clocks of oneDNN and torch.profiler may differ in all."""


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
    load_in_step: bool = False
    """Whether a step waits for its batch, so that loading is one of its phases."""


def profile_of(captured: Captured) -> Profile:
    """Read all and bring it together; raises ProfileUnreadable.

    Ops, kernels and primitives are those of one run, the verbose one, so that their times are parts
    of one another. They are scaled so that the watched steps take as long as the plain one. The
    trace without oneDNN's verbose mode says whether that mode changed the step.
    """
    apart = not captured.load_in_step
    traced = read_trace(captured.trace, load_apart=apart)
    facts = LogFacts()
    with captured.verbose.open("rb") as log:
        beside = _executions(log, facts)
        verbose = read_trace(captured.verbose_trace, beside=beside, load_apart=apart)
    found, count = verbose.found, len(verbose.found.steps)
    scale = captured.step_s * count / total if (total := sum(found.steps)) else 1.0
    primitives, strange = primitive_rows(found.primitives, count, scale)
    kernels, primitives, cut_s = nested(kernel_rows(found, count, scale), primitives)
    summary = ProfileSummary(
        steps=count,
        step_s=captured.step_s,
        traced_step_s=captured.traced_step_s,
        verbose_step_s=captured.verbose_step_s,
        scale=scale,
        op_threads=found.threads,
        explained=found.explained,
        load_s=found.load_s / count or None,
        onednn_median=_median_over_mean(found.primitives_s),
        libraries=tuple(facts.libraries),
        isa=facts.isa,
        left_out=dict(verbose.facts.left_out),
        skipped=facts.skipped + strange.calls + traced.skipped + verbose.skipped,
        example=facts.example or strange.example or traced.example or verbose.example,
        notes=(
            *_notes(captured, cut_s),
            *traced.notes,
            *verbose.notes,
            *verbose.timeline_notes,
            *facts.notes,
        ),
    )
    profile = replace(summarised(summary, kernels, primitives), timeline=found.spans)
    return judged(profile, tuple(_objections(captured, traced, verbose)))


def _median_over_mean(primitives_s: Sequence[float]) -> float | None:
    return median(primitives_s) / fmean(primitives_s) if any(primitives_s) else None


def _objections(captured: Captured, traced: TraceRead, verbose: TraceRead) -> Iterator[str]:
    medians = {
        "alone": captured.step_s,
        "under torch.profiler": captured.traced_step_s,
        "under oneDNN's verbose mode": captured.verbose_step_s,
    }
    _, *watched = medians
    found = (traced.found.steps, verbose.found.steps)
    yield from objections(medians, dict(zip(watched, found, strict=True)))
    yield from drift(traced.found, verbose.found)
    yield from (f"{read.name} is cut off" for read in (traced, verbose) if read.is_cut)


def _notes(captured: Captured, cut_s: float) -> Iterator[str]:
    """Yield what makes the figures less sure: watching a step never makes it faster.

    cut_s: of primitives, beyond the kernels around them.
    """
    quickest_s = min(captured.traced_step_s, captured.verbose_step_s)
    if quickest_s < (1 - NOISE) * captured.step_s:
        yield (
            f"the machine was not quiet: a watched step took {quickest_s:.4g} s, a timed one "
            f"{captured.step_s:.4g} s; efficiency and overhead are off by as much"
        )
    if cut_s > MOST_CUT * captured.step_s:
        yield (
            f"{cut_s * 1e3:.4g} ms of primitives are left out: they took longer than the kernels "
            "that they ran in, as when they run beside each other"
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
