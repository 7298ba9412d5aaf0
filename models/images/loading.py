"""Batches of images from disk, in this process or by workers that load ahead.

A batch is a function of its step and the settings: the order of an epoch and which images are
mirrored come from the seed, whoever loads them.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Environment, Failure
from models.images.cache import images_of
from models.images.decoders import decoder
from models.images.errors import DataUnusable, unusable
from models.images.folder import KNOB, ImageSet
from models.images.transforms import mirrored, resized, resized_boxes, scaled
from models.retinanet.data import DetectionBatch, DetectionTarget

Loaded: TypeAlias = DetectionBatch | DataUnusable
MIRRORED_SHARE: Final = 0.5
"""As in MLCommons' reference."""
TOO_SLOW: Final = "Use a faster disk, or set load_timeout higher."


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How batches are loaded."""

    image_size: int
    batch_size: int
    seed: int
    """Of the order and of mirroring."""
    decoder: str
    """One of `decoders.PACKAGES`."""
    workers: int
    """Processes that load; 0: the one that trains does."""
    prefetch: int
    """Batches that each worker loads ahead."""
    cache: str
    """See `cache.images_of`."""
    timeout_s: float
    """Longest time that reading a file, or waiting for a batch of the workers, may take."""
    look_s: float = 1.0
    """How often it is looked, while a batch is awaited, whether the workers live."""


class ImageBatches(Dataset[Loaded]):
    """The batches of a data set by step.

    Raises DataUnusable, and WorkerFault as `decoder`.
    """

    def __init__(
        self,
        source: ImageSet,
        settings: LoadSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source, self._settings, self._clock = source, settings, clock
        count = len(source.annotations.files)
        if settings.batch_size > count:
            why = f"batch_size={settings.batch_size} is more than its {count} images with boxes"
            raise unusable(source.source, "images", why, "Set batch_size lower.")
        self.epoch_steps = count // settings.batch_size
        self._decode = decoder(settings.decoder)
        self._images = images_of(
            source, settings.cache, settings.image_size, self._read, self._resized
        )
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def __getitem__(self, step: int) -> Loaded:
        """Return the batch of a step, or what is wrong with it: an error of a worker would lose
        its facts on the way."""
        try:
            return self._batch(step)
        except DataUnusable as error:
            return error

    def image(self, number: int) -> Tensor:
        """Return an image [3, S, S] as it is in a batch, not mirrored; raises DataUnusable."""
        size = self._settings.image_size
        found = torch.empty(3, size, size)
        scaled(self._images.image(number), found)
        return found

    def numbers(self, step: int) -> list[int]:
        """Return the images of a step: a part of an epoch's order; what fills no batch is left."""
        epoch, place = divmod(step, self.epoch_steps)
        if epoch != self._epoch:
            seed = self._settings.seed * 1_000_003 + epoch
            generator = torch.Generator().manual_seed(seed)
            count = len(self.source.annotations.files)
            self._epoch, self._order = epoch, torch.randperm(count, generator=generator)
        size = self._settings.batch_size
        return self._order[place * size : (place + 1) * size].tolist()

    def _batch(self, step: int) -> DetectionBatch:
        numbers = self.numbers(step)
        generator = torch.Generator().manual_seed(self._settings.seed * 1_000_003 + step)
        mirror = torch.rand(len(numbers), generator=generator) < MIRRORED_SHARE
        size = self._settings.image_size
        images = torch.empty(len(numbers), 3, size, size)
        if get_worker_info() is not None:
            images.share_memory_()  # type: ignore[no-untyped-call]  # or it would be copied there
        targets = [self._sample(*sample) for sample in zip(numbers, mirror, images, strict=True)]
        return DetectionBatch(images, tuple(targets))

    def _sample(self, number: int, mirror: Tensor, out: Tensor) -> DetectionTarget:
        """Write an image to `out` [3, S, S], in 0..1; return its target in pixels of it."""
        annotations, size = self.source.annotations, self._settings.image_size
        image = self._images.image(number)
        edges, labels = map(torch.from_numpy, annotations.of(number))
        width, height = map(int, annotations.sizes[number])
        boxes = resized_boxes(edges, width, height, size)
        if mirror:
            image, boxes = mirrored(image, boxes)
        scaled(image, out)
        return DetectionTarget(boxes, labels)

    def _read(self, number: int) -> bytes:
        path, began_s = self.source.path(number), self._clock()
        try:
            content = path.read_bytes()
        except OSError as error:
            why = f"{self._named(number, 'file_name')} names it: {error.strerror}"
            raise unusable(path, f"knob {KNOB}", why, "Get the data set again.") from error
        if (seconds := self._clock() - began_s) > self._settings.timeout_s:
            why = f"reading it took {seconds:.3g} s, more than {self._settings.timeout_s:g} s"
            raise unusable(path, "knob load_timeout", why, TOO_SLOW)
        return content

    def _resized(self, number: int, content: bytes) -> Tensor:
        path = self.source.path(number)
        try:
            pixels = self._decode(content)
        except ValueError as error:
            why = f"decoder {self._settings.decoder} can't read it: {error}"
            remedy = "Get the file again, or set another decoder."
            raise unusable(path, self._named(number, "file_name"), why, remedy) from error
        height, width = pixels.shape[:2]
        told = tuple(map(int, self.source.annotations.sizes[number]))
        if (width, height) != told:
            why = f"it says {told[0]}x{told[1]}, and the image is {width}x{height}"
            field = self._named(number, "width")
            raise unusable(path, field, why, "Get the data set again: they don't fit.")
        return resized(pixels, self._settings.image_size)

    def _named(self, number: int, field: str) -> str:
        place = self.source.annotations.places[number]
        return f"images[{place}].{field} of {self.source.source.name}"


class _StepsFrom(Sampler[int]):
    def __init__(self, first: int) -> None:
        self._first = first

    def __iter__(self) -> Iterator[int]:
        return itertools.count(self._first)


class ImageLoader:
    """Loads batches in the order of steps; another step than the next one begins anew there.

    The last batch is kept, so that a step may be asked for twice: stack ipex looks at the first one
    before it trains.
    """

    def __init__(self, batches: ImageBatches, settings: LoadSettings) -> None:
        self._batches, self._settings = batches, settings
        self._ahead: Iterator[Loaded] | None = None
        self._next = -1
        self._last: tuple[int, DetectionBatch] | None = None

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step; raises DataUnusable, WorkerFault."""
        if self._last is not None and self._last[0] == step:
            return self._last[1]
        self._last = None
        found = self._batches[step] if self._settings.workers == 0 else self._awaited(step)
        if isinstance(found, DataUnusable):
            raise found
        self._last = step, found
        return found

    @property
    def workers(self) -> int:
        """See Loader.workers."""
        return self._settings.workers

    @property
    def ahead(self) -> int:
        """See Loader.ahead."""
        return self._settings.workers * self._settings.prefetch

    def cpu_s(self) -> float:
        """Return the CPU seconds of the loading processes; those that have ended don't count."""
        return sum(_cpu_s(process.pid) for process in multiprocessing.active_children())

    def facts(self) -> Environment:
        """Return what was loaded."""
        return self._batches.source.facts()

    def close(self) -> None:
        """End the workers."""
        self._ahead, self._next, self._last = None, -1, None

    def _awaited(self, step: int) -> Loaded:
        if self._ahead is None or step != self._next:
            self.close()
            self._ahead = _begun(self._loader(step))
        self._next = step + 1
        latest_s = time.monotonic() + self._settings.timeout_s
        while True:
            try:
                return next(self._ahead)
            except (RuntimeError, OSError, EOFError) as error:  # torch has no kinds of the first
                if "timed out" not in str(error):
                    raise _ended(step, error) from error
                if time.monotonic() >= latest_s:
                    raise self._too_slow(step) from error

    def _loader(self, first: int) -> DataLoader[Loaded]:
        settings = self._settings
        return DataLoader(
            self._batches,
            batch_size=None,  # an item of the data set is a batch
            sampler=_StepsFrom(first),
            num_workers=settings.workers,
            prefetch_factor=settings.prefetch,
            timeout=min(settings.timeout_s, settings.look_s),
            collate_fn=_as_it_is,
            generator=torch.Generator(),  # the process's own random state stays
            multiprocessing_context="fork",  # they share caches and annotations
            worker_init_fn=partial(_run_on, _cores_of_all_threads()),
        )

    def _too_slow(self, step: int) -> DataUnusable:
        path = self._batches.source.path(self._batches.numbers(step)[0])
        why = (
            f"the batch of step {step}, which begins with it, was not loaded within "
            f"{self._settings.timeout_s:g} s"
        )
        return unusable(path, "knob load_timeout", why, TOO_SLOW)


def _begun(loader: DataLoader[Loaded]) -> Iterator[Loaded]:
    """Start the workers; keep this process's handler of SIGCHLD.

    torch's raises an error of its own wherever the main thread is when a worker ends, in the midst
    of a step, say. Whoever awaits a batch sees that a worker has ended.
    """
    kept = signal.getsignal(signal.SIGCHLD)
    ahead = iter(loader)
    if signal.getsignal(signal.SIGCHLD) is not kept:
        signal.signal(signal.SIGCHLD, kept)
    return ahead


def _cores_of_all_threads() -> frozenset[int]:
    """Return the cores that this process has, also if OpenMP has pinned each thread to one."""
    found = set[int]()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has just ended
            found |= os.sched_getaffinity(int(thread.name))
    return frozenset(found)


def _run_on(cores: frozenset[int], _worker: int) -> None:
    """Begin a worker: a fork inherits the one core to which OpenMP may have pinned its parent."""
    os.sched_setaffinity(0, cores)


def _as_it_is(loaded: Any) -> Any:  # noqa: ANN401 - a batch, or its error
    return loaded


def _ended(step: int, error: Exception) -> WorkerFault:
    """Return the failure of a loading process that has ended."""
    message = (
        f"cannot load the batch of step {step}: {' '.join(str(error).split())[:200]}. Set "
        "loader_workers lower, or give the host more memory, /dev/shm included."
    )
    return WorkerFault(Failure(blame=Blame.WORKLOAD, kind="loader_worker", message=message))


def _cpu_s(pid: int | None) -> float:
    """Return the CPU seconds of another process; 0 if it has ended."""
    if pid is None:
        return 0.0
    try:
        return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3)
    except OSError:
        return 0.0
