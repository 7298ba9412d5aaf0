"""The graph of a `.tflite` file, ready to run: by Interpreter, or by LiteRT's CompiledModel."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.delegated import Delegated, delegated
from agents.inference.runner.faults import RunnerFault, model_unusable, not_in_batches, not_xnnpack
from agents.inference.runner.spec import RunSpec

Sample = tuple[NDArray[Any], ...]
"""The input tensors as the model takes them: with a batch dimension, in the model's types."""
Details = Mapping[str, Any]
"""`index`, `shape`, `dtype` and `quantization` of a tensor, as Interpreter tells them."""
QUANTISED: Final = 1 | 2
"""XNNPACK's flags for signed and unsigned 8-bit graphs, which own flags would turn off."""
FORCED_FP16: Final = 4
CACHE: Final = "xnnpack-weights"
"""XNNPACK's file of packed weights, in the run's folder while the model is loaded."""


class Graph(Protocol):
    """What computes a model's outputs."""

    inputs: Sequence[Details]
    """Of one sample."""
    outputs: Sequence[Details]

    def run(self, tensors: Sample) -> Sequence[NDArray[Any]]:
        """Compute the output tensors of input tensors."""

    def invoke(self) -> None:
        """Compute again on the present input, without reading the outputs."""

    @property
    def delegated(self) -> Delegated:
        """What a delegate took of the graph."""

    def facts(self) -> Mapping[str, object]:
        """Return what a result tells of it beside the delegate."""


def load_graph(spec: RunSpec, package: str, batch: int) -> Graph:
    """Load a model's graph for `batch` samples at once.

    Raises RunnerFault `model_unusable`, `batch_unsupported` or `xnnpack_unsupported`.
    """
    by_interpreter = Interpreted(spec, package, batch)
    if spec.executor == "interpreter":
        return by_interpreter
    return Compiled(spec, package, batch, by_interpreter)


def made_up(inputs: Sequence[Details], count: int) -> Sample:
    """Return `count` random samples that fit the inputs: (count, …) for each.

    Integers are below 128 for every type, valid as pixels and as token ids of any vocabulary.
    """
    source = np.random.default_rng(0)
    made = []
    for details in inputs:
        shape = (count, *(int(side) for side in details["shape"][1:]))
        kind = np.dtype(details["dtype"])
        if kind.kind == "f":
            made.append(source.random(shape, dtype=np.float32).astype(kind))
        else:
            made.append(source.integers(0, 128, shape).astype(kind))
    return tuple(made)


class Interpreted:
    """A Graph by the runtime's Interpreter."""

    def __init__(self, spec: RunSpec, package: str, batch: int = 1) -> None:
        """Load it; raises RunnerFault `model_unusable`, or `batch_unsupported`."""
        interpreter = importlib.import_module(f"{package}.interpreter")
        kinds = interpreter.OpResolverType
        bare = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if spec.delegate == "none" else kinds.AUTO
        try:
            self._interpreter = interpreter.Interpreter(
                spec.model, num_threads=spec.threads, experimental_op_resolver_type=bare
            )
            self.inputs = self._interpreter.get_input_details()
            if batch > 1:
                self._resize(batch)
            self._interpreter.allocate_tensors()
        except (OSError, ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())
            if batch > 1:
                raise not_in_batches(spec.model, batch, said) from error
            raise model_unusable(f"{spec.model}: {said}") from error
        self.outputs = self._interpreter.get_output_details()
        self._input_indices = [int(details["index"]) for details in self.inputs]
        self._output_indices = [int(details["index"]) for details in self.outputs]

    def _resize(self, batch: int) -> None:
        for details in self.inputs:
            shape = [batch, *(int(side) for side in details["shape"][1:])]
            self._interpreter.resize_tensor_input(int(details["index"]), shape)

    def run(self, tensors: Sample) -> Sequence[NDArray[Any]]:
        """See Graph.run."""
        interpreter = self._interpreter
        for index, tensor in zip(self._input_indices, tensors, strict=True):
            interpreter.set_tensor(index, tensor)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in self._output_indices]

    def invoke(self) -> None:
        """See Graph.invoke."""
        self._interpreter.invoke()

    @property
    def delegated(self) -> Delegated:
        """See Graph.delegated."""
        return delegated(self._interpreter._get_ops_details())  # there is no public way

    def facts(self) -> Mapping[str, object]:
        """See Graph.facts."""
        return {}


class Compiled:
    """A Graph by LiteRT's CompiledModel, which has options for XNNPACK: its cache, and FP16.

    CompiledModel tells only whether XNNPACK took every node, so this takes no other graph: nobody
    could say what ran. FP16 and the cache exclude each other: XNNPACK of LiteRT 2.3.0 ends the
    process where both are asked for.
    """

    def __init__(
        self, spec: RunSpec, package: str, batch: int, by_interpreter: Interpreted
    ) -> None:
        """Load it, and answer once.

        by_interpreter: the same graph, to compare with. Raises RunnerFault `model_unusable`,
        `batch_unsupported` or `xnnpack_unsupported`.
        """
        self._spec, self._package = spec, package
        self.inputs, self.outputs = by_interpreter.inputs, by_interpreter.outputs
        self.delegated = by_interpreter.delegated
        self._sizes = [int(np.prod(details["shape"])) for details in self.outputs]
        if batch > 1:
            raise not_in_batches(spec.model, batch, f"xnnpack={spec.executor} takes one at a time")
        if self.delegated.taken < self.delegated.nodes:
            whole, taken = self.delegated.nodes, self.delegated.taken
            raise self._refused(f"XNNPACK takes {taken} of the graph's {whole} nodes")
        sample = made_up(self.inputs, 1)
        self._load()  # the first in a process takes longer; XNNPACK packs into its cache, if any
        self.run(sample)
        self._cache_bytes = self._written() if spec.executor == "cache" else None
        start = time.monotonic()
        self._load()
        answer = self.run(sample)
        self._load_s = time.monotonic() - start
        self._cache.unlink(missing_ok=True)  # XNNPACK has mapped it
        if spec.executor == "fp16" and _equal(answer, by_interpreter.run(sample)):
            raise self._refused("its answers are those without FP16, which none of its nodes uses")

    @property
    def _cache(self) -> Path:
        return Path(self._spec.log_dir) / CACHE

    def _written(self) -> int:
        """Return the bytes of XNNPACK's cache."""
        if not self._cache.exists():
            raise self._refused("XNNPACK has written no cache")
        return self._cache.stat().st_size

    def _load(self) -> None:
        litert = importlib.import_module(f"{self._package}.compiled_model")
        self._cache.parent.mkdir(parents=True, exist_ok=True)
        flags = QUANTISED | (FORCED_FP16 if self._spec.executor == "fp16" else 0)
        cpu = litert.CpuOptions(
            num_threads=self._spec.threads,
            xnnpack_flags=flags,
            xnnpack_weight_cache_path=str(self._cache) if self._spec.executor == "cache" else "",
        )
        try:
            model = litert.CompiledModel.from_file(
                self._spec.model, options=litert.Options(cpu_options=cpu)
            )
            self._given = model.create_input_buffers(0)
            self._made = model.create_output_buffers(0)
        except (OSError, ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())
            raise model_unusable(f"{self._spec.model}: {said}") from error
        if not model.is_fully_accelerated():
            raise self._refused("XNNPACK does not take the whole graph")
        self._model = model

    def _refused(self, why: str) -> RunnerFault:
        return not_xnnpack(self._spec.model, self._spec.executor, why)

    def run(self, tensors: Sample) -> Sequence[NDArray[Any]]:
        """See Graph.run."""
        for buffer, tensor in zip(self._given, tensors, strict=True):
            buffer.write(tensor)
        self.invoke()
        return [
            buffer.read(size, details["dtype"]).reshape(details["shape"])
            for buffer, size, details in zip(self._made, self._sizes, self.outputs, strict=True)
        ]

    def invoke(self) -> None:
        """See Graph.invoke."""
        self._model.run_by_index(0, self._given, self._made)

    def facts(self) -> Mapping[str, object]:
        """See Graph.facts."""
        cache = {} if self._cache_bytes is None else {"xnnpack_cache_bytes": self._cache_bytes}
        return {"load_to_answer_s": self._load_s, **cache}


def _equal(some: Sequence[NDArray[Any]], others: Sequence[NDArray[Any]]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))
