"""Advice by hand: a hostile name, two rules for one change, and what comparisons made of it."""

from __future__ import annotations

from controller.contracts.advice import Advice, Advised, Remedy, Rule
from controller.contracts.proof import Proof, Proven
from controller.contracts.result import Validity
from controller.profiles.advising.proving import predictions_of, prove, proven
from controller.stats.medians import Ratio
from tests.support.sweep_examples import HOSTILE

STEP_S = 0.5
FUSED = Remedy(kind="knob", name="fused_optimizer", value=True)
NORMS = Remedy(kind="knob", name="frozen_bn", value="fused")
MALLOC = Remedy(kind="knob", name="malloc", value="jemalloc")
WORDS = Remedy(kind="setting", value=f"unset {HOSTILE}")
STACK = Remedy(kind="stack", value="ipex")


def advised() -> Advised:
    """Return six pieces of advice for five changes of a step of 0.5 s."""
    pieces = (
        advice(Rule.OPTIMIZER, FUSED, 0.08, 0.12),
        advice(Rule.HIDDEN_ISA, WORDS, 0.0, 0.12, evidence=HOSTILE),
        advice(Rule.NORMS, NORMS, 0.02, 0.06),
        advice(Rule.RELU, NORMS, 0.01, 0.03),
        advice(Rule.MALLOC, MALLOC, 0.0, 0.03),
        advice(Rule.TINY, STACK, 0.0, 0.02),
    )
    notes = (f"the profile is DISTURBED: {HOSTILE}",)
    return Advised(per_step=True, whole_s=STEP_S, validity="DISTURBED", notes=notes, advice=pieces)


def advice(rule: Rule, remedy: Remedy, low_s: float, high_s: float, evidence: str = "") -> Advice:
    """Return a piece of advice for a step of 0.5 s."""
    told = evidence or f"seen by {rule}"
    share = (low_s + high_s) / 2 / STEP_S
    return Advice(rule=rule, evidence=told, remedy=remedy, low_s=low_s, high_s=high_s, share=share)


def proved() -> Proven:
    """Return proofs of all but the last: one as predicted, one not provable, one slower, one
    beside a load."""
    predictions = {one.remedy: one for one in predictions_of(advised().advice[:5])}
    loaded = Ratio(1.05, None), Validity.DISTURBED, (f"beside it ran {HOSTILE}",)
    proofs = [
        prove(predictions[FUSED], STEP_S, Ratio(1.25, (1.2, 1.3)), Validity.VALID),
        Proof(prediction=predictions[WORDS], not_provable="it is not a knob"),
        prove(predictions[NORMS], STEP_S, Ratio(0.8, (0.75, 0.85)), Validity.VALID),
        prove(predictions[MALLOC], STEP_S, *loaded),
    ]
    return proven(STEP_S, advised().notes, proofs)
