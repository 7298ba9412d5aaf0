"""The data set of a task: written by code of ours, or loaded from files of the store."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from controller.contracts.catalog import registered_writers
from controller.contracts.documents import short
from controller.contracts.mobile import Dataset, ImageInput, InputKind, TokenInput
from models.mobile.datasets import ade20k, coco, image_pairs, imagenet, squad
from models.mobile.errors import DatasetUnusable
from models.mobile.samples import Samples

_OF_IMAGES = {
    "imagenet": imagenet.load,
    "coco": coco.load,
    "ade20k": ade20k.load,
    "image_pairs": image_pairs.load,
}


def load_samples(
    dataset: Dataset, parts: dict[str, Path], wanted: InputKind, field: str
) -> Samples:
    """Return the samples of a data set whose parts lie at these paths; raises DatasetUnusable."""
    if dataset.writer:
        _require_registered(dataset.writer, field)
        module, _, name = dataset.writer.partition(":")
        written: Samples = getattr(import_module(module), name)()
        return written
    samples, truth = parts["samples"], parts.get("truth")
    loaded: Samples
    if dataset.kind == "squad" and isinstance(wanted, TokenInput):
        loaded = squad.load(samples, truth, wanted)
    elif dataset.kind in _OF_IMAGES and isinstance(wanted, ImageInput):
        loaded = _OF_IMAGES[dataset.kind](samples, truth, wanted)
    else:
        raise DatasetUnusable(
            f"load {field}",
            f"a data set of kind {dataset.kind} has no inputs of kind {wanted.kind}",
            "Correct the task's manifest.",
        )
    if dataset.samples is not None and len(loaded) < dataset.samples:
        raise DatasetUnusable(
            f"load {samples} ({field}.samples)",
            f"it has {len(loaded)} samples, not {dataset.samples}",
            "Add the whole data set.",
        )
    return loaded


def _require_registered(writer: str, field: str) -> None:
    if writer not in registered_writers():
        raise DatasetUnusable(
            f"write {field}",
            f"{short(writer)} is not a writer of a built-in task",
            "Name one of those, or give files.",
        )
