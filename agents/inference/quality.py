"""Checks of a result: its delegate and its quality. Pure."""

from __future__ import annotations

from controller.contracts.manifests import QualityTarget
from controller.contracts.result import Result, Validity


def judged(result: Result, target: QualityTarget | None, own: float = 0.0) -> Result:
    """Make a result INVALID if its accuracy is known and below the target, with both numbers.

    own: the sweep's target, which replaces the task's; 0: none. Both are recorded.
    """
    if target is None:
        return result
    facts = {"quality_target": target.value} | ({"own_quality_target": own} if own else {})
    result = result.model_copy(update={"environment": {**result.environment, **facts}})
    wanted = own or target.value
    measured = result.metrics.get(target.metric)
    if measured is None or measured.value >= wanted:
        return result
    whose = "the sweep's own" if own else "the"
    return invalid(
        result,
        f"{target.metric} {measured.value:.4f} is below {whose} quality target {wanted:.4f}",
    )


def delegated(result: Result, wanted: str) -> Result:
    """Make a result INVALID if a delegate other than the requested one computed it.

    A runtime silently goes on without XNNPACK where it can't use it. With `auto`, the delegate is
    only recorded.
    """
    used = result.environment.get("delegate")
    if wanted in ("auto", used):
        return result
    return invalid(result, f"delegate {used} ran it, not {wanted}")


def invalid(result: Result, reason: str) -> Result:
    """Return a result with a further reason why it is INVALID."""
    update = {"validity": Validity.INVALID, "reasons": (*result.reasons, reason)}
    return result.model_copy(update=update)
