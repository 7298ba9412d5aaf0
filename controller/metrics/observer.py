"""Counters of the farm's events: each stored change of a run."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from controller.contracts.audit import audit_of
from controller.contracts.device import EMULATED
from controller.contracts.result import Blame, Failure, Result
from controller.contracts.run import Attempt, AttemptState, Run, RunChange, lasted_s
from controller.metrics import names
from controller.metrics.families import counter, histogram

Ending = tuple[str, str]
"""The values of names.RUNS' labels: outcome and blame."""

ENDINGS: tuple[Ending, ...] = (
    ("valid", names.BLAMELESS),
    ("disturbed", names.BLAMELESS),
    ("invalid", names.BLAMELESS),
    *(("failed", blame.value) for blame in Blame),
    ("lost", Blame.HARNESS.value),
    ("cancelled", names.BLAMELESS),
)
"""All combinations; each is exported from the start, so that its first increase is visible."""

TIMED = (AttemptState.SUCCEEDED, AttemptState.FAILED)
"""Ends of attempts whose durations are recorded, unless the device is emulated."""


class Observer:
    """Counters and histograms in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._runs = counter(names.RUNS, self.registry)
        self._dispatch = histogram(names.DISPATCH_SECONDS, self.registry)
        self._duration = histogram(names.RUN_SECONDS, self.registry)
        for ending in ENDINGS:
            self._runs.labels(*ending)

    def observe(self, before: Run, change: RunChange) -> None:
        """Count one change of a run; call it once, after the change was stored."""
        if (granted := granted_by(before, change)) is not None:
            self._dispatch.observe(max(0.0, granted.leased_at - before.waits_since))
        if (ended := ended_by(before, change)) is not None:
            self._runs.labels(*ending_of(ended, change)).inc()
            if ended.ended_at is not None and ended.state in TIMED and not _no_result(change):
                seconds = lasted_s(ended.leased_at, ended.ended_at, change.run.deadline_s)
                self._duration.labels(*_kind_of(change.run)).observe(
                    seconds, exemplar={"run_id": change.run.run_id}
                )

    def expect(self, open_runs: Iterable[Run]) -> None:
        """Export the durations of queued and leased runs' kinds, so that the first is visible.

        Call it at each scrape: Prometheus sees no increase in a series that begins above 0.
        """
        for kind in {_kind_of(run) for run in open_runs}:
            self._duration.labels(*kind)


def _kind_of(run: Run) -> tuple[str, str, str]:
    """Return the values of names.RUN_SECONDS' labels."""
    return run.cell.workload, run.cell.stack, run.cell.scenario


def _no_result(change: RunChange) -> bool:
    if audit_of(change.run.cell.knobs):
        return True
    outcome = change.record.outcome if change.record else None
    return isinstance(outcome, Result) and outcome.environment.get(EMULATED) is True


def granted_by(before: Run, change: RunChange) -> Attempt | None:
    """Return the attempt that a change began, or None."""
    return change.run.lease if before.lease is None else None


def ended_by(before: Run, change: RunChange) -> Attempt | None:
    """Return the attempt that a change ended, or None; a late report ends nothing."""
    if before.lease is None or change.run.lease is not None:
        return None
    return change.run.attempts[before.lease.number - 1]


def ending_of(attempt: Attempt, change: RunChange) -> Ending:
    """Return how an attempt ended."""
    if attempt.state is AttemptState.LOST:
        return "lost", Blame.HARNESS.value
    outcome = change.record.outcome if change.record else None
    if outcome is None:
        return "cancelled", names.BLAMELESS
    if isinstance(outcome, Failure):
        return "failed", outcome.blame.value
    return outcome.validity.value.lower(), names.BLAMELESS
