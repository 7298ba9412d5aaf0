"""Gradients and losses of a training against another's: what is wrong is named, no more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from controller.stats.following import (
    Curves,
    Dots,
    Limits,
    band,
    gradient_objections,
    total,
)

LIMITS = Limits(scale=0.01, residual=0.05, loss=0.01, nudge=0.0)
EXACT = Limits(scale=1e-3, residual=0.01, loss=1e-3, nudge=0.0)
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
    allowed = band([2.0, 1.0, 1.0], [2.0, 1.1, 1.0], LIMITS)
    assert allowed == pytest.approx([0.02, 0.41, 0.41])


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
