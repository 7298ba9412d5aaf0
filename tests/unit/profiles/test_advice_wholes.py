"""Advice: what predictions are shares of, and from which share on a change is advised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.contracts.advice import Advice, Rule
from controller.contracts.profile import ProfileSummary
from controller.profiles.advising.advise import advise, predict_alone
from controller.profiles.model import KernelRow, Place, Profile
from controller.reports.advice_lines import advice_lines
from tests.unit.profiles.test_advising import UNFUSED, Case, kernels, planted, repacked

LOAD_S = 0.3


def traced_on_threads(threads: int, traced_step_s: float | None) -> Profile:
    """Return a trace of steps of 0.1 s: a product on one thread, and ReLU on two others beside."""
    seconds = {"aten::mm": 0.1, "aten::relu": 0.18}
    rows = tuple(
        KernelRow(place=Place(op=name, kernel=name), calls=1, self_s=of, total_s=of)
        for name, of in seconds.items()
    )
    summary = ProfileSummary(steps=3, traced_step_s=traced_step_s, op_threads=threads)
    return Profile(summary, rows, ())


def test_of_ops_on_several_threads_the_whole_is_the_step_as_traced() -> None:
    """ReLU has 0.18 of the threads' 0.28 s, and so that share of a step of 0.1 s at most."""
    found = advise(traced_on_threads(3, 0.1))
    (relu,) = found.advice
    assert found.whole_s == 0.1
    assert (relu.low_s, relu.high_s) == pytest.approx((0.0, 0.1 * 0.18 / 0.28))
    saved = "predicted to save 32.14 ms of 100 ms a step, if all is done"
    assert saved in advice_lines(found, 3)


@pytest.mark.parametrize(
    ("threads", "traced_step_s"), [(1, 0.1), (3, None)], ids=["one thread", "nothing told"]
)
def test_without_several_threads_of_a_known_step_the_whole_is_all_parts(
    threads: int, traced_step_s: float | None
) -> None:
    """As the diff has it, a trace that marks no steps has time between its ops."""
    found = advise(traced_on_threads(threads, traced_step_s))
    assert found.whole_s == pytest.approx(0.28)
    assert [one.high_s for one in found.advice] == pytest.approx([0.18])


def norm_and_relu(norm_s: float, relu_s: float) -> Case:
    """Return a norm and the ReLU behind it, both of which `frozen_bn=fused` changes."""
    module = "backbone.body.layer2.0"
    norm = kernels("aten::mul", norm_s, module=f"{module}.bn1")
    return Case([*norm, *kernels("aten::relu", relu_s, module=module)], UNFUSED)


@pytest.mark.parametrize(
    ("norm_s", "relu_s", "rules"),
    [
        (0.009, 0.009, [Rule.NORMS, Rule.RELU]),
        (0.018, 0.0, [Rule.NORMS]),
        (0.012, 0.009, [Rule.NORMS, Rule.RELU]),
        (0.004, 0.004, []),
    ],
    ids=["half by each rule", "all by one", "one is enough", "too little by both"],
)
def test_a_hundredth_is_of_all_rules_that_advise_a_change(
    norm_s: float, relu_s: float, rules: list[Rule]
) -> None:
    """Of a step of 0.5 s, half of the time is predicted to be saved."""
    made = planted(norm_and_relu(norm_s, relu_s))
    assert [one.rule for one in advise(made).advice] == rules
    alone = {str(one.remedy): one.predicted_s for one in predict_alone(made)}
    together = {"frozen_bn=fused": (norm_s + relu_s) / 2} if rules else {}
    assert alone == pytest.approx(together)


def about_the_step(case: Case) -> list[Advice]:
    """Return all other advice than that on loading; shares are of the step with its loading."""
    found = [one for one in advise(planted(case)).advice if one.rule is not Rule.LOADING]
    return [one.model_copy(update={"share": 0.0}) for one in found]


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        (
            Case(repacked("src:ABcd8b8a dst:Acdb24a") * 6, {"ipex_optimize": True}),
            Rule.PACKED_WEIGHTS,
        ),
        (Case(kernels("aten::add", 0.07, calls=7000.0, module="m")), Rule.FRAGMENTATION),
    ],
    ids=["mostly packed weights", "fragmented"],
)
def test_loading_beside_the_step_changes_no_advice_about_the_step(case: Case, rule: Rule) -> None:
    alone = about_the_step(case)
    assert rule in [one.rule for one in alone]
    assert about_the_step(replace(case, load_s=LOAD_S)) == alone


def test_what_is_to_be_proven_is_a_share_of_the_step_without_its_loading() -> None:
    """As what is realised: a comparison has the time of steps."""
    made = planted(replace(norm_and_relu(0.05, 0.05), load_s=LOAD_S))
    (fused,) = (one for one in predict_alone(made) if one.remedy.name == "frozen_bn")
    assert made.summary.step_s
    assert fused.share == pytest.approx(fused.predicted_s / made.summary.step_s)
    found = advise(made)
    assert found.whole_s == pytest.approx(made.summary.step_s + LOAD_S)
    assert all(one.share == pytest.approx(one.predicted_s / found.whole_s) for one in found.advice)
