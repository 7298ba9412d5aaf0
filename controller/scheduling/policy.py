"""When a failed run is worth another try, and a device that failed it one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controller.contracts.result import Blame, Failure
from controller.contracts.run import AttemptState, Run

RETRIED = frozenset({Blame.DEVICE, Blame.HARNESS})
"""A user's or a workload's fault comes back the same: no retry."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a run may fail, and how often its agent may be lost under it."""

    max_failures: int = 3
    max_lost: int = 10


@dataclass(frozen=True, slots=True)
class QuarantinePolicy:
    """When a device is quarantined, and when it is probed; times in seconds."""

    after: int = 3
    """So many failures in a row of its own blame."""
    probe_first_s: float = 600.0
    probe_longest_s: float = 4 * 3600.0

    def probe_in(self, probes: int) -> float:
        """Return the time to the next probe after so many; it doubles up to the longest."""
        return min(self.probe_first_s * 2.0 ** min(probes, 60), self.probe_longest_s)


def should_retry(run: Run, failure: Failure, policy: RetryPolicy) -> bool:
    """Return whether a run whose attempt just failed goes back to the queue."""
    failures = sum(attempt.state is AttemptState.FAILED for attempt in run.recent) + 1
    return failure.blame in RETRIED and failures < policy.max_failures
