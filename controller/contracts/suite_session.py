"""What MLPerf Mobile asks of a session, which is all results of one submission together."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from controller.contracts.base import Contract, Name, Timestamp
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.result import Validity
from controller.contracts.suite_rules import FOLDER, UNVERIFIED
from controller.contracts.units import Unit

FILE: Final = FOLDER.parent / "suite_session.yaml"
NOT_VERIFIED: Final = "Result not verified by MLCommons Association."
"""The sentence that MLCommons' guidelines on messaging ask for with such results."""


MEETS: Final = "meets_run_rules"
"""The fact of a result that says whether it meets MLPerf's run rules."""


class SessionRules(Contract):
    """The rules of a session."""

    task_pause_s: tuple[NonNegativeFloat, PositiveFloat]
    """Least and longest pause between two tasks of a try."""
    try_pause_s: PositiveFloat
    """Least pause between two tries, and between two runs of one task."""
    tries: PositiveInt
    spread: Annotated[float, Field(gt=0, lt=1)]
    """Most that the results of a task's tries may differ, as a fraction of the smallest."""
    build: tuple[Name, ...]
    """Facts that all results have, with the same value."""
    framework: tuple[Name, ...]
    """Facts that have the same value in all results that have them."""


class Verdict(StrEnum):
    """Whether a session meets a rule."""

    MET = "met"
    OPEN = "open"
    """So far nothing breaks it, but runs are missing."""
    MISSED = "missed"


class RuleVerdict(Contract):
    """A rule of a session, whether it is met, and why not."""

    rule: str
    verdict: Verdict
    why: tuple[str, ...] = ()
    """What breaks it, or is missing; empty if it is met."""


class PartTry(Contract):
    """What one part of the suite measured in one try."""

    number: PositiveInt
    """Of the try, from 1."""
    sweep_id: str
    state: str
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    value: float | None = None
    """The metric that ranks the scenario."""
    accuracy: float | None = None
    validity: Validity | None = None


class PartSummary(Contract):
    """A task under a scenario, in all tries."""

    task: str
    workload: str
    scenario: str
    metric: str = ""
    unit: Unit | None = None
    accuracy_metric: str = ""
    accuracy_unit: Unit | None = None
    target_unknown: str = ""
    """Why its accuracy has no target; empty if it has one, or no result yet."""
    tries: tuple[PartTry, ...]
    spread: float | None = None
    """The larger of the spreads of metric and accuracy; None with fewer than two tries."""


class SessionSummary(Contract):
    """A session and which rules it meets."""

    session: str
    suite: str
    """Suite and version."""
    verification: str = UNVERIFIED
    note: str = NOT_VERIFIED
    device: str
    virtual: bool
    surrogates: bool
    """Whether any model is a surrogate."""
    tries: int
    """How many have begun."""
    is_running: bool
    meets_rules: bool
    parts: tuple[PartSummary, ...]
    rules: tuple[RuleVerdict, ...]


@cache
def session_rules(path: Path = FILE) -> SessionRules:
    """Return the rules of sessions."""
    return SessionRules.model_validate(load_yaml(read_limited(path)))
