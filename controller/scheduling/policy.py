"""When a failed run is retried, and when a failing device is quarantined. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controller.contracts.result import Blame, Failure
from controller.contracts.run import AttemptState, Run

RETRIED = frozenset({Blame.DEVICE, Blame.HARNESS})
"""A failure with blame user or workload would only repeat."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a run may fail, and how often its agent may be lost during it."""

    max_failures: int = 3
    max_lost: int = 10


@dataclass(frozen=True, slots=True)
class QuarantinePolicy:
    """When a device is quarantined and when it is probed; times in seconds."""

    after: int = 3
    """Failures in a row with blame device."""
    probe_first_s: float = 600.0
    probe_longest_s: float = 4 * 3600.0

    def probe_in(self, probes: int) -> float:
        """Return the time until the next probe after `probes` probes; it doubles up to a
        maximum."""
        return min(self.probe_first_s * 2.0 ** min(probes, 60), self.probe_longest_s)


def should_retry(run: Run, failure: Failure, policy: RetryPolicy) -> bool:
    """Return whether a run whose attempt failed is queued again."""
    failures = sum(attempt.state is AttemptState.FAILED for attempt in run.recent) + 1
    return failure.blame in RETRIED and failures < policy.max_failures
