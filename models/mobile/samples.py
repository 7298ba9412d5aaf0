"""Samples as arrays on disk: inputs, which are pushed, and their truths."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from controller.contracts.documents import load_json, read_limited
from models.mobile.errors import DatasetUnusable

INPUT: Final = "input_{}.npy"
"""File on the device: (n, …) for each input of the model; memory-mapped."""
TRUTH_ARRAY: Final = "truth.npy"
TRUTH_JSON: Final = "truth.json"
MAX_TRUTH_BYTES: Final = 1 << 28

Arrays = tuple[NDArray[Any], ...]
Truth = Any
"""An array if the truth is an image, else a JSON value."""


class Samples(Protocol):
    """Samples of a loader or generator; equal at every call."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def inputs(self, index: int) -> Arrays:
        """Return one sample's inputs, without a batch dimension; raises DatasetUnusable.

        Images are pixels (uint8), which the device converts to its model's input type, or what the
        model takes (float32).
        """
        ...

    def truth(self, index: int) -> Truth | None:
        """Return a sample's true answer, or None if unknown; raises DatasetUnusable."""
        ...


def write_samples(samples: Samples, inputs: Path, truths: Path, count: int | None = None) -> str:
    """Write inputs and truths into two folders; return the checksum over both.

    Only one sample is held in memory at a time. Raises DatasetUnusable.
    """
    total = len(samples) if count is None else count
    digest = hashlib.sha256()
    inputs.mkdir(parents=True)
    truths.mkdir(parents=True)
    arrays: list[NDArray[Any]] = []
    known: list[Truth] = []
    for index in range(total):
        parts = samples.inputs(index)
        if not arrays:
            arrays = _open_all(inputs, parts, total)
        for array, part in zip(arrays, parts, strict=True):
            array[index] = part
            digest.update(np.ascontiguousarray(part).tobytes())
        truth = samples.truth(index)
        if truth is not None:
            known.append(truth)
            digest.update(_bytes_of(truth))
    for array in arrays:
        if isinstance(array, np.memmap):
            array.flush()
    if known:
        _write_truths(known, truths)
    return f"sha256:{digest.hexdigest()}"


def read_truths(folder: Path) -> Sequence[Truth] | None:
    """Return the truth of each sample, or None if unknown; images as a memory map.

    Raises DatasetUnusable.
    """
    try:
        if (folder / TRUTH_ARRAY).exists():
            images: Sequence[Truth] = np.load(folder / TRUTH_ARRAY, mmap_mode="r")
            return images
        if (folder / TRUTH_JSON).exists():
            said = read_limited(folder / TRUTH_JSON, MAX_TRUTH_BYTES)
            truths = load_json(said, MAX_TRUTH_BYTES)
            if not isinstance(truths, list):
                raise ValueError("it is not a list")
            return truths
    except (OSError, ValueError, EOFError) as error:
        seen, remedy = repr(error)[:200], "Delete the folder; the next run makes it again."
        raise DatasetUnusable(f"read the ground truth in {folder}", seen, remedy) from error
    return None


def _open_all(folder: Path, parts: Arrays, total: int) -> list[NDArray[Any]]:
    return [
        np.lib.format.open_memmap(
            folder / INPUT.format(number), mode="w+", dtype=part.dtype, shape=(total, *part.shape)
        )
        for number, part in enumerate(parts)
    ]


def _write_truths(truths: list[Truth], folder: Path) -> None:
    if isinstance(truths[0], np.ndarray):
        if len(sizes := {truth.shape for truth in truths}) > 1:
            seen, remedy = f"they have the shapes {sorted(sizes)}", "Give true images of one size."
            raise DatasetUnusable("write the ground truth", seen, remedy)
        np.save(folder / TRUTH_ARRAY, np.stack(truths))
    else:
        (folder / TRUTH_JSON).write_text(json.dumps(truths))


def _bytes_of(truth: Truth) -> bytes:
    if isinstance(truth, np.ndarray):
        return np.ascontiguousarray(truth).tobytes()
    return json.dumps(truth, sort_keys=True).encode()
