"""The inputs of a data set: one `.npy` file for each input of the model, memory-mapped; images that
are decoded here: see images.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.faults import dataset_unusable


class Input(Protocol):
    """One input of all samples, such as an array (n, …).

    Images are pixels (uint8), or what a float model takes.
    """

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def __getitem__(self, index: int, /) -> NDArray[Any]:
        """Return a sample's; called while LoadGen loads samples, before its clock."""
        ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """Inputs without the true answers, which are not on the device."""

    inputs: Sequence[Input]
    """For each input of the model."""
    most: int = 0
    """Of the samples only so many are used, the first ones; 0: all."""

    def __len__(self) -> int:
        count = len(self.inputs[0])
        return min(count, self.most or count)

    def __getitem__(self, index: int) -> tuple[NDArray[Any], ...]:
        return tuple(_in_memory(one[index]) for one in self.inputs)

    def first(self, count: int) -> Dataset:
        """Return only the first samples; all for a count of 0."""
        return Dataset(self.inputs, count)

    @staticmethod
    def read(folder: Path) -> Dataset:
        """Open a folder's `input_0.npy`, `input_1.npy` …; raises RunnerFault `dataset_unusable`."""
        try:
            paths = sorted(folder.glob("input_*.npy"), key=lambda path: int(path.stem[6:]))
            inputs = [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]
        except (OSError, ValueError, TypeError, EOFError) as error:
            raise dataset_unusable(f"{folder}: {error}") from error
        if not inputs:
            raise dataset_unusable(f"{folder}: it has no input_0.npy")
        if len({len(array) for array in inputs}) != 1 or not len(inputs[0]):
            counts = ", ".join(str(len(array)) for array in inputs)
            raise dataset_unusable(f"{folder}: its inputs have {counts} samples")
        return Dataset(inputs)


def _in_memory(sample: NDArray[Any]) -> NDArray[Any]:
    """Read a sample of a memory-mapped file, which would otherwise be read inside the clock."""
    return np.array(sample) if isinstance(sample, np.memmap) else sample
