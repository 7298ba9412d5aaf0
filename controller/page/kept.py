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
    """A value, and when and in how many seconds it was made."""

    marker: Hashable
    at: float
    took_s: float
    value: Any

    def stands(self, now: float, marker: Hashable, longest_s: float, rest: float) -> bool:
        age_s = now - self.at
        return age_s < rest * self.took_s or (self.marker == marker and age_s < longest_s)


@dataclass(slots=True)
class _Making:
    """Held by the thread that makes a value, which others wait for."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    askers: int = 0
    """Threads that hold it or wait for it."""


class Kept:
    """Values by what they are of; each is made by one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
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
            known = self._values.get(of)
            begun = self._clock()
            if known and known.stands(begun, marker, longest_s, rest):
                return cast(Value, known.value)
            value = make()
            made_at = self._clock()
            with self._lock:
                self._values.pop(of, None)
                self._values[of] = _Made(marker, made_at, made_at - begun, value)
                while len(self._values) > self._most:
                    del self._values[next(iter(self._values))]
        return value

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
