import inspect
from typing import Any

import pytest
import torch

from controller.contracts.catalog import load_catalog
from controller.contracts.errors import WorkerFault
from models.retinanet.data import DISTINCT_BATCHES, MAX_BOXES, DetectionBatch
from models.retinanet.head import HeadOutputs
from models.retinanet.implementations import retinanet_training
from models.retinanet.model import RetinaNet
from models.retinanet.workload import RetinaNetTraining
from models.training import TrainingWorkload
from tests.support.knobs import retinanet_arguments
from tests.support.workloads import losses_on_one_batch

Workload = TrainingWorkload[DetectionBatch, HeadOutputs]


def small(seed: int = 0) -> Workload:
    return RetinaNetTraining(
        **retinanet_arguments(image_size=64, batch_size=2, num_classes=4, seed=seed)
    )


def test_training_is_repeatable_and_lowers_the_loss() -> None:
    workload = small()
    losses = losses_on_one_batch(workload, workload.build_model(), steps=6)

    assert losses[-1] < 0.9 * losses[0]
    assert losses_on_one_batch(workload, workload.build_model(), steps=2) == losses[:2]


def test_weights_depend_on_the_seed_alone() -> None:
    first, again, other = (
        torch.nn.utils.parameters_to_vector(small(seed).build_model().parameters())
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_frozen_parameters_get_no_gradient_and_stay() -> None:
    workload = small()
    model = workload.build_model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    losses_on_one_batch(workload, model, steps=1)

    frozen = ("backbone.body.conv1.", "backbone.body.layer1.")
    for name, parameter in model.named_parameters():
        learns = not name.startswith(frozen)
        assert (parameter.grad is not None) == learns, name
        assert (not torch.equal(parameter, before[name])) == learns, name


def test_bf16_autocast_in_channels_last_narrows_every_activation() -> None:
    # Not 64 px: there P6 is one cell, and on an avx512_bf16 CPU oneDNN 3.12 left stray values
    # in the channels-last bf16 weight gradient of a padded stride-2 convolution over one cell.
    workload: Workload = RetinaNetTraining(
        **retinanet_arguments(image_size=96, batch_size=2, num_classes=4)
    )
    model = workload.build_model()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    seen: list[object] = []
    assert isinstance(model, RetinaNet)
    for module in model.backbone.modules():
        module.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    batch = workload.batch(0)
    expected = workload.loss(workload.forward(model, batch), batch)
    seen.clear()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = workload.forward(model, batch)
    loss = workload.loss(outputs, batch)
    torch.autograd.backward(loss)

    maps = [output for output in seen if isinstance(output, torch.Tensor)]
    assert len(maps) > 100
    assert {output.dtype for output in maps} == {torch.bfloat16}
    assert all(output.is_contiguous(memory_format=torch.channels_last) for output in maps)
    assert outputs.cls_logits.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0)  # 8 bits a logit
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


def test_building_leaves_the_global_random_state_alone() -> None:
    state = torch.random.get_rng_state()
    small().build_model()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_optimizer_is_adam_over_what_learns() -> None:
    workload = small()
    optimizer = workload.build_optimizer(workload.build_model())
    (group,) = optimizer.param_groups
    assert isinstance(optimizer, torch.optim.Adam)
    assert group["lr"] == 1e-4
    assert all(p.requires_grad for p in group["params"])


@pytest.mark.parametrize("seed", range(5))
def test_batches_are_valid(seed: int) -> None:
    workload = RetinaNetTraining(
        **retinanet_arguments(image_size=64, batch_size=3, num_classes=4, seed=seed)
    )
    for step in range(DISTINCT_BATCHES):
        batch = workload.batch(step)
        assert batch.images.shape == (3, 3, 64, 64)
        assert batch.images.dtype == torch.float32
        assert 0 <= batch.images.min() < batch.images.max() <= 1
        assert len(batch.targets) == workload.batch_size == 3
        for target in batch.targets:
            assert 1 <= len(target.boxes) == len(target.labels) <= MAX_BOXES
            assert (target.boxes[:, :2] < target.boxes[:, 2:]).all()
            assert 0 <= target.boxes.min() < target.boxes.max() <= 64
            assert 0 <= target.labels.min() <= target.labels.max() < 4


def test_batches_depend_on_seed_and_step_alone() -> None:
    first = small()
    images = [first.batch(step).images for step in range(DISTINCT_BATCHES)]
    assert all(torch.equal(image, small().batch(step).images) for step, image in enumerate(images))
    others = [*images[1:], small(seed=1).batch(0).images]
    assert not any(torch.equal(images[0], other) for other in others)
    assert first.batch(DISTINCT_BATCHES) is first.batch(0)


def test_the_implementation_is_chosen() -> None:
    sizes = retinanet_arguments(image_size=64, batch_size=2, num_classes=4)
    assert isinstance(retinanet_training("benchfarm", **sizes), RetinaNetTraining)
    with pytest.raises(WorkerFault, match=r"this stack has no torchvision\. Use stack ipex"):
        retinanet_training("torchvision", **sizes)


@pytest.mark.parametrize(
    "switch",
    [
        {},
        {"frozen_bn": "folded"},
        {"packed_levels": True},
        {"skip_frozen": False},
        {"pointwise": "matmul"},
        {"head_convolutions": "matmul"},
        {"head_convolutions": "winograd"},
    ],
)
def test_which_switches_change_the_model_or_its_loss(switch: dict[str, Any]) -> None:
    workload = RetinaNetTraining(
        **retinanet_arguments(image_size=64, batch_size=1, num_classes=4, **switch)
    )
    assert workload.is_plain == (not switch)


def test_manifest_knobs_are_the_constructor_arguments() -> None:
    manifest = load_catalog().workloads["retinanet_resnext50"]
    arguments = {
        **inspect.signature(RetinaNetTraining).parameters,
        "implementation": inspect.signature(retinanet_training).parameters["implementation"],
    }

    assert manifest.builder == "models.retinanet.implementations:retinanet_training"
    assert set(manifest.knobs) == set(arguments)
    for name, knob in manifest.knobs.items():
        assert knob.objection(knob.default) is None
        assert arguments[name].default is inspect.Parameter.empty, "the manifest has it"
