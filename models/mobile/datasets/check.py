"""Whether a file or folder can be the part of a data set as which it is added."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import partial
from pathlib import Path

from controller.contracts.mobile import Dataset, InputKind
from models.mobile.datasets import coco, imagenet, squad
from models.mobile.datasets.images import ImageFiles, unusable
from models.mobile.datasets.load import load_samples

SAMPLES, TRUTH = "samples", "truth"
_images = partial(ImageFiles.of, part=TRUTH)
_READ: dict[str, Callable[[Path], Sized]] = {
    "imagenet": imagenet.read_labels,
    "coco": coco.read_truths,
    "squad": squad.read_questions,
    "ade20k": lambda path: _images(path).names,
    "image_pairs": lambda path: _images(path).names,
}
"""By the data set's kind: what reads a truth by itself."""


def require_samples(dataset: Dataset, wanted: InputKind, path: Path, field: str) -> None:
    """See that there are enough samples, and that the first is one; raises DatasetUnusable.

    What is true of them is not asked for: that of other samples may lie in the store.
    """
    load_samples(dataset, {SAMPLES: path}, wanted, field).inputs(0)


def require_truth(
    dataset: Dataset, wanted: InputKind, path: Path, samples: Path | None, field: str
) -> None:
    """See that a truth can be read, and tells of every sample; raises DatasetUnusable.

    samples: those it is to be of; with None its own number counts.
    """
    if samples is not None:
        loaded = load_samples(dataset, {SAMPLES: samples, TRUTH: path}, wanted, field)
        for index in range(dataset.samples or len(loaded)):
            loaded.truth(index)
        return
    number = len(_READ[dataset.kind](path))
    # Of a question there are several samples, if its text is long.
    if dataset.samples and dataset.kind != "squad" and number < dataset.samples:
        seen = f"it covers {number} samples, not {dataset.samples}"
        raise unusable(path, f"parts.{TRUTH}", seen)
