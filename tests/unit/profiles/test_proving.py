"""Predicted against realised: what a comparison proves, and which proofs are counted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from controller.contracts.advice import Advice, Remedy, Rule
from controller.contracts.proof import Prediction, Proof
from controller.contracts.result import Validity
from controller.profiles.advising.proving import (
    counts,
    predictions_of,
    prove,
    proven,
    why_not_provable,
)
from controller.reports.proof_lines import count_line, proof_lines
from controller.stats.medians import Ratio

STEP_S = 2.0
FUSED = Remedy(kind="knob", name="fused_optimizer", value=True)
NORMS = Remedy(kind="knob", name="frozen_bn", value="fused")
WORDS = Remedy(kind="setting", value="load batches beside the step")


def prediction(low_s: float, high_s: float, remedy: Remedy = FUSED) -> Prediction:
    share = (low_s + high_s) / 2 / STEP_S
    return Prediction(
        remedy=remedy, rules=(Rule.OPTIMIZER,), low_s=low_s, high_s=high_s, share=share
    )


def advice(rule: Rule, remedy: Remedy, low_s: float, high_s: float) -> Advice:
    share = (low_s + high_s) / 2 / STEP_S
    return Advice(rule=rule, evidence="", remedy=remedy, low_s=low_s, high_s=high_s, share=share)


@dataclass(frozen=True)
class Case:
    """A predicted interval, a ratio of A's time to B's, and what they come to."""

    predicted: tuple[float, float]
    ratio: float
    interval: tuple[float, float] | None
    inside: bool | None
    at_least_half: bool | None
    validity: Validity = Validity.VALID
    counted: bool = True


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case((0.8, 1.2), 2.0, (1.8, 2.2), True, True), id="as predicted"),
        pytest.param(Case((0.0, 1.0), 1.25, (1.2, 1.3), False, True), id="less than predicted"),
        pytest.param(Case((0.8, 1.2), 4.0, (3.9, 4.1), False, True), id="more than predicted"),
        pytest.param(Case((0.8, 1.2), 4 / 3, (1.3, 1.4), False, True), id="half, to the second"),
        pytest.param(Case((0.8, 1.2), 1.3, (1.2, 1.32), False, False), id="less than half"),
        pytest.param(Case((0.8, 1.2), 1.3, (0.9, 3.0), True, False), id="wide interval"),
        pytest.param(Case((0.8, 1.2), 0.8, (0.7, 0.9), False, False), id="slower"),
        pytest.param(
            Case((0.0, 0.12), 1.03, (1.02, 1.04), True, True, counted=False), id="3 % is too little"
        ),
        pytest.param(
            Case((0.8, 1.2), 2.0, None, None, None, counted=False), id="too few pairs for it"
        ),
        *(
            pytest.param(
                Case((0.8, 1.2), 2.0, (1.8, 2.2), None, None, validity, counted=False), id=validity
            )
            for validity in (Validity.DISTURBED, Validity.INVALID)
        ),
    ],
)
def test_what_a_comparison_proves(case: Case) -> None:
    proof = prove(
        prediction(*case.predicted), STEP_S, Ratio(case.ratio, case.interval), case.validity
    )
    assert (proof.inside, proof.at_least_half) == (case.inside, case.at_least_half)
    assert counts(proof) is case.counted
    found = proven(STEP_S, (), [proof])
    held = (case.counted, case.counted and case.inside, case.counted and case.at_least_half)
    assert (found.counted, found.inside, found.at_least_half) == held


def test_realised_seconds_are_those_of_the_profiled_step() -> None:
    """Half of the time at a ratio of 2; the bounds of the interval likewise."""
    found = prove(prediction(0.8, 1.2), STEP_S, Ratio(2.0, (1.25, 4.0)), Validity.VALID).realised
    assert found is not None
    assert (found.seconds, found.low_s, found.high_s) == pytest.approx((1.0, 0.4, 1.5))
    assert (found.share, found.share_low, found.share_high) == pytest.approx((0.5, 0.2, 0.75))


def test_rules_that_advise_one_change_predict_together() -> None:
    found = predictions_of(
        [
            advice(Rule.OPTIMIZER, FUSED, 0.2, 0.4),
            advice(Rule.NORMS, NORMS, 0.1, 0.3),
            advice(Rule.RELU, NORMS, 0.0, 0.4),
            advice(Rule.LOADING, WORDS, 0.0, 0.1),
        ]
    )
    assert [one.remedy for one in found] == [NORMS, FUSED, WORDS]
    assert found[0].rules == (Rule.NORMS, Rule.RELU)
    assert (found[0].low_s, found[0].high_s) == pytest.approx((0.1, 0.7))
    assert found[0].share == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("remedy", "reason"),
    [
        (FUSED, ""),
        (NORMS, "the profiled cell has no knob frozen_bn"),
        (WORDS, "it is neither a knob nor a stack"),
        (Remedy(kind="stack", value="ipex"), ""),
        (
            Remedy(kind="knob", name="threads", value=2),
            "the profiled cell has threads=2 already",
        ),
    ],
)
def test_what_a_comparison_can_show(remedy: Remedy, reason: str) -> None:
    assert why_not_provable(remedy, {"fused_optimizer": False, "threads": 2}) == reason


def test_proofs_in_words() -> None:
    proof = prove(prediction(0.8, 1.2), STEP_S, Ratio(0.8, (0.5, 1.25)), Validity.VALID)
    missed = "less than half of predicted; prediction outside the realised interval"
    assert proof_lines(proof) == [
        "fused_optimizer=true (optimizer)",
        "  predicted 1.000 s [800 ms, 1.200 s], 50.0%",
        "  realised -500 ms [-2.000 s, 400 ms], -25.0% [-100.0%, 20.0%], VALID: " + missed,
    ]
    ratio, why = Ratio(2.0, (1.8, 2.2)), ["a process took 31 % of a core"]
    disturbed = prove(prediction(0.8, 1.2), STEP_S, ratio, Validity.DISTURBED, why)
    assert proof_lines(disturbed)[2:] == [
        "  realised 1.000 s [888.9 ms, 1.091 s], 50.0% [44.4%, 54.5%], DISTURBED: no proof",
        "  DISTURBED: a process took 31 % of a core",
    ]
    in_words = Proof(prediction=prediction(0, 1, WORDS), not_provable="it is not a knob")
    assert proof_lines(in_words)[-1] == "  not provable here: it is not a knob"
    failed = Proof(prediction=prediction(0, 1), reasons=("xeon: workload: killed",))
    assert proof_lines(failed)[-1] == "  no proof: xeon: workload: killed"
    assert count_line(proven(STEP_S, (), [proof, disturbed, in_words, failed])) == (
        "of 1 VALID comparisons with a prediction above 3%: realised at least half of predicted: 0;"
        " prediction inside the realised interval: 0"
    )
