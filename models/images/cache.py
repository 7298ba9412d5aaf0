"""What is kept in memory of the images of a data set, by the knob `cache`."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from controller.platform.memory import available_bytes
from models.images.errors import unusable
from models.images.folder import ImageSet

MOST_SHARE = 0.5
"""Of the memory that is available."""
Read = Callable[[int], bytes]
"""Number of an image → content of its file."""
Resize = Callable[[int, bytes], Tensor]
"""Number and content → the resized image [3, S, S], 0..255."""


class Images(Protocol):
    """Resized images of a data set, for this process and those that it forks later."""

    def image(self, number: int) -> Tensor:
        """Return an image [3, S, S], 0..255; raises DataUnusable."""
        ...


class Uncached:
    """Reads, decodes and resizes an image each time."""

    def __init__(self, read: Read, resize: Resize) -> None:
        self._read, self._resize = read, resize

    def image(self, number: int) -> Tensor:
        """See Images.image."""
        return self._resize(number, self._read(number))


class CachedFiles:
    """Has read all files beforehand; decodes and resizes an image each time."""

    def __init__(self, source: ImageSet, read: Read, resize: Resize) -> None:
        count = len(source.annotations.files)
        sizes = [_size_of(source.path(number)) for number in range(count)]
        require_memory(source, "files", sum(sizes))
        self._contents = [read(number) for number in range(count)]
        self._resize = resize

    def image(self, number: int) -> Tensor:
        """See Images.image."""
        return self._resize(number, self._contents[number])


class CachedResized:
    """Keeps each resized image, rounded to 8 bits, once any process has made it.

    The memory is shared by processes that are forked later. Two that make one image at once write
    the same bytes; its mark is set after them.
    """

    def __init__(self, source: ImageSet, size: int, inner: Images) -> None:
        count = len(source.annotations.files)
        require_memory(source, "resized", count * 3 * size * size)
        self._inner = inner
        pixels = np.frombuffer(mmap.mmap(-1, count * 3 * size * size), np.uint8)
        self._pixels = torch.from_numpy(pixels.reshape(count, 3, size, size))
        self._made = mmap.mmap(-1, count)

    def image(self, number: int) -> Tensor:
        """See Images.image."""
        if not self._made[number]:
            self._pixels[number] = self._inner.image(number).round_().byte()
            self._made[number] = 1
        return self._pixels[number].float()


def images_of(source: ImageSet, cache: str, size: int, read: Read, resize: Resize) -> Images:
    """Return the images of a data set; cache: `none`, `files` or `resized`.

    Raises DataUnusable.
    """
    if cache == "files":
        return CachedFiles(source, read, resize)
    uncached = Uncached(read, resize)
    return CachedResized(source, size, uncached) if cache == "resized" else uncached


def require_memory(source: ImageSet, cache: str, needed: int) -> None:
    """Raise DataUnusable if a cache would take more than half of the available memory."""
    available = available_bytes()
    if needed > MOST_SHARE * available:
        gib = f"{needed / 2**30:.1f} of {available / 2**30:.1f} GiB that are available"
        why = f"{cache} would take {gib}"
        raise unusable(source.folder, "knob cache", why, "Set it to none, or give more memory.")


def _size_of(path: Path) -> int:
    """Return a file's bytes; 0 if it can't be told, as reading it will say why."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
