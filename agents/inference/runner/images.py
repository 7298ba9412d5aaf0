"""The images of a data set, decoded and fitted to the model's input when LoadGen loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import dataset_unusable
from agents.inference.runner.spec import RunSpec
from models.mobile.decoding import ENDS, IMAGES, pixels_of
from models.mobile.pixels import Fitting, fitted, typed


def read_dataset(spec: RunSpec, input_type: str) -> Dataset:
    """Open the data set of a spec; raises RunnerFault `dataset_unusable`.

    input_type: the type of the model's input.
    """
    folder = Path(spec.dataset)
    if not (folder / ENDS).exists():
        return Dataset.read(folder)
    return Dataset([Images(folder, spec.fitting, input_type)])


class Images:
    """An Input of images, which are kept as files; only the one at hand is in memory."""

    def __init__(self, folder: Path, to: Fitting, input_type: str) -> None:
        """Open a folder's images; raises RunnerFault `dataset_unusable`."""
        self._path, self._to, self._type = folder / IMAGES, to, input_type
        try:
            self._ends = np.load(folder / ENDS, allow_pickle=False).astype(np.int64)
            size = self._path.stat().st_size
        except (OSError, ValueError, TypeError, EOFError) as error:
            raise dataset_unusable(f"{folder}: {error}") from error
        if not len(self) or self._ends[-1] != size or np.any(np.diff(self._ends, prepend=0) < 0):
            raise dataset_unusable(f"{self._path}: its {size} bytes are not those of {ENDS}")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Return an image as pixels (uint8), or as what a float model takes; raises RunnerFault."""
        start, end = int(self._ends[index - 1]) if index else 0, int(self._ends[index])
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                image = pixels_of(file.read(end - start))
            return typed(fitted(image, self._to), self._to, self._type)
        except (OSError, ValueError) as error:
            raise dataset_unusable(f"{self._path}, image {index}: {error}") from error
