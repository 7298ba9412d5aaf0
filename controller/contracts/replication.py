"""What came of measuring a run's cell again."""

from __future__ import annotations

from controller.contracts.base import Contract
from controller.contracts.result import Validity
from controller.contracts.suite_session import RuleVerdict
from controller.contracts.units import Unit


class ReplicaTry(Contract):
    """One try."""

    number: int
    """From 1."""
    sweep_id: str
    run_id: str | None = None
    state: str
    value: float | None = None
    deviation: float | None = None
    """From the original, as a fraction of it."""
    validity: Validity | None = None


class ReplicationSummary(Contract):
    """A run and its tries."""

    run_id: str
    session: str
    """The run and the number of the replication."""
    device: str
    workload: str
    scenario: str
    metric: str
    unit: Unit
    value: float
    """Of the original."""
    tries: tuple[ReplicaTry, ...]
    spreads: dict[str, float]
    """(largest - smallest) / smallest of the metric and of accuracies, the original included."""
    limit: float
    """The largest spread that replicates."""
    replicates: bool
    rules: tuple[RuleVerdict, ...]
