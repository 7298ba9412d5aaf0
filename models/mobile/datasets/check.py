"""Checks of a file or folder that is added as a part of a data set."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path

from controller.contracts.mobile import Dataset, InputKind
from models.mobile.datasets import ade20k, coco, imagenet, squad
from models.mobile.datasets.images import ImageFiles, unusable
from models.mobile.datasets.load import load_samples

SAMPLES, TRUTH = "samples", "truth"
_READ: dict[str, Callable[[Path], Sized]] = {
    "imagenet": imagenet.read_labels,
    "coco": coco.read_truths,
    "squad": squad.read_questions,
    "ade20k": lambda path: ade20k.read_annotations(path).names,
    "image_pairs": lambda path: ImageFiles.of(path, TRUTH).names,
}
"""Kind of data set → reader of its truth."""


def require_samples(dataset: Dataset, wanted: InputKind, path: Path, field: str) -> None:
    """Check the number of samples, and that the first can be read; raises DatasetUnusable.

    The truth is not checked, since the store may hold that of other samples.
    """
    loaded = load_samples(dataset, {SAMPLES: path}, wanted, field)
    if dataset.samples and len(loaded) > dataset.samples:  # fewer can not be loaded
        seen = f"it has {len(loaded)} samples, not {dataset.samples}"
        raise unusable(path, f"parts.{SAMPLES}", seen)
    loaded.inputs(0)


def require_truth(
    dataset: Dataset, wanted: InputKind, path: Path, samples: Path | None, field: str
) -> None:
    """Check that a truth can be read and covers every sample; raises DatasetUnusable.

    samples: the samples it belongs to; None: compare with the manifest's number.
    """
    if samples is not None:
        loaded = load_samples(dataset, {SAMPLES: samples, TRUTH: path}, wanted, field)
        for index in range(dataset.samples or len(loaded)):
            loaded.truth(index)
        return
    number = len(_READ[dataset.kind](path))
    # A question with a long text has several samples.
    if dataset.samples and dataset.kind != "squad" and number < dataset.samples:
        seen = f"it covers {number} samples, not {dataset.samples}"
        raise unusable(path, f"parts.{TRUTH}", seen)
