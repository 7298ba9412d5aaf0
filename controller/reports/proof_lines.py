"""What advice predicted and realised, in words. Pure."""

from __future__ import annotations

from collections.abc import Callable

from controller.contracts.proof import Prediction, Proof, Proven, Realised
from controller.profiles.advising.proving import COUNTED_SHARE
from controller.reports.advice_lines import predicted_cells
from controller.reports.profile_tables import duration

REALISED_HEADINGS = ("realised", "95 % interval", "realised share")


def proof_lines(proof: Proof) -> list[str]:
    """Return the change, what it was predicted to save, and what it saved."""
    prediction = proof.prediction
    rules = ", ".join(prediction.rules)
    realised = f"realised {_realised(proof.realised)}, " if proof.realised else ""
    verdict, *reasons = verdict_lines(proof)
    return [
        f"{prediction.remedy} ({rules})",
        f"  predicted {predicted_text(prediction)}",
        f"  {realised}{verdict}",
        *(f"  {reason}" for reason in reasons),
    ]


def verdict_lines(proof: Proof) -> list[str]:
    """Return whether the prediction held, or why that is not known, and why it is not VALID."""
    if proof.not_provable:
        return [f"not provable here: {proof.not_provable}"]
    if proof.realised is None:
        return [f"no proof: {reason}" for reason in proof.reasons] or ["no proof"]
    reasons = (f"{proof.validity}: {reason}" for reason in proof.reasons)
    return [f"{proof.validity}: {_verdict(proof)}", *reasons]


def realised_cells(realised: Realised | None) -> tuple[str, ...]:
    """Return what was saved under REALISED_HEADINGS, formatted; dashes if nothing was compared."""
    if realised is None:
        return ("–",) * len(REALISED_HEADINGS)
    interval = _interval(realised.low_s, realised.high_s, _signed).strip() or "–"
    return _signed(realised.seconds), interval, f"{realised.share:.1%}"


def count_line(found: Proven) -> str:
    """Return how many of the counted predictions held."""
    return (
        f"of {found.counted} VALID comparisons with a prediction above {COUNTED_SHARE:.0%}: "
        f"realised at least half of predicted: {found.at_least_half}; "
        f"prediction inside the realised interval: {found.inside}"
    )


def predicted_text(prediction: Prediction) -> str:
    """Return what a change is predicted to save, with its interval and share."""
    saved, interval, share = predicted_cells(prediction)
    return f"{saved} {interval}, {share}"


def _realised(realised: Realised) -> str:
    told = f"{_signed(realised.seconds)}{_interval(realised.low_s, realised.high_s, _signed)}"
    share = _interval(realised.share_low, realised.share_high, "{:.1%}".format)
    return f"{told}, {realised.share:.1%}{share}"


def _interval(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    return "" if low is None or high is None else f" [{text(low)}, {text(high)}]"


def _signed(seconds: float) -> str:
    return f"-{duration(-seconds)}" if seconds < 0 else duration(seconds)


def _verdict(proof: Proof) -> str:
    if proof.inside is None:
        return "no proof"
    half = "at least half" if proof.at_least_half else "less than half"
    where = "inside" if proof.inside else "outside"
    return f"{half} of predicted; prediction {where} the realised interval"
