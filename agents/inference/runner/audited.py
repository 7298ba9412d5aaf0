"""Sessions of audits: LoadGen drives the same system, which answers other samples, or starts cold.

Only what is answered differs, and in which order: each answer is timed by the session's own code.
What an audit does to samples it does before the clock, alike for all that are compared: each is
read through, so that none is nearer to the processor than another.
"""

from __future__ import annotations

import array
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.batched_session import BatchedSession, BatchSystem, warm_up_batches
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.graphs import Sample
from agents.inference.runner.session import Session, System, WarmUp, warm_up
from agents.inference.runner.spec import RunSpec
from controller.loadgen.audit_pattern import CACHE, COLD_START, RANDOM_DATA, REPEATS

STAMP: Final = 4
"""Elements of a sample that make it unlike all others."""
BASE: Final = 128
"""Values of each: below it, an integer is a pixel and a token of every vocabulary."""
COLD_EXPECTED_S: Final = 2e-3
"""What LoadGen is told to expect of a system that nobody has tried: with a faster one it ends
early, after 1,000 queries for each second of the least duration."""


class Asked:
    """A query of LoadGen's, for another sample than it names."""

    __slots__ = ("id", "index")

    def __init__(self, id_: int, index: int) -> None:
        self.id, self.index = id_, index


@dataclass(slots=True)
class AuditedSamples:
    """What an audit's run answers, batch by batch."""

    spec: RunSpec
    at_once: int
    """Samples of a batch."""
    salt: int = field(default_factory=lambda: secrets.randbits(28))
    """What no earlier run knows: where samples that were never answered before begin."""
    times_ns: array.array[int] = field(default_factory=lambda: array.array("q"))
    """Of each full batch, a sample, in order."""
    _source: np.random.Generator = field(init=False)
    _random: dict[int, Sample] = field(default_factory=dict)
    _group: Sequence[Sample] = ()

    def __post_init__(self) -> None:
        self._source = np.random.default_rng(self.salt)

    def take(self, loaded: dict[int, Sample], indices: Sequence[int]) -> None:
        """Replace samples that were loaded by copies that can be written, or by random ones."""
        if self.spec.audit == COLD_START:
            return
        for index in indices:
            own = tuple(np.array(tensor) for tensor in loaded[index])
            if self.spec.audit == RANDOM_DATA:
                other = random_like(own, self._source)
                if self.spec.mode == "accuracy":
                    own = other
                else:
                    self._random[index] = other
            loaded[index] = own

    def drop(self, indices: Sequence[int]) -> None:
        """Forget what was taken."""
        for index in indices:
            self._random.pop(index, None)

    def next(self, loaded: Mapping[int, Sample], asked: Sequence[int]) -> Sequence[Sample]:
        """Return what the next batch answers, read through.

        asked: the indices that LoadGen names.
        """
        if self.spec.audit == CACHE:
            chosen = self._repeated(loaded)
        else:  # in every second batch, random ones
            samples = self._random if len(self.times_ns) % 2 else loaded
            chosen = [samples[index] for index in asked]
        for sample in chosen:
            for tensor in sample:
                tensor.max()
        return chosen

    def _repeated(self, loaded: Mapping[int, Sample]) -> Sequence[Sample]:
        """Return samples that were never answered before, REPEATS times in a row."""
        group, place = divmod(len(self.times_ns), REPEATS)
        if not place:
            held = [index for index in loaded if index >= 0]
            numbers = range(group * self.at_once, (group + 1) * self.at_once)
            samples = [loaded[held[number % len(held)]] for number in numbers]
            if self.at_once > len(held):  # each of a batch is another
                samples = [tuple(np.array(tensor) for tensor in sample) for sample in samples]
            for number, sample in zip(numbers, samples, strict=True):
                stamp(sample, self.salt + number)
            self._group = samples
        return self._group


class _Audited(Session):
    """What the sessions of an audit share; samples of a batch have indices below 0."""

    _audit: AuditedSamples

    @property
    def audit_ns(self) -> array.array[int]:
        """See Session.audit_ns."""
        return self._audit.times_ns

    def facts(self) -> Mapping[str, object]:
        """See Session.facts."""
        return {"audit": self._spec.audit, "audit_salt": self._audit.salt}

    def _load(self, indices: list[int]) -> None:
        super()._load(indices)
        if self._fault is None:
            self._audit.take(self._loaded, indices)

    def _unload(self, indices: list[int]) -> None:
        super()._unload(indices)
        self._audit.drop(indices)

    def _issue(self, queries: list[Any]) -> None:
        size = self._audit.at_once
        for first in range(0, len(queries), size):
            batch = queries[first : first + size]
            if self._spec.mode != "performance" or len(batch) < size or self._fault is not None:
                super()._issue(batch)
                continue
            super()._issue(self._swapped(batch))
            self._audit.times_ns.append(self.latencies_ns[-1])

    def _swapped(self, batch: list[Any]) -> list[Any]:
        if self._spec.audit == COLD_START:
            return batch
        chosen = self._audit.next(self._loaded, [query.index for query in batch])
        asked = []
        for number, (query, sample) in enumerate(zip(batch, chosen, strict=True), 1):
            self._loaded[-number] = sample
            asked.append(Asked(query.id, -number))
        return asked


class AuditedSession(_Audited):
    """A Session of an audit."""

    def __init__(self, model: System, dataset: Dataset, spec: RunSpec) -> None:
        super().__init__(model, dataset, spec)
        self._audit = AuditedSamples(spec, 1)


class AuditedBatchedSession(_Audited, BatchedSession):
    """A BatchedSession of an audit."""

    def __init__(self, system: BatchSystem, dataset: Dataset, spec: RunSpec, most: int) -> None:
        super().__init__(system, dataset, spec, most)
        self._audit = AuditedSamples(spec, most)


def session_of(model: System, dataset: Dataset, spec: RunSpec) -> Session:
    """Return the session of a run that answers sample by sample."""
    return AuditedSession(model, dataset, spec) if spec.audit else Session(model, dataset, spec)


def batched_session_of(
    system: BatchSystem, dataset: Dataset, spec: RunSpec, most: int
) -> BatchedSession:
    """Return the session of a run that answers in batches."""
    kind = AuditedBatchedSession if spec.audit else BatchedSession
    return kind(system, dataset, spec, most)


def warmth_of(spec: RunSpec, system: System, sample: Sample) -> WarmUp:
    """Warm up, unless the run is to start cold."""
    if spec.audit == COLD_START:
        return WarmUp(0, COLD_EXPECTED_S)
    return warm_up(system, sample)


def batched_warmth_of(
    spec: RunSpec, system: BatchSystem, sample: Sample, sizes: Sequence[int]
) -> WarmUp:
    """Warm up with batches of each size, unless the run is to start cold."""
    if spec.audit == COLD_START:
        return WarmUp(0, COLD_EXPECTED_S)
    return warm_up_batches(system, sample, sizes)


def random_like(sample: Sample, source: np.random.Generator) -> Sample:
    """Return a sample of random values between the least and the largest of each tensor.

    So that they are pixels, tokens or a mask where its are.
    """
    return tuple(_random_tensor(tensor, source) for tensor in sample)


def _random_tensor(tensor: NDArray[Any], source: np.random.Generator) -> NDArray[Any]:
    low, high = tensor.min(), tensor.max()
    drawn: NDArray[Any]
    if tensor.dtype.kind == "f":
        drawn = source.random(tensor.shape, dtype=np.float32) * (high - low) + low
    else:
        drawn = source.integers(int(low), int(high), tensor.shape, endpoint=True)
    return np.ascontiguousarray(drawn.astype(tensor.dtype))


def stamp(sample: Sample, number: int) -> None:
    """Write a number into the first elements of a sample, so that it is like no other."""
    elements = sample[0].reshape(-1)
    for place in range(min(STAMP, len(elements))):
        number, digit = divmod(number, BASE)
        elements[place] = digit / BASE if elements.dtype.kind == "f" else digit
