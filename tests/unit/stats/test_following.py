"""Gradients and losses of a training against another's: what is wrong is named, no more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from controller.stats.following import (
    APART,
    NUDGES,
    Curves,
    Dots,
    Limits,
    band,
    beside_nudged,
    gradient_objections,
    plain_objections,
    total,
)

LIMITS = Limits(scale=0.01, residual=0.05, loss=0.01, nudge=0.0)
EXACT = Limits(scale=1e-3, residual=0.01, loss=1e-3, nudge=0.0)
NO_SLACK = Limits(scale=0.0, residual=0.0, loss=0.0, nudge=0.0)
SIZE = 4096
RNG = np.random.default_rng(0)


def dots(scale: float = 1.0, noise: float = 0.0, size: int = SIZE) -> Dots:
    """Return what a random gradient and its scaled, noisy copy have in common."""
    mine = RNG.normal(size=size)
    other = scale * mine + noise * RNG.normal(size=size)
    return Dots(size, float(mine @ mine), float(mine @ other), float(other @ other))


@pytest.mark.parametrize(("scale", "noise"), [(1.0, 0.0), (0.97, 0.0), (1.2, 0.3)])
def test_scale_and_residual_are_those_of_the_copy(scale: float, noise: float) -> None:
    found = dots(scale, noise)
    assert found.scale == pytest.approx(scale, abs=5 * max(noise, 1e-12) / math.sqrt(SIZE))
    assert found.residual == pytest.approx(noise, rel=0.1, abs=1e-6)


def test_sums_over_batches_are_of_each_tensor() -> None:
    found = total([{"a": Dots(2, 1.0, 2.0, 4.0)}, {"a": Dots(2, 1.0, 0.0, 0.0), "b": dots()}])
    assert found["a"] == Dots(2, 2.0, 2.0, 4.0)
    assert found["a"].scale == 1.0
    assert set(found) == {"a", "b"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (dots(1.01), "in fp32, the gradient of bad is 1.01 times the plain model's; within 0.1%"),
        (dots(0.99), "the gradient of bad is 0.99 times"),
        (dots(-1.0), "the gradient of bad is -1 times"),
        (dots(math.inf), "the gradient of bad"),
        (dots(1.0, 0.1), "the gradient of bad differs from the plain model's by"),
        (Dots(SIZE, 1.0, 0.0, 0.0), "the gradient of bad is 0 times"),
        (Dots(SIZE, 0.0, 0.0, 1.0), "the gradient of bad is inf times"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_one_wrong_tensor_among_many_is_named(wrong: Dots, why: str) -> None:
    found = {f"good.{n}": dots(1.0, 1e-4) for n in range(20)} | {"bad": wrong}
    said = list(gradient_objections(found, {}, EXACT, "fp32"))
    assert said
    assert why in said[0]


def test_right_gradients_are_not_objected_to() -> None:
    found = {f"good.{n}": dots(1.0, 1e-3) for n in range(200)}
    zero = {"unused": Dots(SIZE, 0.0, 0.0, 0.0)}
    assert not list(gradient_objections({**found, **zero}, {}, EXACT, "fp32"))


def test_what_rounding_does_to_the_plain_model_is_allowed_twice() -> None:
    rounding = {"deep": dots(0.96, 0.15), "flat": dots(0.999, 0.01)}
    alike = {"deep": dots(0.93, 0.25), "flat": dots(1.005, 0.02)}
    assert not list(gradient_objections(alike, rounding, LIMITS, "bf16"))
    (said,) = gradient_objections({**alike, "flat": dots(0.93, 0.02)}, rounding, LIMITS, "bf16")
    assert said.startswith("in bf16, the gradient of flat is 0.9")
    (said,) = gradient_objections({**alike, "deep": dots(0.96, 0.6)}, rounding, LIMITS, "bf16")
    assert said.startswith("in bf16, the gradient of deep differs")


def test_without_gradients_nothing_was_compared() -> None:
    assert list(gradient_objections({}, {}, EXACT, "fp32")) == ["the plain model has no gradients"]


def test_the_band_widens_as_rounding_drives_trainings_apart() -> None:
    allowed = band([2.0, 1.0, 1.0], [[2.0, 1.1, 1.0]], LIMITS)
    assert allowed == pytest.approx([0.02, 0.01 + APART * 0.1, 0.01 + APART * 0.1])


def test_the_nudge_that_went_furthest_so_far_tells_how_wide_the_band_is() -> None:
    plain = [2.0, 2.0, 2.0, 2.0]
    nudged = [[2.0, 2.1, 2.0, 2.0], [2.0, 2.0, 1.7, 2.2], [2.0, 2.0, 2.0, 2.0]]
    drifts = [0.0, 0.1, 0.3, 0.3]
    assert band(plain, nudged, LIMITS) == pytest.approx([0.02 + APART * far for far in drifts])


def test_nudges_that_disagree_early_widen_nothing_before() -> None:
    plain = [2.0] * 4
    early = [[2.0, 2.5, 2.0, 2.0], [2.0, 1.5, 2.0, 2.0]]
    assert band(plain, early, LIMITS)[0] == pytest.approx(0.02)
    moved = Curves([2.1, 2.0, 2.0, 2.0], plain, band(plain, early, LIMITS))
    assert moved.left == 0


@pytest.mark.parametrize(("times", "left"), [(0.98, None), (1.02, 9)])
def test_a_training_may_drift_so_many_times_further_than_every_nudge(
    times: float, left: int | None
) -> None:
    plain = [2.0 - 0.05 * step for step in range(20)]
    nudged = [
        [loss + sign * far * 1e-3 * step for step, loss in enumerate(plain)]
        for far, sign in ((1.0, 1), (0.5, -1), (0.1, 1))
    ]
    late = [loss - times * APART * 1e-3 * step * (step > 8) for step, loss in enumerate(plain)]
    assert Curves(late, plain, band(plain, nudged, NO_SLACK)).left == left


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_nudged_loss_that_is_no_number_widens_nothing_and_is_objected_to(loss: float) -> None:
    plain, nudged = [2.0, 1.0, 1.0], [[2.0, 1.1, 1.0], [2.0, loss, loss]]
    assert band(plain, nudged, LIMITS) == band(plain, nudged[:1], LIMITS)
    (said,) = plain_objections(plain, nudged)
    assert said.startswith(
        f"the plain model's own loss of step 2 of 3 is {loss} in 1 of 3 trainings"
    )
    assert not list(plain_objections(plain, nudged[:1]))


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_plain_loss_that_is_no_number_leaves_nothing_to_follow(loss: float) -> None:
    plain = [2.0, loss, 1.0]
    curves = Curves([2.0, 1.0, 1.0], plain, band(plain, [[2.0, 1.0, 1.0]], LIMITS))
    assert list(plain_objections(plain, [[2.0, 1.0, 1.0]]))
    assert curves.used is None
    assert curves.apart == (0.0, 0.0)


def test_of_no_band_nothing_is_used_but_by_what_leaves_it() -> None:
    assert Curves([0.0], [0.0], [0.0]).used == 0.0
    outside = Curves([0.1], [0.0], [0.0])
    assert (outside.left, outside.used) == (0, None)


def drifted(trainings: int, steps: int, spread: float) -> list[list[float]]:
    """Return losses that drift at random, each step as far as rounding and the batch drive it.

    spread: standard deviation of the logarithm of how far.
    """
    rng = np.random.default_rng(1)
    far = rng.lognormal(-7, spread, (trainings, steps)) * rng.normal(size=(trainings, steps))
    found: list[list[float]] = (1.0 + far).tolist()
    return found


def test_more_nudges_are_taken_until_they_hold_the_losses() -> None:
    plain = [1.0, 1.0]
    nudged = iter([[1.0, 1.001], [1.0, 1.1], [1.0, 1.0]])
    curves, taken = beside_nudged([1.0, 1.2], plain, nudged, LIMITS)
    assert taken == [[1.0, 1.001], [1.0, 1.1]]
    assert curves.left is None
    assert next(nudged), "the third is not trained"


def test_of_losses_beyond_every_nudge_all_are_taken() -> None:
    nudged = [[1.0, 1.0 + 1e-3 * one] for one in range(NUDGES)]
    far = 1.02 * (LIMITS.loss + APART * 1e-3 * (NUDGES - 1))
    curves, taken = beside_nudged([1.0, 1.0 + far], [1.0, 1.0], nudged, LIMITS)
    assert len(taken) == NUDGES
    assert curves.left == 1
    assert curves.used == pytest.approx(1.02)


@pytest.mark.parametrize(
    ("losses", "nudge"),
    [([1.0, math.nan], [1.0, 1.0]), ([1.0, 2.0], [1.0, math.inf])],
)
def test_where_a_loss_is_no_number_no_further_nudge_is_trained(
    losses: list[float], nudge: list[float]
) -> None:
    curves, taken = beside_nudged(losses, [1.0, 1.0], [nudge, [1.0, 9.0]], LIMITS)
    assert taken == [nudge]
    assert curves.left == 1


def test_without_a_nudge_there_is_no_band() -> None:
    with pytest.raises(ValueError, match="no nudged training"):
        beside_nudged([1.0], [1.0], [], LIMITS)


def test_taking_nudges_one_by_one_decides_as_all_at_once() -> None:
    for losses, *nudged in zip(*[iter(drifted(600, 10, 1.5))] * 6, strict=True):
        plain = [1.0] * 10
        curves, _ = beside_nudged(losses, plain, nudged, NO_SLACK)
        all_at_once = Curves(losses, plain, band(plain, nudged, NO_SLACK))
        assert (curves.left is None) == (all_at_once.left is None)


@pytest.mark.parametrize(
    ("nudges", "spread", "least", "most"),
    [
        (1, 0.0, 0.10, 0.22),
        (NUDGES, 0.0, 0.0, 0.003),
        (1, 1.4, 0.2, 0.4),
        (NUDGES, 1.4, 0.0, 0.035),
    ],
)
def test_a_right_training_is_rarely_outside(
    nudges: int, spread: float, least: float, most: float
) -> None:
    """One step, which decides alone: more are held by what was seen at the steps before."""
    trials = 1500
    drawn = drifted(trials * (1 + nudges), 1, spread)
    groups = zip(*[iter(drawn)] * (1 + nudges), strict=True)
    left = [Curves(own, [1.0], band([1.0], rest, NO_SLACK)).left for own, *rest in groups]
    assert least <= left.count(0) / trials <= most


def test_a_training_leaves_the_band_at_a_step() -> None:
    plain, allowed = [2.0, 1.5, 1.0], [0.02, 0.02, 0.02]
    inside = Curves([2.01, 1.49, 1.0], plain, allowed)
    assert inside.left is None
    assert not inside.objections()
    assert inside.used == pytest.approx(0.5)
    outside = Curves([2.0, 1.53, 1.0], plain, allowed)
    assert outside.objections() == (
        "the loss of step 2 of 3 is 1.53, plain fp32's 1.5: they may be 0.02 apart",
    )


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_outside(loss: float) -> None:
    curves = Curves([2.0, loss, 1.0], [2.0, 1.5, 1.0], [0.1, 0.1, 0.1])
    assert curves.left == 1
    assert curves.used is None
    assert curves.apart == (0.0, 0.0)
