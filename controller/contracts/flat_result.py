"""Results as plain values, for tables of very many: to validate a contract of each takes longer
than to read it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from controller.contracts.records import StoredResult


class FlatResult(NamedTuple):
    """What a table has of a result; its fields are those of StoredResult."""

    run_id: str
    sweep_id: str
    cell_key: str
    device: str
    device_name: str
    device_kind: str
    workload: str
    stack: str
    scenario: str
    validity: str
    repeat: int
    attempt: int
    virtual: bool
    counted: bool
    started_at: float
    """Seconds since the epoch."""
    reasons: Sequence[str]
    tags: Sequence[str]
    knobs: str
    """Canonical JSON."""
    environment: str
    """Canonical JSON."""
    metric: Sequence[str]
    """The names of its metrics; the next fields are by these names."""
    value: Sequence[float]
    unit: Sequence[str]
    samples: Sequence[str]
    """The raw samples of each: a JSON list of numbers, without spaces."""

    @classmethod
    def of(cls, result: StoredResult) -> FlatResult:
        """Return the plain values of a result."""
        # Late: pydantic, which a process that only reads columns does not load.
        from controller.contracts.base import canonical_json

        names = sorted(result.metrics)
        metrics = [result.metrics[name] for name in names]
        return cls(
            run_id=result.run_id,
            sweep_id=result.sweep_id,
            cell_key=result.cell_key,
            device=result.device,
            device_name=result.device_name,
            device_kind=result.device_kind.value,
            workload=result.workload,
            stack=result.stack,
            scenario=result.scenario,
            validity=result.validity.value,
            repeat=result.repeat,
            attempt=result.attempt,
            virtual=result.virtual,
            counted=result.counted,
            started_at=result.started_at,
            reasons=result.reasons,
            tags=result.tags,
            knobs=canonical_json(result.knobs),
            environment=canonical_json(result.environment),
            metric=names,
            value=[one.value for one in metrics],
            unit=[one.unit.value for one in metrics],
            samples=[canonical_json(one.samples) for one in metrics],
        )
