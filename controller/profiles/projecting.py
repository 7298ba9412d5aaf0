"""Replays: which kernels to replay, and the effect of their times on a profile. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import BinaryIO

from controller.contracts.replay import KernelReplay, Replay, Replayed
from controller.profiles.assembling import Efficiency, efficiency_of, top_primitives
from controller.profiles.layers import layers_of
from controller.profiles.log_replays import likeness
from controller.profiles.marks import REPLAY
from controller.profiles.model import KernelRow, Place, PrimitiveRow, Profile, Projection
from controller.profiles.operations import ATTENTION, PART
from controller.profiles.primitive import Primitive, primitive_of
from controller.profiles.replay_arguments import trains
from controller.profiles.validity import NOISE, unlikely
from controller.profiles.verbose import LogFacts, executions
from controller.stats.order_statistics import median_interval

Samples = dict[str, list[float]]
LEAST_STEPS = 2
"""Steps of a run that have an interval."""
MOST_REASONS = 8
"""Implementations that are told, and reasons why something was not replayed."""


def replays_of(profile: Profile) -> list[Replay]:
    """Return what to replay: kernels with primitives, and matrix products without.

    Where a trace doesn't record a kernel's inputs, the layer of its primitives is replayed instead.
    """
    gemms = [(row.place, False) for row in profile.kernels if is_gemm(row)]
    found = {
        (key := replay_key(place, trains=training)): KernelReplay(
            key=key,
            kernel=place.kernel,
            dims=place.dims,
            strides=place.strides,
            dtypes=place.dtypes,
            values=place.values,
            trains=training,
        )
        for place, training in (*_called(profile), *gemms)
        if place.kernel and place.dims
    }
    return [*found.values(), *layers_of(profile.primitives)]


def samples_of(log: BinaryIO, replayed: Sequence[Replayed | None]) -> Samples:
    """Return the seconds of all replayed calls: of kernels by key, of primitives by `body_key`.

    replayed: as numbered in the log; None in place of one that doesn't count.

    Primitives are also listed by body alone, since the same primitive does the same work in any
    kernel or layer.
    """
    samples: Samples = {one.key: list(one.samples) for one in replayed if one and one.samples}
    current: str | None = None
    mark, facts = REPLAY.encode(), LogFacts()
    for line in log:
        if line.startswith(mark):
            number = line.removeprefix(mark).strip()
            one = replayed[int(number)] if number else None
            current = one.key if one else None
        elif current is not None:
            for _, body, seconds in executions(BytesIO(line), facts):
                name = body.decode()
                samples.setdefault(body_key(current, name), []).append(seconds)
                samples.setdefault(name, []).append(seconds)
    return samples


def projected(
    profile: Profile, samples: Mapping[str, Sequence[float]], *runs: Sequence[float]
) -> Profile:
    """Return the profile with replay times in its rows and its summary.

    runs: steps in seconds of each run that the measured times rest on, for the interval.
    """
    known = {key: _projection(found) for key, found in samples.items()}
    alike = {work: _projection(found) for work, found in _by_work(samples).items()}

    def replay(row: PrimitiveRow, key: str) -> Projection | None:
        own = known.get(body_key(key, row.body)) or known.get(row.body)
        primitive = None if own else primitive_of(row.body)
        return alike.get(likeness(primitive)) if primitive else own

    keyed = zip(profile.primitives, replay_keys(profile), strict=True)
    primitives = tuple(replace(row, replay=replay(row, key)) for row, key in keyed)
    kernels = tuple(
        replace(row, replay=known.get(replay_key(row.place))) if is_gemm(row) else row
        for row in profile.kernels
    )
    found = efficiency_of(measured_of(replace(profile, kernels=kernels, primitives=primitives)))
    told = {
        "efficiency": found.value,
        **_bounds(found, runs),
        "replayed": found.share,
        "top": tuple(top_primitives(primitives)),
    }
    summary = profile.summary.model_copy(update=told)
    notes = (*summary.notes, *_implementation_notes(primitives, samples))
    summary = summary.model_copy(update={"notes": notes})
    if found.value and found.value > 1 + NOISE and not any(unlikely(summary)):
        note = f"replays took {found.value:.0%} of the step's own time: one of both was disturbed"
        summary = summary.model_copy(update={"notes": (*summary.notes, note)})
    return replace(profile, summary=summary, kernels=kernels, primitives=primitives)


def measured_of(profile: Profile) -> list[tuple[float, float, Projection | None]]:
    """Return seconds, calls and replay of all that an efficiency is of."""
    primitives = [(row.seconds, row.kept_calls, row.replay) for row in profile.primitives]
    gemms = [(row.total_s, row.calls, row.replay) for row in profile.kernels if is_gemm(row)]
    return primitives + gemms


def _by_work(samples: Mapping[str, Sequence[float]]) -> dict[tuple[str, ...], list[float]]:
    """Return the seconds of all primitives that were replayed, by the work that they do."""
    found: dict[tuple[str, ...], list[float]] = {}
    for ran, seconds in replayed_primitives(samples):
        found.setdefault(likeness(ran), []).extend(seconds)
    return found


def replayed_primitives(
    samples: Mapping[str, Sequence[float]],
) -> Iterator[tuple[Primitive, Sequence[float]]]:
    """Yield the primitives that oneDNN logged of the replays, and their seconds."""
    for body, seconds in samples.items():
        if "|" not in body and (primitive := primitive_of(body)):
            yield primitive, seconds


def _implementation_notes(
    rows: Sequence[PrimitiveRow], samples: Mapping[str, Sequence[float]]
) -> Iterator[str]:
    """Yield how much of the primitives' time was replayed by another implementation, and which."""
    here = {
        likeness(primitive): primitive.implementation
        for primitive, _ in replayed_primitives(samples)
    }
    whole_s = sum(row.seconds for row in rows) or 1.0
    spent: dict[str, float] = {}
    for row in rows:
        primitive = primitive_of(row.body)
        if primitive is None or row.replay is None or row.body in samples:
            continue
        ran = here.get(likeness(primitive))
        if ran and ran != row.implementation:
            pair = f"{row.primitive} {row.implementation} ran as {ran}"
            spent[pair] = spent.get(pair, 0.0) + row.seconds
    largest = sorted(spent.items(), key=lambda item: -item[1])
    for pair, seconds in largest[:MOST_REASONS]:
        yield f"replayed by another implementation, {seconds / whole_s:.1%} of the time: {pair}"


def refused_told(profile: Profile, replayed: Sequence[Replayed]) -> Iterator[str]:
    """Yield how much of the time was not replayed because torch refused the kernel, and why."""
    why = {one.key: one.refused for one in replayed if one.refused}
    keyed = zip(profile.primitives, replay_keys(profile), strict=True)
    measured = [(key, row.place.kernel, row.seconds, row.replay) for row, key in keyed]
    measured += [
        (replay_key(row.place), row.place.kernel, row.total_s, row.replay)
        for row in profile.kernels
        if is_gemm(row)
    ]
    whole_s = sum(seconds for _, _, seconds, _ in measured) or 1.0
    spent: dict[str, tuple[float, str]] = {}
    for key, kernel, seconds, replay in measured:
        if replay is None and (reason := why.get(key)):
            before, first = spent.get(kernel, (0.0, reason))
            spent[kernel] = before + seconds, first
    largest = sorted(spent.items(), key=lambda item: -item[1][0])
    for kernel, (seconds, reason) in largest[:MOST_REASONS]:
        yield f"not replayed, {seconds / whole_s:.1%} of the time: {kernel}: {reason}"


def replay_keys(profile: Profile) -> list[str]:
    """Return the key of the replay of each primitive's kernel."""
    return [replay_key(place, trains=training) for place, training in _called(profile)]


def _called(profile: Profile) -> list[tuple[Place, bool]]:
    """Return each primitive's place, and whether its kernel was called with gradients on: torch
    then has oneDNN train. Its primitives that are not forward tell nothing of that."""
    training = {row.place for row in profile.primitives if trains(row.direction)}
    return [
        (row.place, row.place in training and row.direction != "FWD_I")
        for row in profile.primitives
    ]


def replay_key(place: Place, *, trains: bool = False) -> str:
    """Return the key of a kernel with its inputs, called with gradients on if it trains."""
    inputs = (place.kernel, place.dims, place.strides, place.dtypes, place.values)
    return "|".join((*inputs, "trains") if trains else inputs)


def body_key(kernel: str, body: str) -> str:
    """Return the key of a primitive in a kernel with its inputs."""
    return f"{kernel}|{body}"


def is_gemm(row: KernelRow) -> bool:
    """Return whether a kernel is a matrix product or convolution that doesn't use oneDNN."""
    others = (PART, *ATTENTION)
    return not row.primitive_s and row.flops is not None and row.place.kernel not in others


def _projection(samples: Sequence[float]) -> Projection:
    middle, low, high = median_interval(samples)
    return Projection(seconds=middle, low=low, high=high, runs=len(samples))


def _bounds(found: Efficiency, runs: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return bounds of the efficiency, whose measured times are no surer than their steps.

    Time measured is off by what the median of the worst known run may be off by. Of a single step
    nothing is known.
    """
    if found.low is None or found.high is None or min(map(len, runs), default=0) < LEAST_STEPS:
        return {}
    intervals = [median_interval(steps) for steps in runs]
    quickest = min(low / middle for middle, low, _ in intervals)
    slowest = max(high / middle for middle, _, high in intervals)
    return {"efficiency_low": found.low / slowest, "efficiency_high": found.high / quickest}
