"""Samples as arrays on disk: inputs, which are pushed, and their truths."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from controller.contracts.documents import load_json, read_limited
from models.mobile.decoding import ENDS, IMAGES
from models.mobile.errors import DatasetUnusable

INPUT: Final = "input_{}.npy"
"""File on the device: (n, …) for each input of the model; memory-mapped. Images that devices decode
are in IMAGES instead."""
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


def write_samples(
    samples: Samples,
    inputs: Path,
    truths: Path,
    count: int | None = None,
    published: Callable[[int], bytes] | None = None,
) -> str:
    """Write inputs and truths into two folders; return the checksum over both.

    published: gives each image's file, which is written in place of the inputs. Only one sample is
    held in memory at a time. Raises DatasetUnusable, OSError.
    """
    total = len(samples) if count is None else count
    digest = hashlib.sha256()
    inputs.mkdir(parents=True)
    truths.mkdir(parents=True)
    true_arrays, true_values = _Rows(truths, TRUTH_ARRAY, total), list[Truth]()
    rows = _Rows(inputs, INPUT, total)
    with ExitStack() as files:
        images = files.enter_context(_image_file(inputs)) if published else None
        for index in range(total):
            if published and images:
                images(content := published(index))
                digest.update(content)
            else:
                digest.update(rows.put(index, samples.inputs(index)))
            truth = samples.truth(index)
            if isinstance(truth, np.ndarray):
                digest.update(true_arrays.put(index, (truth,)))
            elif truth is not None:
                true_values.append(truth)
                digest.update(json.dumps(truth, sort_keys=True).encode())
    if true_values:
        (truths / TRUTH_JSON).write_text(json.dumps(true_values))
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


class _Rows:
    """Arrays in files with a row for each sample, made when the first comes; memory-mapped."""

    def __init__(self, folder: Path, name: str, rows: int) -> None:
        self._folder, self._name, self._rows = folder, name, rows
        self._arrays: list[NDArray[Any]] = []

    def put(self, row: int, parts: Arrays) -> bytes:
        """Write a row of each array; return its bytes.

        Raises DatasetUnusable if it doesn't fit, OSError if the disk has no room for all rows.
        """
        if not self._arrays:
            self._arrays = [self._made(number, part) for number, part in enumerate(parts)]
        for array, part in zip(self._arrays, parts, strict=True):
            if part.shape != array.shape[1:]:
                raise DatasetUnusable(
                    f"write sample {row}",
                    f"the first has shape {array.shape[1:]}, and this one {part.shape}",
                    "Give images of one size.",
                )
            array[row] = part
        return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)

    def _made(self, number: int, part: NDArray[Any]) -> NDArray[Any]:
        path = self._folder / self._name.format(number)
        shape = (self._rows, *part.shape)
        array = np.lib.format.open_memmap(path, mode="w+", dtype=part.dtype, shape=shape)
        _reserve(path)
        return array


def _reserve(path: Path) -> None:
    """Give a sparse file its place on disk, where that can be done; raises OSError if it is full.

    A write to a mapped page that a full disk can't hold ends the process by SIGBUS.
    """
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise


@contextmanager
def _image_file(folder: Path) -> Iterator[Callable[[bytes], None]]:
    """Yield the function that appends an image to IMAGES; write ENDS after the block."""
    ends: list[int] = []
    with (folder / IMAGES).open("wb") as file:

        def append(content: bytes) -> None:
            file.write(content)
            ends.append(file.tell())

        yield append
    table = io.BytesIO()  # numpy, writing to a file, does not say why it can't
    np.save(table, np.array(ends, np.uint64))
    (folder / ENDS).write_bytes(table.getvalue())
