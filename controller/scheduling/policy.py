"""When a failed run is worth another try. Pure."""

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


def should_retry(run: Run, failure: Failure, policy: RetryPolicy) -> bool:
    """Return whether a run whose attempt just failed goes back to the queue."""
    failures = sum(attempt.state is AttemptState.FAILED for attempt in run.attempts) + 1
    return failure.blame in RETRIED and failures < policy.max_failures
