"""Efficiency from a log alone: its primitives' times over those when replayed here. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, Final

from controller.contracts.replay import LogReplayed
from controller.profiles.log_replays import Planned, is_product, likeness
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.primitive import Primitive, primitive_of
from controller.profiles.projecting import projected, samples_of
from controller.profiles.validity import judged
from controller.profiles.verbose import LogFacts, executions

MOST_REASONS: Final = 8
"""Reasons told of what was not replayed, the rest is added up; and implementations."""


def log_projected(
    profile: Profile,
    planned: Planned,
    done: LogReplayed,
    log: BinaryIO,
    steps_s: Sequence[float] = (),
) -> Profile:
    """Return the profile with replay times in its rows, its efficiency, and what is in neither.

    done: of planned's tasks, in their order without repeats. log: oneDNN's of the replays. steps_s:
    seconds of each step's primitives, for the interval.
    """
    samples = samples_of(log, done.replayed)
    by_body = dict(_samples_by_body(profile.primitives, planned, samples))
    found = projected(profile, by_body, *([steps_s] if steps_s else []))
    refused = {one.key: one.refused for one in done.replayed if one.refused}
    reasons = {
        body: refused.get(task.key) or "no kernel ran it as that primitive"
        for body, task in planned.tasks.items()
    } | planned.refused
    without = [row for row in found.primitives if row.replay is None]
    notes = (
        *_thread_notes(profile, done),
        *_reason_notes(without, reasons, found),
        *_implementation_notes(found, samples),
    )
    summary = found.summary.model_copy(update={"notes": (*found.summary.notes, *notes)})
    whole = Profile(summary, found.kernels, found.primitives)
    return judged(whole, (), tuple(f"replays: {why}" for why in done.disturbed))


def step_seconds(log: BinaryIO, steps: int, executions_in_all: float) -> list[float]:
    """Return the seconds of each step's primitives, of a log whose steps are all alike."""
    each = round(executions_in_all / steps)
    found = [0.0] * steps
    for number, (_, _, seconds) in enumerate(executions(log, LogFacts())):
        found[min(number // max(1, each), steps - 1)] += seconds
    return found


def _samples_by_body(
    rows: Iterable[PrimitiveRow], planned: Planned, samples: Mapping[str, Sequence[float]]
) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield what each primitive took: itself, else one that does the same work, else, of a matrix
    product, the whole kernel."""
    alike: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for ran, seconds in _replayed(samples):
        alike[likeness(ran)] += seconds
    for row in rows:
        primitive = primitive_of(row.body)
        if primitive is None:
            continue
        task = planned.tasks.get(row.body)
        whole = samples.get(task.key, ()) if task and is_product(primitive) else ()
        if found := samples.get(row.body) or alike.get(likeness(primitive)) or whole:
            yield row.body, found


def _replayed(
    samples: Mapping[str, Sequence[float]],
) -> Iterator[tuple[Primitive, Sequence[float]]]:
    """Yield the primitives that oneDNN logged of the replays, and their seconds."""
    for body, seconds in samples.items():
        if "|" not in body and (primitive := primitive_of(body)):
            yield primitive, seconds


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


def _implementation_notes(found: Profile, samples: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield how much of the primitives' time was replayed by another implementation, and which."""
    here = {likeness(primitive): primitive.implementation for primitive, _ in _replayed(samples)}
    whole_s = sum(row.seconds for row in found.primitives)
    spent: dict[str, float] = defaultdict(float)
    for row in found.primitives:
        primitive = primitive_of(row.body)
        if primitive is None or row.replay is None or row.body in samples:
            continue
        ran = here.get(likeness(primitive))
        if ran and ran != row.implementation:
            spent[f"{row.primitive} {row.implementation} ran as {ran}"] += row.seconds
    largest = sorted(spent.items(), key=lambda item: -item[1])
    for pair, seconds in largest[:MOST_REASONS]:
        yield f"replayed by another implementation, {seconds / whole_s:.1%} of the time: {pair}"
