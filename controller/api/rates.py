"""Limits on the rate of requests: a bucket for each caller, which time fills again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MOST_BUCKETS: Final = 4096
"""Callers that are remembered; the one that called least recently is forgotten first."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit: so many requests at once, and so many more each second."""

    per_s: float
    burst: int


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class RateLimit:
    """The buckets of all callers under one rate. The clock gives seconds and never steps back."""

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, caller: str) -> float:
        """Return after how many seconds a caller may make a request; 0 for now."""
        bucket = self._filled(caller)
        return 0.0 if bucket.left >= 1 else (1 - bucket.left) / self._rate.per_s

    def take(self, caller: str) -> float:
        """Count a request if it may be made; return as `wait_s` does."""
        wait_s = self.wait_s(caller)
        if not wait_s:
            self._buckets[caller].left -= 1
        return wait_s

    def _filled(self, caller: str) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.setdefault(caller, _Bucket(self._rate.burst, now))
        bucket.left = min(self._rate.burst, bucket.left + (now - bucket.at) * self._rate.per_s)
        bucket.at = now
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket
