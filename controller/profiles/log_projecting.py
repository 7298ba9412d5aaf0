"""Efficiency from a log alone: its primitives' times over those when replayed here. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import BinaryIO

from controller.contracts.replay import LogReplayed
from controller.profiles.log_replays import Planned, is_product, likeness
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.primitive import primitive_of
from controller.profiles.projecting import (
    LEAST_STEPS,
    MOST_REASONS,
    Samples,
    projected,
    replayed_primitives,
)
from controller.profiles.validity import judged
from controller.profiles.verbose import LogFacts, executions


def log_projected(
    profile: Profile,
    planned: Planned,
    done: LogReplayed,
    samples: Samples,
    steps_s: Sequence[float] = (),
) -> Profile:
    """Return the profile with replay times in its rows, its efficiency, and what is in neither.

    done: of planned's tasks. samples: their seconds. steps_s: seconds of each step's primitives, to
    whose median its times are scaled, as those of a profiled run are to its median step.
    """
    profile = _of_median_step(profile, steps_s)
    products = {
        body: told for body, told in _products(profile.primitives, planned, samples) if told
    }
    found = projected(profile, {**products, **samples}, *([steps_s] if steps_s else []))
    refused = {one.key: one.refused for one in done.replayed if one.refused}
    reasons = {
        body: refused.get(task.key) or "no kernel ran it as that primitive"
        for body, task in planned.tasks.items()
    } | planned.refused
    without = [row for row in found.primitives if row.replay is None]
    notes = (
        *_thread_notes(profile, done),
        *_reason_notes(without, reasons, found),
    )
    summary = found.summary.model_copy(update={"notes": (*found.summary.notes, *notes)})
    whole = replace(found, summary=summary)
    return judged(whole, (), tuple(f"replays: {why}" for why in done.disturbed))


def _of_median_step(profile: Profile, steps_s: Sequence[float]) -> Profile:
    """Return a log's profile with times of its median step: a slow one weighs on the mean."""
    if len(steps_s) < LEAST_STEPS or min(steps_s) <= 0:
        return profile
    middle_s, mean_s = median(steps_s), fmean(steps_s)
    scale = middle_s / mean_s
    rows = tuple(
        replace(row, seconds=row.seconds * scale, least_s=row.least_s * scale)
        for row in profile.primitives
    )
    told = (
        f"times are scaled to the median step, of {1e3 * middle_s:.4g} ms in primitives; the mean "
        f"is {1e3 * mean_s:.4g} ms"
    )
    summary = profile.summary
    update = {
        "scale": scale,
        "onednn_s": None if summary.onednn_s is None else summary.onednn_s * scale,
        "notes": (*summary.notes, told),
    }
    return replace(profile, summary=summary.model_copy(update=update), primitives=rows)


def step_seconds(log: BinaryIO, steps: int, executions_in_all: float) -> list[float]:
    """Return the seconds of each step's primitives, of a log whose steps are all alike; else
    none: other work says nothing of how long a step takes."""
    each = max(1, round(executions_in_all / steps))
    found = [0.0] * steps
    work = [0] * steps
    for number, (_, body, seconds) in enumerate(executions(log, LogFacts())):
        step = min(number // each, steps - 1)
        found[step] += seconds
        work[step] += hash(body)  # the same of the same executions in any order
    return found if len({*work}) == 1 else []


def _products(
    rows: Iterable[PrimitiveRow], planned: Planned, samples: Mapping[str, Sequence[float]]
) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield what matrix products took that torch ran without oneDNN: the whole kernel."""
    ran = {likeness(primitive) for primitive, _ in replayed_primitives(samples)}
    for row in rows:
        task, primitive = planned.tasks.get(row.body), primitive_of(row.body)
        if task and primitive and is_product(primitive) and likeness(primitive) not in ran:
            yield row.body, samples.get(task.key, ())


def _thread_notes(profile: Profile, done: LogReplayed) -> Iterator[str]:
    origin = profile.summary.origin
    logged = origin.threads if origin else None
    if logged is None:
        yield f"replayed by {done.threads} threads; the log tells none"
    elif logged != done.threads:
        yield f"replayed by {done.threads} threads; the log is of {logged}"
    yield "the efficiency is this host's: it compares nothing if the log is another's"


def _reason_notes(
    without: Sequence[PrimitiveRow], reasons: Mapping[str, str], found: Profile
) -> Iterator[str]:
    """Yield how much of the primitives' time was not replayed, for each kind and reason."""
    whole_s = sum(row.seconds for row in found.primitives)
    spent: dict[tuple[str, str], float] = defaultdict(float)
    for row in without:
        why = reasons.get(row.body, "its description is not known")
        spent[f"{row.primitive} {row.direction}".strip(), why] += row.seconds
    largest = sorted(spent.items(), key=lambda item: -item[1])
    for (kind, why), seconds in largest[:MOST_REASONS]:
        yield f"not replayed, {seconds / whole_s:.1%} of the time: {kind}: {why}"
    if rest := sum(seconds for _, seconds in largest[MOST_REASONS:]):
        yield f"not replayed, {rest / whole_s:.1%} of the time: others"
