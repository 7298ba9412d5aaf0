"""What pages show of the store, kept until the store changes: many viewers cost one reading."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

Value = TypeVar("Value")
Marker = tuple[tuple[int, int, int] | None, ...]
MOST: Final = 200
"""Values that are kept; of more, the one that was made longest ago goes."""


def marker_of(store: Path) -> Marker:
    """Return what changes with every commit to a store's file: identity, size and time of it and
    of its write-ahead log."""
    return tuple(_seen(Path(f"{store}{ending}")) for ending in ("", "-wal"))


def _seen(file: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116 - one call for three numbers
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class _Made:
    """A value, when and in how many seconds it was made, and how long it stands."""

    marker: Hashable
    at: float
    took_s: float
    longest_s: float
    rest: float
    value: Any


@dataclass(slots=True)
class _Making:
    """Held by the thread that makes a value, which others wait for."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    askers: int = 0
    """Threads that hold it or wait for it."""


class Kept:
    """Values by what they are of; each is made by one thread at a time.

    shared_rest: whether each rests as many times longer as values are kept, so that all together
    take no greater share of a core than one alone would. What is cheap to make still rests briefly.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
        *,
        shared_rest: bool = False,
    ) -> None:
        self._clock = clock
        self._most = most
        self._shared_rest = shared_rest
        self._lock = threading.Lock()
        self._making: dict[Hashable, _Making] = {}
        self._values: dict[Hashable, _Made] = {}

    def get(
        self,
        of: Hashable,
        marker: Hashable,
        longest_s: float,
        make: Callable[[], Value],
        rest: float = 1.0,
    ) -> Value:
        """Return a value; it is made anew if the marker is another one, or after a time.

        make: raises what it wants, and then nothing is kept. rest: a value stands at least so many
        times as long as it took to make, so that what is costly takes a bounded share of a core.
        """
        with self._alone(of):
            begun = self._clock()
            known = self._standing(of, marker, begun)
            if known:
                return cast(Value, known.value)
            value = make()
            made_at = self._clock()
            with self._lock:
                self._values.pop(of, None)
                took_s = made_at - begun
                self._values[of] = _Made(marker, made_at, took_s, longest_s, rest, value)
                while len(self._values) > self._most:
                    del self._values[next(iter(self._values))]
        return value

    def _standing(self, of: Hashable, marker: Hashable, now: float) -> _Made | None:
        """Return the value that stands, if there is one; forget all that can't any more."""
        with self._lock:
            self._values = {
                key: one
                for key, one in self._values.items()
                if now - one.at < max(one.longest_s, self._rest_s(one))
            }
            known = self._values.get(of)
            if known and (known.marker == marker or now - known.at < self._rest_s(known)):
                return known
            return None

    def _rest_s(self, one: _Made) -> float:
        sharing = len(self._values) if self._shared_rest else 1
        return one.rest * one.took_s * sharing

    @contextmanager
    def _alone(self, of: Hashable) -> Iterator[None]:
        """Be the only thread that makes a value; nothing is left when nobody waits for it."""
        with self._lock:
            making = self._making.setdefault(of, _Making())
            making.askers += 1
        try:
            with making.lock:
                yield
        finally:
            with self._lock:
                making.askers -= 1
                if not making.askers:
                    del self._making[of]
