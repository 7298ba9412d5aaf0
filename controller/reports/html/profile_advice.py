"""What a profile advises as an HTML page, beside what comparisons realised of it."""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.advice import Advice, Advised
from controller.contracts.profile import ProfileSummary
from controller.contracts.proof import Prediction, Proof, Proven
from controller.contracts.result import Validity
from controller.contracts.units import Unit
from controller.profiles.advising.proving import predictions_of
from controller.reports.advice_lines import PREDICTED_HEADINGS, headlines, predicted_cells
from controller.reports.html.charts import Chart, Point, axis_for, bars_chart
from controller.reports.html.found import FoundTable, found_html
from controller.reports.profile_origin import identity_lines
from controller.reports.proof_lines import (
    REALISED_HEADINGS,
    count_line,
    predicted_text,
    realised_cells,
    verdict_lines,
)

WORDS = ("rule", "evidence", "proof")
"""Headings of cells that are no numbers."""
UNPROVED = "Nothing is proved: `benchfarm profile advise --prove` compares each knob."


def profile_advice_html(
    summary: ProfileSummary, found: Advised, title: str, proven: Proven | None = None
) -> str:
    """Return all advice of a profile as one self-contained HTML file.

    proven: the proofs of some of it; None if none was to be proved.
    """
    per = "Seconds of a step." if found.per_step else "Seconds in all."
    lines = [
        f"The profile is {found.validity}.",
        *identity_lines(summary),
        *headlines(found),
        *([count_line(proven)] if proven else [UNPROVED] if found.advice else []),
    ]
    description = f"{per} {_bounds(proven)}"
    return found_html(title, description, lines, [*_charts(found, proven)], [_table(found, proven)])


def _bounds(proven: Proven | None) -> str:
    realised = " Intervals of what was realised are 95 % intervals." if proven else ""
    return f"Predicted intervals go from the least to the most that a change can save.{realised}"


def _table(found: Advised, proven: Proven | None) -> FoundTable:
    rows = [
        (
            *(str(advice.remedy), advice.rule, advice.evidence, *predicted_cells(advice)),
            *(_proof_cells(advice, proven) if proven else ()),
        )
        for advice in found.advice
    ]
    compared = (*REALISED_HEADINGS, "proof") if proven else ()
    headings = ("change", "rule", "evidence", *PREDICTED_HEADINGS, *compared)
    return FoundTable("Advice", headings, rows, WORDS)


def _proof_cells(advice: Advice, proven: Proven) -> tuple[str, ...]:
    proof = _proof_of(advice, proven)
    if proof is None:
        return (*realised_cells(None), "not compared: others are predicted to save more")
    told = "; ".join([*_alone(advice, proof), *verdict_lines(proof)])
    return (*realised_cells(proof.realised), told)


def _proof_of(advice: Advice, proven: Proven) -> Proof | None:
    return next((one for one in proven.proofs if one.prediction.remedy == advice.remedy), None)


def _alone(advice: Advice, proof: Proof) -> Iterator[str]:
    """Yield what was to be proved, if the list has other seconds, or its share is another: of the
    step with loading beside it."""
    prediction = proof.prediction
    if predicted_cells(prediction) != predicted_cells(advice):
        rules = ", ".join(prediction.rules)
        yield f"predicted of this change alone, by {rules}: {predicted_text(prediction)}"


def _charts(found: Advised, proven: Proven | None) -> Iterator[Chart]:
    """Yield the chart of all changes, if there are any."""
    proofs = {proof.prediction.remedy: proof for proof in proven.proofs} if proven else {}
    predictions = [
        proofs[listed.remedy].prediction if listed.remedy in proofs else listed
        for listed in predictions_of(found.advice)
    ]
    bars = [
        bar
        for prediction in sorted(predictions, key=lambda one: -one.predicted_s)
        for bar in _bars(prediction, proofs.get(prediction.remedy))
    ]
    if not bars:
        return
    axis = axis_for("saved", Unit.SECONDS, [abs(bar.value) for bar in bars])
    caption = "Predicted to be saved by each change, with its interval"
    if proven:
        caption += (
            ", alone if it was to be proved; below it, what a comparison realised, with its 95 % "
            "interval"
        )
    yield bars_chart("savings", "Savings", f"{caption}.", bars, axis)


def _bars(prediction: Prediction, proof: Proof | None) -> Iterator[Point]:
    interval = prediction.low_s, prediction.high_s
    name = _name(prediction)
    yield Point(name, prediction.predicted_s, interval, "plain", "predicted interval")
    if proof and (realised := proof.realised):
        low, high = realised.low_s, realised.high_s
        known = None if low is None or high is None else (low, high)
        valid = proof.validity is Validity.VALID
        said = "realised" if valid else f"realised, {proof.validity}"
        yield Point(said, realised.seconds, known, "best" if valid else "reference")


def _name(prediction: Prediction) -> str:
    """Return a change in a few words; what to do may be a sentence, so then its rules name it."""
    remedy, rules = prediction.remedy, ", ".join(prediction.rules)
    return rules if remedy.kind == "setting" else f"{rules}: {remedy}"
