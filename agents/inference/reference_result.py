"""A result beside its reference: the host's own accuracy, and how far the answers agree. Pure."""

from __future__ import annotations

from controller.contracts.mobile import LEAST_AGREEMENT
from controller.contracts.result import Environment, Measurement, Result
from models.mobile.preparation import Compared


def with_reference(result: Result, compared: Compared, by: str) -> Result:
    """Return a result with a reference's figures; says so if its answers differ too much.

    That makes no result INVALID: no rule of the suite asks for it.
    """
    metrics = {
        "reference_accuracy": compared.accuracy,
        "reference_difference": compared.difference,
        "reference_agreement": compared.agreement,
    }
    facts: Environment = {"reference": by, "reference_samples": compared.samples}
    if differs := difference(compared.agreement, compared.samples, by):
        facts["reference_differs"] = differs
    return _extended(result, facts, metrics)


def without_reference(result: Result, why: str) -> Result:
    """Return a result that says why it has no reference."""
    return _extended(result, {"reference_unknown": why}, {})


def difference(agreement: Measurement, samples: int, by: str) -> str | None:
    """Return how far answers are from a reference's, or None if they agree well enough."""
    if agreement.value >= LEAST_AGREEMENT:
        return None
    return (
        f"its answers to {samples} samples agree with those of {by} by {agreement.value:.2%}, "
        f"less than {LEAST_AGREEMENT:.0%}"
    )


def _extended(result: Result, facts: Environment, metrics: dict[str, Measurement]) -> Result:
    return result.model_copy(
        update={
            "environment": {**result.environment, **facts},
            "metrics": {**result.metrics, **metrics},
        }
    )
