"""What a profile advises, in words. Pure."""

from __future__ import annotations

from controller.contracts.advice import Advice, Advised
from controller.contracts.proof import Prediction
from controller.reports.profile_tables import duration

PREDICTED_HEADINGS = ("predicted", "interval", "share")


def advice_lines(found: Advised, top: int) -> list[str]:
    """Return notes, then each piece of advice: what to change, what it saves, and why."""
    shown = found.advice[:top]
    return [
        *headlines(found),
        *(line for advice in shown for line in _lines(advice)),
        *([f"and {len(found.advice) - top} more"] if len(found.advice) > top else []),
    ]


def headlines(found: Advised) -> list[str]:
    """Return notes, and what all advice saves together."""
    per = "a step" if found.per_step else "in all"
    told = [f"note: {note}" for note in found.notes]
    whole = f"{duration(found.whole_s)} {per}"
    if not found.advice:
        return [*told, f"no advice: no rule finds anything in {whole}"]
    saved = duration(sum(advice.predicted_s for advice in found.advice))
    return [*told, f"predicted to save {saved} of {whole}, if all is done"]


def predicted_cells(predicted: Advice | Prediction) -> tuple[str, str, str]:
    """Return what is predicted to be saved under PREDICTED_HEADINGS, formatted."""
    interval = f"[{duration(predicted.low_s)}, {duration(predicted.high_s)}]"
    return duration(predicted.predicted_s), interval, f"{predicted.share:.1%}"


def _lines(advice: Advice) -> tuple[str, str]:
    saved, interval, share = predicted_cells(advice)
    return (
        f"−{saved} {interval}, {share}  {advice.rule}: {advice.remedy}",
        f"  {advice.evidence}",
    )
