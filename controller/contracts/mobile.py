"""A task for devices, as data: model files, signature, data sets, inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from controller.contracts.base import Contract, Name, Scalar

Checksum = Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$")]
"""As whoever published the file gives it."""
TensorType = Literal["float32", "int8", "uint8", "int32", "int64"]


class ModelFile(Contract):
    """A `.tflite` file: the project's own, or one that is published elsewhere."""

    checksum: Checksum | None = None
    """None where nobody publishes one: it is pinned when the file is added."""
    path: str | None = None
    """Of the project's own: relative to the `models` package."""
    source: str | None = None
    """Where it is published."""

    @model_validator(mode="after")
    def _own_is_pinned(self) -> Self:
        if self.path and not self.checksum:
            raise ValueError("a file with path needs a checksum")
        return self


class Tensor(Contract):
    """One input or output of a model."""

    shape: tuple[PositiveInt | None, ...]
    """None where any size will do; without a side, any shape."""
    types: Annotated[tuple[TensorType, ...], Field(min_length=1)]


class Signature(Contract):
    """What a model of a task takes and gives, in the order of the file."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class ImageInput(Contract):
    """Images in NHWC; a float model takes (pixel - mean) / std, others the same, quantised."""

    kind: Literal["image"] = "image"
    height: PositiveInt
    width: PositiveInt
    fit: Literal["stretch", "center_crop", "as_is"]
    """`center_crop` takes the middle `crop` of the shorter side, and the rest is stretched."""
    crop: Annotated[float, Field(gt=0, le=1)] = 0.875
    mean: float
    std: PositiveFloat


class TokenInput(Contract):
    """Token ids, mask and segment ids, each (1, length)."""

    kind: Literal["tokens"] = "tokens"
    length: PositiveInt = 384


class RandomInput(Contract):
    """Made up from the model's own signature: all that a model without a task needs."""

    kind: Literal["random"] = "random"


class Top1(Contract):
    """The highest of the outputs is the class; `top1` is the share of right ones."""

    kind: Literal["top1"] = "top1"
    offset: int = 0
    """Output number of class 0: 1 for a model that counts the background."""


class Detections(Contract):
    """Boxes, classes, scores, count, as TFLite gives them after detection; `mAP`."""

    kind: Literal["detections"] = "detections"
    offset: int = 1
    """Category of output class 0 in the data set."""


class ClassMap(Contract):
    """A class for each pixel; `mIoU` over the classes that count."""

    kind: Literal["class_map"] = "class_map"
    classes: PositiveInt = 32
    first: NonNegativeInt = 0
    """The first class that counts; pixels whose true class is below it are left out."""
    offset: int = 0
    """Output number of the annotations' class 0."""


class Span(Contract):
    """Start and end logits of an answer in a text; `F1` and `exact_match` of SQuAD."""

    kind: Literal["span"] = "span"
    start: Literal[0, 1] = 0
    """Which of the two outputs, in the order of the file, has the start logits."""
    n_best: PositiveInt = 20
    max_answer_tokens: PositiveInt = 30


class Upscaled(Contract):
    """A larger image; `PSNR` in dB against the true one."""

    kind: Literal["upscaled"] = "upscaled"


class RawOutput(Contract):
    """The first output as it is, which nothing scores."""

    kind: Literal["raw"] = "raw"


InputKind = Annotated[ImageInput | TokenInput | RandomInput, Field(discriminator="kind")]
OutputKind = Annotated[
    Top1 | Detections | ClassMap | Span | Upscaled | RawOutput, Field(discriminator="kind")
]


class DatasetPart(Contract):
    """A file of a data set, or a folder; without a checksum it is pinned when it is added."""

    checksum: Checksum | None = None
    source: str | None = None


class Dataset(Contract):
    """Samples, and what is true of them if that is known."""

    kind: Literal["written", "imagenet", "coco", "ade20k", "squad", "image_pairs"]
    samples: PositiveInt | None = None
    """None: as many as there are in the files."""
    writer: str | None = None
    """Of a written one: `package.module:function`, which returns Samples."""
    checksum: Checksum | None = None
    """Of a written one: over all inputs and all that is true of them."""
    parts: dict[Name, DatasetPart] = {}
    """Of any other: `samples`, and `truth` where there is one."""

    @property
    def has_truth(self) -> bool:
        """Whether the accuracy of answers can be told."""
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
    """LoadGen's minimum number of queries, and its minimum duration."""

    queries: PositiveInt
    seconds: Annotated[float, Field(ge=0)]


class RunLengths(Contract):
    """The length classes of MLPerf Mobile and its app."""

    normal: RunLength = RunLength(queries=1024, seconds=60)
    quick: RunLength = RunLength(queries=128, seconds=10)
    rapid: RunLength = RunLength(queries=64, seconds=6)

    def of(self, name: str) -> RunLength:
        """Return a length class; KeyError if there is none of this name."""
        classes: Mapping[str, RunLength] = {n: getattr(self, n) for n in type(self).model_fields}
        return classes[name]


class Suite(Contract):
    """Where a task comes from."""

    name: str
    since: str
    until: str | None = None
    """The last version that has it; None: it still does."""


class OnDevice(Contract):
    """A workload that runs on a device's own runtime rather than in our process."""

    suite: Suite | None = None
    surrogate: bool = False
    """A small model of ours in the place of one that is not included; its name says so, too."""
    models: Annotated[dict[Name, ModelFile], Field(min_length=1)]
    """Numerics → file; the knob `numerics` chooses."""
    signature: Signature | None = None
    """None: whatever the file has."""
    input: InputKind
    output: OutputKind
    datasets: dict[Name, Dataset] = {}
    """Size → data set; the knob `dataset` chooses. None: inputs are made up."""
    performance_samples: PositiveInt = 1024
    """Samples LoadGen draws from in performance mode (run rules)."""
    run_lengths: RunLengths = RunLengths()

    def dataset_of(self, knobs: Mapping[str, Scalar]) -> str | None:
        """Return the data set that a cell's knobs choose: the only one if there is no such knob.

        None if it has none: inputs are made up.
        """
        return str(knobs["dataset"]) if "dataset" in knobs else next(iter(self.datasets), None)
