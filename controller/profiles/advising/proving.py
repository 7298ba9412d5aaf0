"""Whether advice holds: predicted against realised seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controller.contracts.advice import Advice, Remedy
from controller.contracts.base import Scalar
from controller.contracts.proof import Prediction, Proof, Proven, Realised
from controller.contracts.result import Validity
from controller.stats.medians import Ratio

COUNTED_SHARE = 0.03
"""Predicted shares up to this are not counted: comparisons resolve about as much."""
ENOUGH = 0.5
"""Of the predicted seconds."""


def predictions_of(advice: Iterable[Advice]) -> list[Prediction]:
    """Return what the list predicts of each change, most first.

    Several rules may advise one change. No second is in two pieces of the list's advice, so their
    intervals are added, and their shares, of the step with its loading. A comparison shows what
    `predict_alone` predicts.
    """
    by_remedy: dict[Remedy, list[Advice]] = {}
    for one in advice:
        by_remedy.setdefault(one.remedy, []).append(one)
    found = [
        Prediction(
            remedy=remedy,
            rules=tuple(one.rule for one in same),
            low_s=sum(one.low_s for one in same),
            high_s=sum(one.high_s for one in same),
            share=sum(one.share for one in same),
        )
        for remedy, same in by_remedy.items()
    ]
    return sorted(found, key=lambda one: -one.predicted_s)


def why_not_provable(remedy: Remedy, knobs: Mapping[str, Scalar]) -> str:
    """Return why no comparison of a cell with these knobs shows a change; empty if one does."""
    if remedy.kind == "stack":
        return ""
    if remedy.kind == "setting":
        return "it is neither a knob nor a stack"
    if remedy.name not in knobs:
        return f"the profiled cell has no knob {remedy.name}"
    if knobs[remedy.name] == remedy.value:
        return f"the profiled cell has {remedy} already"
    return ""


def prove(
    prediction: Prediction,
    step_s: float,
    ratio: Ratio,
    validity: Validity,
    reasons: Sequence[str] = (),
    sweep_id: str | None = None,
) -> Proof:
    """Return a prediction against a comparison of the profiled cell (A) with the change (B).

    step_s: the profiled step. ratio: A's step time over B's. A comparison that is not VALID, or has
    no interval, shows what was measured and proves nothing.
    """
    realised = _realised(ratio, step_s)
    inside = at_least_half = None
    if validity is Validity.VALID and realised.low_s is not None and realised.high_s is not None:
        inside = realised.low_s <= prediction.predicted_s <= realised.high_s
        at_least_half = realised.seconds >= ENOUGH * prediction.predicted_s
    return Proof(
        prediction=prediction,
        sweep_id=sweep_id,
        validity=validity,
        reasons=tuple(reasons),
        realised=realised,
        inside=inside,
        at_least_half=at_least_half,
    )


def _realised(ratio: Ratio, step_s: float) -> Realised:
    share, low, high = _saved(ratio.value), None, None
    if ratio.interval is not None:
        low, high = map(_saved, ratio.interval)
    return Realised(
        seconds=share * step_s,
        low_s=None if low is None else low * step_s,
        high_s=None if high is None else high * step_s,
        share=share,
        share_low=low,
        share_high=high,
    )


def _saved(ratio: float) -> float:
    """Return the share of A's time that B saves, of A's time over B's."""
    return 1 - 1 / ratio


def proven(step_s: float, notes: Sequence[str], proofs: Sequence[Proof]) -> Proven:
    """Return proofs with the number of those that held."""
    counted = [one for one in proofs if counts(one)]
    return Proven(
        step_s=step_s,
        notes=tuple(notes),
        proofs=tuple(proofs),
        counted=len(counted),
        inside=sum(one.inside is True for one in counted),
        at_least_half=sum(one.at_least_half is True for one in counted),
    )


def counts(proof: Proof) -> bool:
    """Return whether a proof is counted."""
    return proof.inside is not None and proof.prediction.share > COUNTED_SHARE
