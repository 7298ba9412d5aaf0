"""Stored results for audits: an original, and what a try of an audit left."""

from __future__ import annotations

from collections.abc import Mapping

from controller.contracts.audit import AUDIT, AuditCheck
from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.units import Unit


def original_result(
    scenario: str = "single_stream", latency_s: float = 0.001, top1: float | None = None
) -> StoredResult:
    """Return a result whose answers take so long, each of them."""
    metrics = {
        "latency": Measurement(value=latency_s, unit=Unit.SECONDS),
        "latency_p90": Measurement(value=latency_s, unit=Unit.SECONDS),
        "throughput": Measurement(value=1 / latency_s, unit=Unit.SAMPLES_PER_SECOND),
    }
    if top1 is not None:
        metrics["top1"] = Measurement(value=top1, unit=Unit.FRACTION)
    return _stored("original", scenario, metrics, {}, {})


def try_result(
    check: AuditCheck,
    metrics: Mapping[str, Measurement],
    facts: Environment,
    scenario: str = "single_stream",
) -> StoredResult:
    """Return the result of an audit's run."""
    return _stored("try", scenario, metrics, facts, {AUDIT: str(check)})


def _stored(
    run_id: str,
    scenario: str,
    metrics: Mapping[str, Measurement],
    facts: Environment,
    knobs: Mapping[str, Scalar],
) -> StoredResult:
    return StoredResult(
        run_id=run_id,
        sweep_id="sweep",
        cell_key="cell",
        repeat=0,
        attempt=1,
        device="cpu-0",
        device_kind=DeviceKind.CPU_HOST,
        virtual=False,
        workload="resnet18",
        stack="torch",
        scenario=scenario,
        knobs=dict(knobs),
        started_at=0.0,
        counted=True,
        validity=Validity.INVALID if knobs else Validity.VALID,
        reasons=("audit",) if knobs else (),
        metrics=dict(metrics),
        environment=facts,
        artefacts={},
    )
