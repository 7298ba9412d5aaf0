"""A `.tflite` model under the bundle's interpreter: LiteRT or TensorFlow Lite."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.answers import ANSWERS, Outputs, Quantisation
from agents.inference.runner.delegated import Delegated
from agents.inference.runner.faults import dataset_unusable, model_unusable
from agents.inference.runner.graphs import Details, Sample, load_graph, made_up
from agents.inference.runner.spec import RunSpec

RUNTIMES: Final = {"litert": "ai_edge_litert", "tflite": "tflite_runtime"}


def find_runtime() -> str:
    """Return the name of the bundle's runtime; raises RunnerFault without any."""
    for name, package in RUNTIMES.items():
        if find_spec(package):
            return name
    raise model_unusable("neither LiteRT nor TensorFlow Lite is installed")


class TfliteModel:
    """Runs one sample at a time; all possible work is done before the clock starts."""

    def __init__(self, spec: RunSpec, batch: int = 1) -> None:
        """Load a model, for `batch` samples at once; raises RunnerFault as load_graph."""
        self.path = Path(spec.model)
        self.runtime = find_runtime()
        package = RUNTIMES[self.runtime]
        self.version = str(importlib.import_module(package).__version__)
        self._graph = load_graph(spec, package, batch)
        self._inputs = self._graph.inputs
        self._mean = np.asarray(spec.input_mean, np.float32)
        self._scale = np.float32(1 / spec.input_std)
        self._quantisation = [
            Quantisation(*details["quantization"]) for details in self._graph.outputs
        ]
        self._answer, self._first_class = ANSWERS[spec.answer], spec.first_class

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        """Convert a sample's pixels (uint8) to the model's type; other inputs stay.

        Raises RunnerFault if the model takes other inputs.
        """
        if len(arrays) != len(self._inputs):
            raise model_unusable(f"{self.path} takes {len(self._inputs)} inputs, not {len(arrays)}")
        return tuple(
            self._tensor(array, details)
            for array, details in zip(arrays, self._inputs, strict=True)
        )

    def made_up(self, count: int) -> Sample:
        """Return `count` random samples that fit the model: (count, …) for each input."""
        return made_up(self._inputs, count)

    def answer(self, sample: Sample) -> NDArray[Any]:
        """Run the model and return its answer in LoadGen's log format: the measured path."""
        return self.converted(self.outputs(sample))

    def outputs(self, tensors: Sample) -> Sequence[NDArray[Any]]:
        """Run the model on input tensors and return its output tensors."""
        return self._graph.run(tensors)

    def converted(self, outputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the answer that one sample's output tensors give."""
        return self._answer(Outputs(outputs, self._quantisation, self._first_class))

    def invoke(self) -> None:
        """Run again on the present input: the bare path that overheads are measured against."""
        self._graph.invoke()

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample's tensors."""
        shapes = ((details["shape"], np.dtype(details["dtype"])) for details in self._inputs)
        return sum(int(np.prod(shape)) * kind.itemsize for shape, kind in shapes)

    @property
    def input_type(self) -> str:
        """The types of the input tensors: `float32`, `int8`, `uint8` …"""
        kinds = dict.fromkeys(np.dtype(details["dtype"]).name for details in self._inputs)
        return "+".join(kinds)

    @property
    def delegate(self) -> str:
        """`xnnpack` if the runtime's default delegate took a part of the graph, else `none`.

        The runtime is never given another delegate, so any delegate node is XNNPACK's.
        """
        return "xnnpack" if self.delegated.partitions else "none"

    @property
    def delegated(self) -> Delegated:
        """What the delegate took of the graph."""
        return self._graph.delegated

    def facts(self) -> Mapping[str, object]:
        """See Graph.facts."""
        return self._graph.facts()

    def _tensor(self, array: NDArray[Any], details: Details) -> NDArray[Any]:
        shape = tuple(int(side) for side in details["shape"])
        if shape != (1, *array.shape):
            seen = ", ".join(map(str, array.shape))
            raise model_unusable(f"{self.path} takes {shape}, the samples are (1, {seen})")
        kind = np.dtype(details["dtype"])
        if array.dtype != np.uint8 or array.ndim != 3:  # not pixels
            if array.dtype != kind:
                raise dataset_unusable(f"inputs are {array.dtype}, {self.path} takes {kind}")
            return array[np.newaxis]
        if kind == np.float32:
            return (array[np.newaxis].astype(np.float32) - self._mean) * self._scale
        if kind not in (np.uint8, np.int8):
            raise model_unusable(f"{self.path} takes {kind}, and no pixels")
        # MLPerf Mobile's app gives integer models the pixels, whatever their quantisation.
        return array[np.newaxis] if kind == np.uint8 else (array[np.newaxis] ^ 128).view(np.int8)
