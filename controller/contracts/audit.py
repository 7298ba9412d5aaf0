"""Audits of a result: which cells are one, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from controller.contracts.base import Contract, Scalar

AUDIT: Final = "audit"
"""The knob of LoadGen's scenarios, and the fact of a result, that says what its run is an audit of.
"""
NO_AUDIT: Final = "none"
LATENCY: Final = "audit_latency"
"""The metric with the times that an audit judges, in the order of its pattern."""
SCORED: Final = "audit_scored"
"""The fact with the number of samples that the accuracy of an audit is of."""


OWN_VALIDITY: Final = "audit_validity"
"""The fact with the validity that an audit's run would have if it were none."""


class AuditCheck(StrEnum):
    """A question of an audit: the value of the knob."""

    CACHE = "cache"
    """Whether samples that were answered before are answered faster."""
    COLD_START = "cold-start"
    """Whether the first answers of a process that has not warmed up are slower."""
    RANDOM_DATA = "random-data"
    """Whether random samples are answered as fast, and with what accuracy."""


def audit_of(knobs: Mapping[str, Scalar]) -> str | None:
    """Return what a cell's runs are an audit of; None if they are ordinary."""
    asked = knobs.get(AUDIT)
    return None if asked in (None, NO_AUDIT) else str(asked)


class AuditVerdict(StrEnum):
    """What an audit found."""

    PASSES = "passes"
    REFUSED = "refused"
    UNRESOLVED = "not resolved"
    """The interval contains the limit, or there is none."""
    UNCHECKED = "cannot be checked"


class AuditFinding(Contract):
    """One figure of an audit, and its verdict."""

    name: str
    verdict: AuditVerdict
    why: str
    """In words, with the figure and its limit."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval."""
    limit: float | None = None


class AuditTry(Contract):
    """One run of an audit."""

    number: int
    """From 1."""
    sweep_id: str
    run_id: str | None = None
    state: str
    answers: int = 0
    """Timed ones that were judged."""
    median_s: float | None = None
    why: str = ""
    """Why it has no result."""


class AuditSummary(Contract):
    """A run, and what an audit of it found."""

    run_id: str
    session: str
    check: AuditCheck
    device: str
    workload: str
    scenario: str
    tries: tuple[AuditTry, ...]
    findings: tuple[AuditFinding, ...]
    passes: bool
    """Whether nothing was refused or left unresolved, and something could be checked."""
