"""A live profile's kernels, replayed again in turns with the primitives of a log. Pure.

A machine changes its speed within minutes. Only what runs at the same time can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import BinaryIO, Final

from controller.contracts.replay import KernelReplay, LogReplayed, Replayed
from controller.profiles.log_replays import MOST_TASKS, Planned, likeness
from controller.profiles.model import Profile
from controller.profiles.primitive import primitive_of
from controller.profiles.projecting import (
    projected,
    refused_told,
    replay_keys,
    replays_of,
    samples_of,
)
from controller.profiles.replay_arguments import NotReplayable, require_limits
from controller.profiles.replay_work import KNOWN, most_flops

_QUOTES: Final = frozenset("'\"\\")


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Kernels of a log, each followed by those of a live profile that do the same work."""

    tasks: tuple[KernelReplay, ...]
    are_live: tuple[bool, ...]
    """Of each task, whether it is the live profile's."""
    refused: tuple[Replayed, ...] = ()
    """Kernels of the live profile that are not run, and why."""

    def log_replays(self, done: LogReplayed) -> list[Replayed | None]:
        """Return the result of each task that is the log's; None in place of others."""
        return self._of(done, live=False)

    def live_replays(self, done: LogReplayed) -> list[Replayed | None]:
        """Return the result of each task that is the live profile's; None in place of others."""
        return self._of(done, live=True)

    def _of(self, done: LogReplayed, *, live: bool) -> list[Replayed | None]:
        each = zip(done.replayed, self.are_live, strict=True)
        return [one if is_live is live else None for one, is_live in each]


def interleaved(planned: Planned, live: Profile | None) -> Interleaved:
    """Return the kernels of a log in their order, with those of a live profile between them."""
    by_key: dict[str, list[str]] = {}
    for body, task in planned.tasks.items():
        by_key.setdefault(task.key, []).append(body)
    mine = {task.key: task for task in planned.tasks.values()}
    theirs, refused = _live_tasks(live) if live else ({}, ())
    alike = _keys_by_work(live, theirs) if live else {}
    tasks: list[tuple[KernelReplay, bool]] = []
    for key, task in mine.items():
        tasks.append((task, False))
        works = (likeness(one) for body in by_key[key] if (one := primitive_of(body)))
        keys = [its for work in works for its in alike.get(work, ())]
        tasks += [(theirs.pop(its), True) for its in dict.fromkeys(keys) if its in theirs]
    tasks += [(task, True) for task in theirs.values()]
    return Interleaved(
        tuple(task for task, _ in tasks), tuple(is_live for _, is_live in tasks), refused
    )


def replayed_again(live: Profile, both: Interleaved, done: LogReplayed, log: BinaryIO) -> Profile:
    """Return a live profile with the times that its kernels took now; its notes tell the refused.

    log: oneDNN's of all replays, from its beginning. A layer that was rebuilt, because its trace
    has no inputs, keeps the time of its own run.
    """
    log.seek(0)
    theirs = both.live_replays(done)
    found = projected(live, samples_of(log, theirs))
    pairs = zip(found.primitives, live.primitives, strict=True)
    rows = tuple(old if now.replay is None and not old.place.dims else now for now, old in pairs)
    again = replace(found, primitives=rows)
    kept_s = sum(row.seconds for row in rows if row.replay and not row.place.dims)
    refused = [*(one for one in theirs if one), *both.refused]
    notes = [f"again, {note}" for note in refused_told(again, refused)]
    if kept := kept_s / (sum(row.seconds for row in live.primitives) or 1.0):
        notes.append(f"{kept:.1%} of its time keeps the replays of its own run")
    return replace(again, summary=found.summary.model_copy(update={"notes": tuple(notes)}))


def _live_tasks(live: Profile) -> tuple[dict[str, KernelReplay], tuple[Replayed, ...]]:
    """Return the kernels that have primitives, which alone are compared."""
    compared = set(replay_keys(live))
    tasks: dict[str, KernelReplay] = {}
    refused = []
    for task in replays_of(live):
        if not isinstance(task, KernelReplay) or task.key not in compared:
            continue
        try:
            if len(tasks) >= MOST_TASKS:
                raise NotReplayable(f"{MOST_TASKS:,} others come before")
            tasks[task.key] = task.model_copy(update={"bytes": trusted_bytes(task)})
        except NotReplayable as why:
            refused.append(Replayed(key=task.key, refused=str(why)))
    return tasks, tuple(refused)


def trusted_bytes(task: KernelReplay) -> float:
    """Return the bytes of a kernel's tensors; raises NotReplayable.

    A profile in a folder may be another user's: it neither names files nor takes all memory or
    hours. Traces record numbers, no texts.
    """
    if task.kernel not in KNOWN:
        raise NotReplayable(f"{task.kernel[:80]!r} is no kernel of torch whose work is known")
    try:
        dims, strides, values = (
            json.loads(text or "[]") for text in (task.dims, task.strides, task.values)
        )
        if any(_QUOTES.intersection(str(value)) for value in values):
            raise NotReplayable("it is given a text")
        size = sum(_tensor_bytes(dims, strides))
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise NotReplayable("its sizes are not known") from error
    require_limits(size)
    work = most_flops(task.kernel, task.dims, task.values)
    if work is None:
        raise NotReplayable("its work is not known")
    require_limits(size, work)
    return size


def _tensor_bytes(
    dims: Sequence[Sequence[int]], strides: Sequence[Sequence[int]]
) -> Iterator[float]:
    """Yield the bytes of each tensor, all in fp32, at least with what lies between its elements.

    Raises NotReplayable, TypeError and ValueError.
    """
    for sizes, steps in zip(dims, strides, strict=True):
        numbers = [*_numbers(sizes), *_numbers(steps)]
        if min(numbers, default=0) < 0:
            raise NotReplayable("its sizes are not known")
        each = zip(_numbers(sizes), _numbers(steps), strict=False)
        reach = 1 + sum(max(0, n - 1) * step for n, step in each)
        yield 4.0 * max(reach, prod(_numbers(sizes)))


def _numbers(of: object) -> list[int]:
    """Return the sizes of a tensor, or of each tensor of a list."""
    if not isinstance(of, list):
        raise TypeError(of)
    flat = [n for one in of for n in (one if isinstance(one, list) else [one])]
    return [int(number) for number in flat]


def _keys_by_work(
    live: Profile, tasks: Mapping[str, KernelReplay]
) -> dict[tuple[str, ...], list[str]]:
    """Return which kernels of a live profile do some work, those with most time first."""
    found: dict[tuple[str, ...], list[str]] = {}
    keyed = zip(live.primitives, replay_keys(live), strict=True)
    for row, key in sorted(keyed, key=lambda each: -each[0].seconds):
        primitive = primitive_of(row.body)
        if primitive and key in tasks:
            found.setdefault(likeness(primitive), []).append(key)
    return found
