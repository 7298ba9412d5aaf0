"""What the store gives back to people: sweeps, results and failures, whole."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from pydantic import PlainSerializer

from controller.contracts.base import Contract, Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.pairs import Pair
from controller.contracts.result import Blame, Environment, Measurement, Validity
from controller.contracts.sweep import Sweep, Versus

Timestamp = Annotated[
    float,
    PlainSerializer(
        lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds"),
        return_type=str,
        when_used="json",
    ),
]
"""Seconds since the epoch; ISO 8601 in UTC when shown as JSON."""


class SweepRecord(Contract):
    """A submitted sweep."""

    sweep_id: str
    sweep: Sweep
    generation: int
    submitted_at: Timestamp


class OutcomeOrigin(Contract):
    """Where an outcome came from: what identifies it, apart from what it says."""

    run_id: str
    sweep_id: str
    cell_key: str
    repeat: int
    attempt: int
    device: str
    device_kind: DeviceKind
    virtual: bool
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    versus: Versus | None = None
    started_at: Timestamp
    counted: bool


class StoredResult(OutcomeOrigin):
    """A result with its origin; the format of `results list --json`, see docs/result-format.md."""

    validity: Validity
    reasons: tuple[str, ...]
    metrics: dict[str, Measurement]
    environment: Environment
    artefacts: dict[str, str]
    pairs: tuple[Pair, ...] = ()


class NewestResult(Contract):
    """What stays of a result that counts where only the newest of its kind matters: no samples."""

    device: str
    workload: str
    stack: str
    scenario: str
    precision: str | None
    """The number format, see `precision_of`."""
    validity: Validity
    recorded_at: float
    metrics: dict[str, Measurement]


PRECISION_KNOBS = ("precision", "numerics")
"""Knobs that name the number format: of stacks that train, and of model files."""


def precision_of(knobs: Mapping[str, Scalar]) -> str | None:
    """Return the number format a cell's knobs ask for, or None if no knob does."""
    return next((str(knobs[name]) for name in PRECISION_KNOBS if name in knobs), None)


class StoredFailure(OutcomeOrigin):
    """A failure with its origin; the format of `results list --failures --json`."""

    blame: Blame
    kind: str
    message: str
    output: str
    exit_code: int | None
    signal: int | None
