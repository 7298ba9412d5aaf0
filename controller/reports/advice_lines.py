"""What a profile advises, in words. Pure."""

from __future__ import annotations

from controller.contracts.advice import Advice, Advised
from controller.reports.profile_tables import duration


def advice_lines(found: Advised, top: int) -> list[str]:
    """Return notes, then each piece of advice: what to change, what it saves, and why."""
    per = "a step" if found.per_step else "in all"
    told = [f"note: {note}" for note in found.notes]
    if not found.advice:
        return [*told, f"no advice: no rule finds anything in {duration(found.whole_s)} {per}"]
    shown = found.advice[:top]
    saved = duration(sum(advice.predicted_s for advice in found.advice))
    return [
        *told,
        f"predicted to save {saved} of {duration(found.whole_s)} {per}, if all is done",
        *(line for advice in shown for line in _lines(advice)),
        *([f"and {len(found.advice) - top} more"] if len(found.advice) > top else []),
    ]


def _lines(advice: Advice) -> tuple[str, str]:
    interval = f"[{duration(advice.low_s)}, {duration(advice.high_s)}]"
    saved = f"−{duration(advice.predicted_s)} {interval}, {advice.share:.1%}"
    return (
        f"{saved}  {advice.rule}: {advice.remedy}",
        f"  {advice.evidence}",
    )
