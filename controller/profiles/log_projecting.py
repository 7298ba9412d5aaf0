"""Efficiency from a log alone: its primitives' times over those when replayed here. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import BinaryIO

from controller.contracts.errors import UserError
from controller.contracts.replay import LogReplayed
from controller.profiles.log_replays import Planned, is_product, likeness, modes_of
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.primitive import Primitive, primitive_of
from controller.profiles.projecting import (
    LEAST_STEPS,
    MOST_REASONS,
    Samples,
    body_key,
    projected,
    replayed_primitives,
)
from controller.profiles.replay_arguments import has_bias
from controller.profiles.sites import REORDER
from controller.profiles.validity import judged
from controller.profiles.verbose import LogFacts, executions


def require_one_setting(facts: LogFacts, name: str) -> None:
    """Raise UserError for a log of processes with other threads or instruction sets."""
    if facts.disagreements:
        raise UserError(
            f"project {name}",
            "it is of several processes, or of several copies of oneDNN in one: "
            f"{'; '.join(facts.disagreements)}",
            "Give the log of one process, or of one copy.",
        )


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
    stand_ins = dict(_stand_ins(profile.primitives, planned, samples))
    known = {body: of.seconds for body, of in stand_ins.items()} | samples
    found = projected(profile, known, *([steps_s] if steps_s else []))
    refused = {one.key: one.refused for one in done.replayed if one.refused}
    reasons = {
        body: refused.get(task.key) or "no kernel ran it as that primitive"
        for body, task in planned.tasks.items()
    } | planned.refused
    without = [row for row in found.primitives if row.replay is None]
    notes = (
        *_thread_notes(profile, done),
        *_stand_in_notes(found, stand_ins),
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


def step_seconds(
    log: BinaryIO, steps: int, executions_in_all: float, bodies: Collection[str]
) -> list[float]:
    """Return the seconds of each step's primitives, of a log whose steps are all alike; else
    none: other work says nothing of how long a step takes.

    bodies: of the primitives that count.
    """
    each = max(1, round(executions_in_all / steps))
    found = [0.0] * steps
    work = [0] * steps
    told = executions(log, LogFacts())
    counted = (one for one in told if one[1].decode(errors="replace") in bodies)
    for number, (_, body, seconds) in enumerate(counted):
        step = min(number // each, steps - 1)
        found[step] += seconds
        work[step] += hash(body)  # the same of the same executions in any order
    return found if len({*work}) == 1 else []


@dataclass(frozen=True, slots=True)
class _StandIn:
    """What ran a matrix product that torch does not ask oneDNN for as the log's does."""

    name: str
    seconds: Sequence[float]


def _stand_ins(
    rows: Iterable[PrimitiveRow], planned: Planned, samples: Mapping[str, Sequence[float]]
) -> Iterator[tuple[str, _StandIn]]:
    """Yield what matrix products took that ran as another primitive, or without oneDNN.

    Where oneDNN logged other work in the kernel, there is none: its time is not the log's.
    """
    inside = _primitives_in(samples)
    ran = {likeness(primitive) for primitive, _ in replayed_primitives(samples)}
    for row in rows:
        task, primitive = planned.tasks.get(row.body), primitive_of(row.body)
        if not (task and primitive and is_product(primitive)) or likeness(primitive) in ran:
            continue
        if task.key not in inside:
            if found := samples.get(task.key):
                yield row.body, _StandIn("a whole kernel without oneDNN", found)
        elif len(inside[task.key]) == 1:
            (body,) = inside[task.key]
            if name := _stand_in_of(primitive, primitive_of(body)):
                yield row.body, _StandIn(name, samples[body_key(task.key, body)])


def _primitives_in(samples: Mapping[str, Sequence[float]]) -> dict[str, list[str]]:
    """Return the bodies of what oneDNN ran in each kernel, but for reorders."""
    found: dict[str, list[str]] = defaultdict(list)
    for key in samples:
        kernel, _, body = key.rpartition("|")
        primitive = primitive_of(body) if kernel else None
        if primitive and primitive.kind != REORDER:
            found[kernel].append(body)
    return found


def _stand_in_of(product: Primitive, ran: Primitive | None) -> str:
    """Return as what a product ran that is of its size; empty for other work.

    A gradient of an inner product may be a matrix product. torch adds a bias in bf16 by having the
    output hold it before (`sum`).
    """
    if ran is None or ran.kind != "matmul" or modes_of(ran) or ran.flops() != product.flops():
        return ""
    if not {m.dtype for m in ran.memory} <= {m.dtype for m in product.memory}:
        return ""
    if product.kind == "inner_product" and product.direction.startswith("BWD"):
        return "" if ran.post_ops else "matmul"
    is_biased = product.kind == "matmul" and has_bias(product) and not product.post_ops
    return "one that adds to its bias" if is_biased and ran.post_ops == "sum" else ""


def _stand_in_notes(found: Profile, stand_ins: Mapping[str, _StandIn]) -> Iterator[str]:
    whole_s = sum(row.seconds for row in found.primitives) or 1.0
    spent: dict[str, float] = defaultdict(float)
    for row in found.primitives:
        if row.body in stand_ins:
            kind = f"{row.primitive} {row.direction}".strip()
            spent[f"{kind} ran as {stand_ins[row.body].name}"] += row.seconds
    for what, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        yield f"replayed as other work, {seconds / whole_s:.1%} of the time: {what}"


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
    whole_s = sum(row.seconds for row in found.primitives) or 1.0
    spent: dict[tuple[str, str], float] = defaultdict(float)
    for row in without:
        why = reasons.get(row.body, "its description is not known")
        spent[f"{row.primitive} {row.direction}".strip(), why] += row.seconds
    largest = sorted(spent.items(), key=lambda item: -item[1])
    for (kind, why), seconds in largest[:MOST_REASONS]:
        yield f"not replayed, {seconds / whole_s:.1%} of the time: {kind}: {why}"
    if rest := sum(seconds for _, seconds in largest[MOST_REASONS:]):
        yield f"not replayed, {rest / whole_s:.1%} of the time: others"
