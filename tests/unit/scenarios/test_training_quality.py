"""Training until a quality is reached: schedule, scenes, scoring, and what ends it."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from agents.backends.torch_eager.backend import TorchEager
from agents.scenarios.training_quality import judged, run, run_in_folder
from controller.contracts.base import Scalar
from controller.contracts.errors import SweepInvalid, WorkerFault
from controller.contracts.facts import undeclared
from controller.contracts.manifests import defaults_of
from controller.contracts.result import Result, Validity
from controller.contracts.sweep import Sweep
from controller.contracts.wire import Progress
from controller.scheduling.expansion import cells_of
from models.mobile.metrics import score
from models.retinanet.drawn_data import (
    COLOURS,
    MOST_CLASSES,
    MOST_OVERLAP,
    DrawnDetectionData,
    overlap,
)
from models.retinanet.frozen_norm import FrozenBatchNorm2d
from models.retinanet.overfit import RetinaNetOverfit
from models.retinanet.postprocess import detection_rows
from tests.support.cells import CATALOG
from tests.support.knobs import scenario_knobs, workload_arguments

SMALL: dict[str, Scalar] = {"images": 4, "batch_size": 2, "num_classes": 3}


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")


def overfit(**given: Scalar) -> RetinaNetOverfit:
    return RetinaNetOverfit(**workload_arguments("retinanet_overfit", **{**SMALL, **given}))


def trained(
    workload: Any,  # noqa: ANN401 - with a fault planted
    told: list[Progress] | None = None,
    **knobs: Scalar,
) -> Result:
    stack = defaults_of(CATALOG.stacks["torch"].knobs)
    said: list[Progress] = [] if told is None else told
    given = scenario_knobs("training_quality", **knobs)
    return run(workload, TorchEager(stack), {**stack, **given}, said.append)


def test_it_ends_at_the_first_evaluation_that_reaches_the_target() -> None:
    told: list[Progress] = []
    result = trained(overfit(), told, steps=4, evaluate_every=2, target=0)
    assert result.environment["steps_to_target"] == 2
    assert [one.done for one in told] == [2]
    times = result.metrics["step_time"].samples
    assert result.metrics["time_to_target"].value == pytest.approx(sum(times))
    assert len(times) == len(result.metrics["loss"].samples) == 2
    assert undeclared(result.environment, {}) == []


@pytest.mark.parametrize("frozen_bn", ["mul_add", "addcmul", "folded", "fused"])
def test_trained_weights_can_be_kept_and_begun_with(tmp_path: Path, frozen_bn: str) -> None:
    stack = defaults_of(CATALOG.stacks["torch"].knobs)
    given = scenario_knobs("training_quality", steps=1, evaluate_every=1, keep_weights=True)
    begun = overfit(frozen_bn=frozen_bn)
    result = run_in_folder(begun, TorchEager(stack), {**stack, **given}, lambda _: None, tmp_path)
    (path,) = tmp_path.iterdir()
    assert result.artefacts == {"weights": str(path)}
    tensors = torch.load(path, weights_only=True)["model"]
    again = overfit(weights=str(path), seed=5).build_model().state_dict()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in again.items())
    fresh = overfit().build_model().state_dict()
    learnt = [name for name, tensor in fresh.items() if not torch.equal(tensors[name], tensor)]
    parameters = dict(overfit().build_model().named_parameters())
    assert learnt, "a step changes weights"
    assert all(parameters[name].requires_grad for name in learnt)


def test_a_quality_that_is_not_reached_is_invalid_and_has_no_time() -> None:
    told: list[Progress] = []
    result = trained(overfit(), told, steps=3, evaluate_every=2, target=1)
    assert result.validity is Validity.INVALID
    assert [one.done for one in told] == [2, 3]
    reason = result.reasons[-1]
    assert reason.startswith("mAP is ")
    assert reason.endswith(" after 3 steps, below 1")
    assert "time_to_target" not in result.metrics
    assert "steps_to_target" not in result.environment


def test_a_model_that_learns_nothing_detects_nothing_and_is_invalid() -> None:
    workload: Any = overfit()
    workload.learning_rate = lambda step: 0.0
    result = trained(workload, steps=2, evaluate_every=1, target=0.001)
    assert result.validity is Validity.INVALID
    assert result.metrics["mAP"].value == 0
    assert result.reasons[-1] == "mAP is 0 after 2 steps, below 0.001"


def test_a_target_of_nothing_is_refused() -> None:
    keys = {"name": "x", "workload": "retinanet_overfit", "stack": "torch"}
    for target in (0, 1.01):
        knobs = {"scenario": "training_quality", "knobs": {"target": target}}
        with pytest.raises(SweepInvalid, match=r"target") as caught:
            cells_of(Sweep.model_validate({**keys, **knobs}), CATALOG)
        assert "\n" not in str(caught.value)


def test_a_quality_is_told_with_the_steps_that_it_was_measured_after() -> None:
    workload: Any = overfit()
    loss = workload.loss
    losses: list[float] = []

    def lost(outputs: Any, given: Any) -> Tensor:  # noqa: ANN401 - passed on
        losses.append(1.0 if len(losses) < 2 else math.nan)
        found: Tensor = loss(outputs, given)
        return found * losses[-1]

    workload.loss = lost
    result = trained(workload, steps=4, evaluate_every=2)
    assert result.reasons[0] == "the loss of timed step 3 of 4 is nan"
    assert result.reasons[-1] == "mAP is 0 after 2 steps, below 0.5"


def test_a_quality_just_below_the_target_is_not_told_as_the_target() -> None:
    given = Result(validity=Validity.VALID, reasons=(), metrics={}, environment={})
    found = judged(given, [(1.0, 1.0)], ("mAP", 0.49996, 0.5), 1)
    assert found.reasons == ("mAP is 0.49996 after 1 steps, below 0.5",)


def test_a_loss_that_is_not_finite_ends_it_with_its_step() -> None:
    workload: Any = overfit()
    loss = workload.loss
    workload.loss = lambda outputs, batch: loss(outputs, batch) * math.nan
    result = trained(workload, steps=4, evaluate_every=2)
    assert result.validity is Validity.INVALID
    assert result.reasons[0] == "the loss of timed step 1 of 2 is nan"


def test_several_ranks_and_batches_that_fill_no_epoch_are_the_user_s() -> None:
    with pytest.raises(WorkerFault, match=r"several ranks train it\. Set the knob ranks to 1\."):
        trained(None)
    with pytest.raises(WorkerFault, match="batch_size=3: 4 images are no multiple of it"):
        overfit(batch_size=3)


def test_the_learning_rate_warms_up_for_an_epoch_from_a_thousandth_and_is_used() -> None:
    workload = overfit(images=8)
    rates = [workload.learning_rate(step) for step in range(7)]
    assert workload.epoch_steps == 4
    assert rates == pytest.approx([1e-7, 0.25075e-4, 0.5005e-4, 0.75025e-4, 1e-4, 1e-4, 1e-4])

    seen: list[float] = []
    build = workload.build_optimizer

    def watched(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = build(model)
        optimizer.register_step_pre_hook(
            lambda used, _args, _kwargs: seen.append(used.param_groups[0]["lr"])
        )
        return optimizer

    workload.build_optimizer = watched  # type: ignore[method-assign]
    trained(workload, steps=3, evaluate_every=3, target=0)
    assert seen == rates[:3]


@pytest.mark.parametrize("seed", range(3))
def test_scenes_have_exact_boxes_every_class_and_little_overlap(seed: int) -> None:
    data = DrawnDetectionData(96, 32, 4, MOST_CLASSES, seed)
    assert {c for target in data.targets for c in target.labels.tolist()} == set(range(10))
    for image, target in zip(data.images, data.targets, strict=True):
        assert 0 <= image.min() < image.max() <= 1
        assert 1 <= len(target.boxes) <= 3
        assert bool((target.boxes[:, :2] < target.boxes[:, 2:]).all())
        assert 0 <= target.boxes.min() < target.boxes.max() <= 96
        pairs = torch.combinations(torch.arange(len(target.boxes)))
        assert all(overlap(target.boxes[a], target.boxes[b]) <= MOST_OVERLAP for a, b in pairs)


def test_an_epoch_has_every_scene_once_in_another_order() -> None:
    data = DrawnDetectionData(96, 8, 4, 3, seed=0)

    def order(epoch: int) -> list[int]:
        images = torch.cat([data.batch(epoch * 2 + place).images for place in range(2)])
        return [next(n for n, i in enumerate(data.images) if i.equal(image)) for image in images]

    assert sorted(order(0)) == sorted(order(1)) == list(range(8))
    assert order(0) != order(1)
    assert order(0) == order(0)


def test_a_drawn_object_fills_its_box_and_nothing_outside() -> None:
    data = DrawnDetectionData(96, 10, 10, MOST_CLASSES, seed=1)
    for image, target in zip(data.images, data.targets, strict=True):
        if len(target.boxes) > 1:
            continue
        colour = torch.tensor(COLOURS[int(target.labels[0])])[:, None, None]
        y, x = ((image - colour).abs().amax(0) == 0).nonzero().unbind(1)
        drawn = torch.tensor([x.min(), y.min(), x.max() + 1, y.max() + 1])
        # An ellipse's or triangle's tip is narrower than a pixel.
        torch.testing.assert_close(drawn.float(), target.boxes[0], rtol=0, atol=2)


def test_the_truth_itself_scores_1_and_other_classes_0() -> None:
    workload = overfit()
    scenes = workload._scenes.targets

    def mean_precision(shift: int) -> float:
        answers = {
            number: _rows(target.boxes, (target.labels + shift) % 3)
            for number, target in enumerate(scenes)
        }
        return score(workload.output, answers, workload.truths())["mAP"].value

    assert mean_precision(0) == 1
    assert mean_precision(1) < 0.2


def _rows(boxes: Tensor, labels: Tensor) -> bytes:
    return detection_rows(boxes, labels, torch.full((len(boxes),), 0.9)).numpy().tobytes()


@torch.no_grad()
def test_norms_have_the_scenes_own_statistics() -> None:
    workload = overfit()
    model = workload.build_model()
    seen: list[tuple[float, float]] = []
    for module in model.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.register_forward_hook(
                lambda _module, _inputs, y: seen.append((float(y.mean()), float(y.std())))
            )
    model(workload.samples(4))
    assert len(seen) == 53
    for mean, deviation in seen:
        assert mean == pytest.approx(0, abs=1e-3)
        assert deviation == pytest.approx(1, abs=0.05)


def test_knobs_are_its_arguments() -> None:
    knobs = CATALOG.workloads["retinanet_overfit"].knobs
    arguments = inspect.signature(RetinaNetOverfit).parameters
    assert knobs.keys() == arguments.keys()
    assert all(a.default is inspect.Parameter.empty for a in arguments.values())
