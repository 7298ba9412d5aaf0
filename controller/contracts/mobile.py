"""A task for devices as data: model files, signature, data sets, inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from controller.contracts.base import Contract, Name, Scalar

SURROGATE: Final = "_surrogate"
"""The end of a surrogate's name."""
Checksum = Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$")]
"""A checksum as the publisher of the file gives it."""
LEAST_AGREEMENT: Final = 0.95
"""Agreement with a reference below which a result says that its answers differ. Quantised kernels
and half precision change answers that were close: MLPerf Mobile's targets allow for 2 to 7 % less
accuracy."""
TensorType = Literal["float32", "int8", "uint8", "int32", "int64"]


def task_of(workload: str) -> str:
    """Return the task of a workload: a surrogate's is the one that it replaces."""
    return workload.removesuffix(SURROGATE)


class ModelFile(Contract):
    """A `.tflite` file: the project's own, or a published one."""

    checksum: Checksum | None = None
    """None if nobody publishes one; then it is pinned when the file is added."""
    path: str | None = None
    """Path of the project's own file, relative to the `models` package."""
    source: str | None = None
    """Where the file is published."""
    licence: str | None = None
    """Name of its licence; None: not known."""

    @model_validator(mode="after")
    def _own_is_pinned(self) -> Self:
        if self.path and not self.checksum:
            raise ValueError("a file with path needs a checksum")
        return self


class Tensor(Contract):
    """One input or output of a model."""

    shape: tuple[PositiveInt | None, ...]
    """None for a dimension of any size; shape None: any shape."""
    types: Annotated[tuple[TensorType, ...], Field(min_length=1)]


class Signature(Contract):
    """Inputs and outputs of a task's models, in the order of the file."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


ImageFit = Literal["stretch", "center_crop", "resize_then_crop", "pad", "as_is"]


class ImageInput(Contract):
    """Images in NHWC; float models take (pixel - mean) / std, uint8 models the pixel, int8 models
    the pixel - 128."""

    kind: Literal["image"] = "image"
    height: PositiveInt
    width: PositiveInt
    fit: ImageFit
    """How an image comes to the input's size, as TensorFlow Lite resizes, bilinear without
    antialiasing.

    `center_crop` first cuts out the middle square, of side `crop` times the shorter side.
    `resize_then_crop` keeps the proportions until the image covers 1/`crop` of the size, then cuts
    out the middle. `pad` keeps them and fills up on the right or at the bottom, also annotations.
    `as_is` refuses any other size.
    """
    crop: Annotated[float, Field(gt=0, le=1)] = 0.875
    mean: float | tuple[float, float, float]
    """Of all channels, or of each."""
    std: PositiveFloat


class TokenInput(Contract):
    """Token ids, mask and segment ids, each of shape (1, length)."""

    kind: Literal["tokens"] = "tokens"
    length: PositiveInt = 384


class RandomInput(Contract):
    """Random inputs by the model's own signature, for a model without a task."""

    kind: Literal["random"] = "random"


class Top1(Contract):
    """The class is the highest output; `top1` is the share of correct classes."""

    kind: Literal["top1"] = "top1"
    offset: int = 0
    """Output index of class 0: 1 for a model with a background class, which is never the answer."""


class Detections(Contract):
    """Boxes, classes, scores and count, as TFLite's detection postprocessing returns them; metric
    `mAP`."""

    kind: Literal["detections"] = "detections"
    offset: int = 1
    """Category in the data set of output class 0."""


class ClassMap(Contract):
    """A class for each pixel; `mIoU` over the classes that count, also those that are nowhere."""

    kind: Literal["class_map"] = "class_map"
    classes: PositiveInt = 32
    """Number of classes, from 0; the answer for any other pixel is wrong."""
    first: NonNegativeInt = 0
    """The first class that counts; pixels with a lower true class are ignored."""
    offset: int = 0
    """Output index of the annotations' class 0."""


class Span(Contract):
    """Start and end logits of an answer in a text; `F1` and `exact_match` of SQuAD."""

    kind: Literal["span"] = "span"
    start: Literal[0, 1] = 0
    """Index of the output with the start logits, in the order of the file."""
    n_best: PositiveInt = 20
    max_answer_tokens: PositiveInt = 30


class Upscaled(Contract):
    """An upscaled image; `PSNR` in dB against the true one."""

    kind: Literal["upscaled"] = "upscaled"


class RawOutput(Contract):
    """The first output, unscored."""

    kind: Literal["raw"] = "raw"


InputKind = Annotated[ImageInput | TokenInput | RandomInput, Field(discriminator="kind")]
OutputKind = Annotated[
    Top1 | Detections | ClassMap | Span | Upscaled | RawOutput, Field(discriminator="kind")
]


class DatasetPart(Contract):
    """A file or folder of a data set; without a checksum, it is pinned when it is added."""

    checksum: Checksum | None = None
    source: str | None = None


class Dataset(Contract):
    """Samples, with their true answers if known."""

    kind: Literal["written", "imagenet", "coco", "ade20k", "squad", "image_pairs"]
    samples: PositiveInt | None = None
    """None: all samples in the files."""
    writer: str | None = None
    """`package.module:function` that returns Samples, for a generated data set."""
    checksum: Checksum | None = None
    """Checksum of a generated data set, over all inputs and true answers."""
    parts: dict[Name, DatasetPart] = {}
    """Files of any other data set: `samples`, and `truth` if there is one."""
    licence: str | None = None
    """Name of its licence or terms; None: not known."""

    @property
    def has_truth(self) -> bool:
        """Whether accuracy can be measured."""
        return self.kind == "written" or "truth" in self.parts

    @model_validator(mode="after")
    def _whole(self) -> Self:
        written = self.kind == "written"
        if written != bool(self.writer and self.checksum) or written == ("samples" in self.parts):
            raise ValueError(
                "a written data set needs writer and checksum, any other parts.samples"
            )
        return self


class RunLength(Contract):
    """LoadGen's minimum number of queries, and its minimum and maximum duration."""

    queries: PositiveInt
    """Of offline, samples of the only query."""
    seconds: Annotated[float, Field(ge=0)] = 0.0
    most_seconds: PositiveFloat | None = None
    """Duration after which a run ends, however few queries it has had; None: it has no end."""

    @property
    def least_ms(self) -> float:
        """Least duration in milliseconds, as LoadGen takes it."""
        return self.seconds * 1000

    @property
    def most_ms(self) -> float:
        """Longest duration in milliseconds, as LoadGen takes it: 0 if there is none."""
        return (self.most_seconds or 0.0) * 1000

    def ends_too_soon(self, most_ms: float) -> bool:
        """Return whether a run that may take so long, 0 for any time, is ended sooner than by this.

        A longer one runs more queries, never fewer: v3.1 has a published result with 1,800 s where
        others have 600 (mlcommons/mobile_results_v3.1, SD4G2, EDSR).
        """
        return (most_ms or math.inf) < (self.most_ms or math.inf)


class RunLengths(Contract):
    """The run lengths of MLPerf Mobile and its app."""

    normal: RunLength = RunLength(queries=1024, seconds=60, most_seconds=600)
    quick: RunLength = RunLength(queries=128, seconds=10, most_seconds=60)
    rapid: RunLength = RunLength(queries=64, seconds=6, most_seconds=60)

    def of(self, name: str) -> RunLength:
        """Return the run length of this name; raises KeyError if there is none."""
        classes: Mapping[str, RunLength] = {n: getattr(self, n) for n in type(self).model_fields}
        return classes[name]


class OnDevice(Contract):
    """A workload for a device's own runtime, outside the worker process."""

    suite: str | None = None
    """The benchmark suite that the task comes from; its rules: see suite_rules.py."""
    surrogate: bool = False
    """Whether a small model of ours replaces one that is not included; the task's name says so,
    too."""
    models: Annotated[dict[Name, ModelFile], Field(min_length=1)]
    """Numerics → file; chosen by the knob `numerics`."""
    signature: Signature | None = None
    """None: the signature of the file."""
    input: InputKind
    output: OutputKind
    datasets: dict[Name, Dataset] = {}
    """Size → data set; chosen by the knob `dataset`. Empty: random inputs."""
    performance_samples: PositiveInt = 1024
    """Samples that LoadGen draws from in performance mode (MLPerf's run rules)."""
    run_lengths: RunLengths = RunLengths()

    def dataset_of(self, knobs: Mapping[str, Scalar]) -> str | None:
        """Return the data set that a cell's knobs choose: the only one if there is no such knob.

        None if it has none: inputs are made up.
        """
        return str(knobs["dataset"]) if "dataset" in knobs else next(iter(self.datasets), None)
