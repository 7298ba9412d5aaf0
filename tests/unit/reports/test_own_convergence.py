"""Epochs of the farm's own trainings: which count, what is said of the others, and their law."""

from __future__ import annotations

import math

import pytest

from controller.contracts.base import Scalar
from controller.contracts.manifests import Convergence, ConvergencePoint
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.reports.own_convergence import measured_convergence, own_notes, own_trainings
from controller.reports.training_plan import Asked, training_plan
from controller.reports.training_plan_table import curve_lines
from tests.unit.reports.test_training_plan import stored

CONVERGENCE = Convergence(
    source="a paper",
    samples=8,
    points=tuple(ConvergencePoint(batch=b, epochs=e) for b, e in ((2, 50), (4, 46))),
    knobs={"image_size": 800},
)
ASKED = Asked("detector", target=0.5)


def trained(
    batch: int,
    steps: int | None,
    validity: Validity = Validity.VALID,
    target: float = 0.5,
    **told: Scalar,
) -> StoredResult:
    """Return a training that took some steps to the target; None: it gave up."""
    every = 16 // batch
    knobs = {"target": target, "evaluate_every": every, **told}
    ran = stored(1.0, run=f"{batch}-{steps}", batch=batch, validity=validity, scenario="training")
    metrics = {"mAP": Measurement(value=0.6 if steps else 0.1, unit=Unit.FRACTION)}
    if steps:
        metrics["time_to_target"] = Measurement(value=steps * 0.5, unit=Unit.SECONDS)
    return ran.model_copy(
        update={
            "scenario": "training_quality",
            "metrics": metrics,
            "environment": {"steps_to_target": steps} if steps else {},
            "knobs": {**ran.knobs, **knobs},
        }
    )


SWEEP = (
    trained(1, 320),
    trained(2, 176, seed=0),
    trained(2, 192, seed=1),
    trained(4, 96),
    trained(8, 64),
)


def test_epochs_are_passes_over_the_samples() -> None:
    found = own_trainings(CONVERGENCE, SWEEP, ASKED)
    assert [(point.batch, point.epochs) for point in found.points] == [
        (1, 40),
        (2, 44),
        (2, 48),
        (4, 48),
        (8, 64),
    ]
    assert found.batches == (1, 2, 4, 8)
    assert found.every == 2
    assert (found.unreached, found.unlike, own_notes(found)) == ((), 0, [])


def test_their_law_takes_the_place_of_the_published_one() -> None:
    found = own_trainings(CONVERGENCE, SWEEP, ASKED)
    own = measured_convergence(CONVERGENCE, found, "epochs")
    plan = training_plan(own, [stored(2.0, batch=16)], ASKED)
    first, second = curve_lines(plan)
    assert "batch → epochs: 1 → 40, 2 → 44 48, 4 → 48, 8 → 64 (own trainings, sweep epochs" in first
    assert "scored every 2 epochs or more often; 8 samples)" in first
    assert 0 < plan.exponent < 0.5
    assert f"batch^{plan.exponent:.3g}" in second
    assert "(95 %: 0.065 to 0.35)" in second
    assert "of 5 points" in second
    (planned,) = plan.planned
    assert planned.epochs.low is not None
    assert any("extrapolated: trained are 1 to 8" in note for note in planned.notes)


def test_repeats_of_a_seed_are_one_training() -> None:
    """They begin with the same weights and see the same batches, so that they tell nothing new."""
    once = own_trainings(CONVERGENCE, SWEEP, ASKED)
    found = own_trainings(CONVERGENCE, SWEEP * 4, ASKED)
    assert found.points == once.points
    assert (once.merged, found.merged) == (0, 15)
    (note,) = own_notes(found)
    assert note == (
        "trainings of one batch and seed are one point, the mean of their logarithms: "
        "20 trainings are 5 points"
    )
    plans = [
        training_plan(measured_convergence(CONVERGENCE, each, "epochs"), [stored(2.0)], ASKED)
        for each in (once, found)
    ]
    assert plans[0] == plans[1], "the intervals, too"


def test_repeats_that_differ_are_their_mean_in_logarithms() -> None:
    """Sums in another order, as with another number of threads, take other steps."""
    found = own_trainings(CONVERGENCE, [trained(2, 100), trained(2, 400), trained(4, 50)], ASKED)
    assert [one.batch for one in found.points] == [2, 4]
    assert [one.epochs for one in found.points] == pytest.approx([50.0, 25.0])


def test_a_seed_that_a_cell_leaves_out_is_the_default() -> None:
    asked = Asked("detector", target=0.5, defaults={"torch": {"seed": 0}})
    runs = [trained(2, 100), trained(2, 100, seed=0), trained(2, 100, seed=1)]
    assert len(own_trainings(CONVERGENCE, runs, asked).points) == 2


@pytest.mark.parametrize("validity", [Validity.DISTURBED, Validity.INVALID])
def test_a_busy_machine_does_not_change_how_many_epochs_it_takes(validity: Validity) -> None:
    found = own_trainings(CONVERGENCE, [trained(2, 176, validity)], ASKED)
    assert [point.epochs for point in found.points] == [44]


def test_those_that_gave_up_are_said() -> None:
    gave_up = [trained(16, None, Validity.INVALID), trained(8, None, Validity.INVALID)]
    found = own_trainings(CONVERGENCE, [*SWEEP, *gave_up], ASKED)
    assert len(found.points) == len(SWEEP)
    (note,) = own_notes(found)
    assert note == (
        "2 trainings ended before the target, at batch 8, 16, and the law does not know them: "
        "too loud"
    )


def test_why_a_training_ended_before_the_target_is_said() -> None:
    lost = "the loss of timed step 3 of 3 is nan"
    ended = trained(8, None, Validity.INVALID).model_copy(update={"reasons": (lost, "more")})
    (note,) = own_notes(own_trainings(CONVERGENCE, [*SWEEP, ended], ASKED))
    assert note.endswith(f"at batch 8, and the law does not know them: {lost}")


@pytest.mark.parametrize(
    ("every", "known"),
    [
        (100, False),  # each reached it when it was looked at first: after an epoch or after 100
        (90, True),
        (2, True),
    ],
)
def test_epochs_are_known_to_the_last_look_that_missed(every: int, known: bool) -> None:
    """All alike to the epoch, so that the points about the law tell of no doubt at all."""
    of_look = [
        trained(batch, 100 * 8 // batch, seed=seed, evaluate_every=every * 8 // batch)
        for batch in (2, 4, 8)
        for seed in (0, 1)
    ]
    own = measured_convergence(CONVERGENCE, own_trainings(CONVERGENCE, of_look, ASKED), "epochs")
    plan = training_plan(own, [stored(2.0, batch=4)], ASKED)
    epochs = plan.planned[0].epochs
    assert epochs.value == pytest.approx(100)
    assert (epochs.high is not None) == known
    if epochs.high is not None:
        deviation = math.log(100 / (100 - every)) / math.sqrt(12)
        assert math.log(epochs.high / 100) == pytest.approx(2.776 * deviation * 1.08, rel=0.01)
    else:
        assert "6 points tell nothing of how far off it is" in curve_lines(plan)[1]


@pytest.mark.parametrize(
    ("other", "unlike"),
    [
        (trained(2, 10, target=0.1), 1),
        (trained(2, 10, image_size=64), 1),
        (trained(2, 10).model_copy(update={"environment": {}}), 1),
        (trained(2, 10).model_copy(update={"workload": "other"}), 0),
        (trained(2, 10).model_copy(update={"scenario": "training"}), 0),
        (trained(2, 10).model_copy(update={"counted": False}), 0),
    ],
    ids=["target", "recipe", "no fact", "workload", "scenario", "late"],
)
def test_others_do_not_count(other: StoredResult, unlike: int) -> None:
    found = own_trainings(CONVERGENCE, [*SWEEP, other], ASKED)
    assert len(found.points) == len(SWEEP)
    assert found.merged == 0
    assert found.unlike == unlike
    assert len(own_notes(found)) == unlike


def test_one_batch_is_no_law() -> None:
    found = own_trainings(CONVERGENCE, [trained(2, 176), trained(2, 192)], ASKED)
    assert found.batches == (2,)
    with pytest.raises(ValueError, match="two batches or more"):
        measured_convergence(CONVERGENCE, found, "epochs")
