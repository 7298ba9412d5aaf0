"""A `.tflite` image classifier under LiteRT's interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray

from agents.android.runner.faults import model_unusable

Sample = NDArray[Any]
"""One input tensor as the model takes it: (1, height, width, channels) in the model's type."""


class LiteRtModel:
    """Runs one image at a time; whatever can be done before the clock starts is done before."""

    def __init__(self, path: Path, threads: int, *, bare: bool = False) -> None:
        """Load a model, `bare` for LiteRT's own kernels; raises RunnerFault `model_unusable`."""
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if bare else OpResolverType.AUTO
        try:
            self._interpreter = Interpreter(
                str(path), num_threads=threads, experimental_op_resolver_type=resolver
            )
            self._interpreter.allocate_tensors()
        except (OSError, ValueError, RuntimeError) as error:
            raise model_unusable(f"{path}: {error}") from error
        inputs = self._interpreter.get_input_details()
        outputs = self._interpreter.get_output_details()
        if len(inputs) != 1 or len(outputs) != 1:
            raise model_unusable(f"{path}: {len(inputs)} inputs and {len(outputs)} outputs, not 1")
        self.path = path
        self._input, self._output = inputs[0], outputs[0]
        self._input_index: int = self._input["index"]
        self._output_index: int = self._output["index"]

    def prepare(self, image: NDArray[np.uint8], mean: float, std: float) -> Sample:
        """Turn pixels (height, width, channels) into the input tensor.

        Raises RunnerFault `model_unusable` if the model takes another shape.
        """
        shape = tuple(int(side) for side in self._input["shape"])
        if shape != (1, *image.shape):
            raise model_unusable(f"{self.path} takes {shape}, the images are (1, *{image.shape})")
        values = (image[np.newaxis].astype(np.float32) - np.float32(mean)) / np.float32(std)
        if self._input["dtype"] == np.float32:
            return values
        scale, zero_point = self._input["quantization"]
        if not scale:
            raise model_unusable(f"{self.path} takes {self.input_type} without a scale")
        limits = np.iinfo(self._input["dtype"])
        steps: Sample = np.rint(values / np.float32(scale)) + zero_point
        return steps.clip(limits.min, limits.max).astype(self._input["dtype"])

    def classify(self, sample: Sample) -> int:
        """Return the number of the highest output: the measured path."""
        self._interpreter.set_tensor(self._input_index, sample)
        self._interpreter.invoke()
        return int(self._interpreter.get_tensor(self._output_index).argmax())

    def invoke(self) -> None:
        """Run once more on the input that is set: the bare path overheads are measured against."""
        self._interpreter.invoke()

    @property
    def input_type(self) -> str:
        """The type of the input tensor: `float32`, `int8`, `uint8`."""
        return str(np.dtype(self._input["dtype"]))

    @property
    def delegate(self) -> str:
        """`xnnpack` if LiteRT's default delegate took a part of the graph, else `none`.

        No other delegate is ever given to the interpreter, so any delegate node is XNNPACK's.
        """
        operations = self._interpreter._get_ops_details()  # no public way
        return "xnnpack" if any(op["op_name"] == "DELEGATE" for op in operations) else "none"
