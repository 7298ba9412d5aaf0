"""A `.tflite` model that computes several samples at once, its inputs resized for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.faults import not_in_batches
from agents.inference.runner.graphs import Sample
from agents.inference.runner.model import TfliteModel
from agents.inference.runner.spec import RunSpec


class BatchedModel:
    """The BatchSystem of a model: an interpreter for each size of batch, made at its first use.

    An interpreter of its own, since one that is resized plans its memory and packs its weights
    anew, which would be on LoadGen's clock where the last batch is smaller.
    """

    def __init__(self, spec: RunSpec, first: int) -> None:
        """Load a model for batches of `first` samples; raises RunnerFault as TfliteModel."""
        self.largest = TfliteModel(spec, first)
        self._spec, self._models = spec, {first: self.largest}

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        """See System.prepare."""
        return self.largest.prepare(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        """See System.answer."""
        return self.answers([sample])[0]

    def answers(self, samples: Sequence[Sample]) -> Sequence[NDArray[Any]]:
        """See BatchSystem.answers; raises RunnerFault `batch_unsupported`."""
        size = len(samples)
        model = self._models.get(size) or self._models.setdefault(
            size, TfliteModel(self._spec, size)
        )
        together = tuple(np.concatenate(tensors) for tensors in zip(*samples, strict=True))
        try:
            outputs = model.outputs(together)
        except RuntimeError as error:
            raise not_in_batches(str(model.path), size, " ".join(str(error).split())) from error
        for number, output in enumerate(outputs):
            if output.shape[:1] != (size,):
                why = f"its output {number} stays {output.shape}"
                raise not_in_batches(str(model.path), size, why)
        return [model.converted([output[n : n + 1] for output in outputs]) for n in range(size)]
