"""A labelled image set in one `.npz` file."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.android.runner.faults import dataset_unusable


@dataclass(frozen=True, slots=True)
class Dataset:
    """Images with the numbers of their classes."""

    images: NDArray[np.uint8]
    """(n, height, width, channels)."""
    labels: NDArray[np.int64]
    """(n,)."""

    def __len__(self) -> int:
        return len(self.labels)

    @staticmethod
    def read(path: Path) -> Dataset:
        """Read a set; raises RunnerFault `dataset_unusable`."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                images, labels = arrays["images"], arrays["labels"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise dataset_unusable(f"{path}: {error}") from error
        if objection := _objection(images, labels):
            raise dataset_unusable(f"{path}: {objection}")
        return Dataset(images, labels.astype(np.int64))


def _objection(images: NDArray[Any], labels: NDArray[Any]) -> str | None:
    if images.dtype != np.uint8 or images.ndim != 4:
        return f"images are {images.dtype} of shape {images.shape}, not uint8 in NHWC"
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        return f"labels are {labels.dtype} of shape {labels.shape} for {len(images)} images"
    return None if len(labels) else "no images"
