"""Every switch of the training recipe against the plain model: outputs, loss and gradients."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from controller.contracts.base import Scalar
from models.retinanet.frozen_norm import (
    FoldedConv2d,
    FrozenBatchNorm2d,
    FusedNorm,
    OneOpNorm,
    ScaledWeight,
    fold,
)
from models.retinanet.model import RetinaNet
from models.retinanet.pointwise import PointwiseConv2d
from models.retinanet.workload import ROW_CONVOLUTIONS, RetinaNetTraining
from tests.support.knobs import retinanet_arguments
from tests.support.shallow_retinanet import ShallowRetinaNet

SWITCHES: Mapping[str, Mapping[str, Scalar]] = {
    "norms as one operator": {"frozen_bn": "addcmul"},
    "norms folded": {"frozen_bn": "folded"},
    "norms fused": {"frozen_bn": "fused"},
    "loss and matching fused": {"focal_loss": "fused", "matching": "fused"},
    "1x1 convolutions as matrix products": {"pointwise": "matmul"},
    "focal loss by labels": {"focal_loss": "by_labels"},
    "levels packed": {"packed_levels": True},
    "3x3 convolutions of the heads as matrix products": {"head_convolutions": "matmul"},
    "3x3 convolutions of the heads by Winograd's algorithm": {"head_convolutions": "winograd"},
    "gradients of frozen stages": {"skip_frozen": False},
    "all of them": {
        "frozen_bn": "folded",
        "pointwise": "matmul",
        "focal_loss": "by_labels",
        "packed_levels": True,
        "skip_frozen": False,
    },
    "all kernels": {
        "frozen_bn": "fused",
        "pointwise": "matmul",
        "focal_loss": "fused",
        "matching": "fused",
        "head_convolutions": "matmul",
    },
}
TOGETHER = ("all of them", "all kernels")
IS_BF16_EMULATED = not torch.ops.mkldnn._is_mkldnn_bf16_supported()
IN_BF16 = ShallowRetinaNet if IS_BF16_EMULATED else RetinaNetTraining
CHANNELS_LAST = [False, True]


def workload(
    kind: type[RetinaNetTraining] = RetinaNetTraining, **knobs: Scalar
) -> RetinaNetTraining:
    # 96 px, the least that a sweep may ask for: the coarsest level is one cell.
    sizes: dict[str, Scalar] = {"image_size": 96, "batch_size": 1, "num_classes": 4}
    return kind(**retinanet_arguments(**{**sizes, **knobs}))


@cache
def built(seed: int) -> RetinaNet:
    """Return a model whose norms do something: fresh ones are the identity."""
    model = workload(seed=seed).build_model()
    generator = torch.Generator().manual_seed(1)
    for norm in model.modules():
        if isinstance(norm, FrozenBatchNorm2d):
            for buffer in (norm.weight, norm.running_var):
                buffer.uniform_(0.5, 1.5, generator=generator)
            for buffer in (norm.bias, norm.running_mean):
                buffer.uniform_(-0.2, 0.2, generator=generator)
    return model


def plain_model(seed: int = 0) -> RetinaNet:
    """Return a copy, to be changed; drawing all weights takes five times as long."""
    return copy.deepcopy(built(seed))


@dataclass
class Step:
    """What one forward and backward pass gives."""

    loss: Tensor
    outputs: tuple[Tensor, Tensor]
    gradients: dict[str, Tensor]

    def error(self, truth: Step) -> float:
        """Return the relative error of the whole gradient."""
        wrong = sum((self.gradients[n] - g).square().sum() for n, g in truth.gradients.items())
        return float((wrong / sum(g.square().sum() for g in truth.gradients.values())) ** 0.5)


def one_step(
    dtype: torch.dtype,
    knobs: Mapping[str, Scalar],
    channels_last: bool = False,
    seed: int = 0,
    kind: type[RetinaNetTraining] = RetinaNetTraining,
) -> Step:
    """bf16 means autocast, as in the stacks; float64 means all of it."""
    job, model = workload(kind, seed=seed, **knobs), plain_model(seed)
    bf16 = dtype is torch.bfloat16
    model = job.transform(model if bf16 else model.to(dtype))
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = job.batch(0)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        outputs = model(batch.images if bf16 else batch.images.to(dtype))
    loss = job.loss(outputs, batch)
    torch.autograd.backward(loss)
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return Step(loss.detach(), tuple(o.detach() for o in outputs), gradients)


@cache
def plain(
    dtype: torch.dtype,
    channels_last: bool = False,
    seed: int = 0,
    kind: type[RetinaNetTraining] = RetinaNetTraining,
) -> Step:
    return one_step(dtype, {}, channels_last, seed, kind)


SEEDS = (0, 1, 2)
"""Of one step alone, the error in bf16 is by chance up to half as large again or three quarters:
a few ReLUs, matches and roundings of the coarsest level decide."""


def steps_in_bf16(knobs: Mapping[str, Scalar]) -> list[Step]:
    return [one_step(torch.bfloat16, knobs, True, seed, IN_BF16) for seed in SEEDS]


def error_over_seeds(steps: list[Step]) -> float:
    """Return the relative error of the gradient, root mean square over steps."""
    truths = (plain(torch.float32, seed=seed, kind=IN_BF16) for seed in SEEDS)
    errors = [step.error(truth) for step, truth in zip(steps, truths, strict=True)]
    return float(math.hypot(*errors) / math.sqrt(len(SEEDS)))


@cache
def error_of_plain_in_bf16() -> float:
    return error_over_seeds(steps_in_bf16({}))


@pytest.mark.parametrize("knobs", SWITCHES.values(), ids=SWITCHES)
def test_a_switch_is_exact_in_double_precision(knobs: Mapping[str, Scalar]) -> None:
    """The same algebra: what differs is the order of sums of up to 10⁴ terms of 53 bits."""
    step = one_step(torch.float64, knobs, kind=ShallowRetinaNet)
    expected = plain(torch.float64, kind=ShallowRetinaNet)
    assert step.gradients.keys() == expected.gradients.keys()
    torch.testing.assert_close(step.outputs, expected.outputs, rtol=1e-9, atol=1e-12)
    # The plain loss is fp32, so its gradient is rounded where it enters; the same in both, unless
    # another form of the loss takes its place, which rounds elsewhere.
    error = 3e-5 if "focal_loss" in knobs else 1e-6
    for name, gradient in step.gradients.items():
        scale = expected.gradients[name].abs().max().item()
        torch.testing.assert_close(
            gradient, expected.gradients[name], rtol=0, atol=error * scale, msg=name
        )


@pytest.mark.parametrize("channels_last", CHANNELS_LAST)
@pytest.mark.parametrize("knobs", SWITCHES.values(), ids=SWITCHES)
def test_a_switch_rounds_in_fp32_and_no_more(
    knobs: Mapping[str, Scalar], channels_last: bool
) -> None:
    """24 bits through 60 layers: a few times 1e-6 of the largest value is seen."""
    step = one_step(torch.float32, knobs, channels_last)
    expected = plain(torch.float32, channels_last)
    torch.testing.assert_close(step.loss, expected.loss, rtol=1e-5, atol=0)
    for mine, theirs in zip(step.outputs, expected.outputs, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=3e-5 * theirs.abs().max().item())
    assert step.error(expected) < 3e-5


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_costs_no_accuracy_in_bf16(switch: str) -> None:
    """8 bits a value: the gradient is some percent off, with a switch no more than without."""
    if IS_BF16_EMULATED and switch not in TOGETHER:
        pytest.skip("bf16 is emulated on this CPU, 8 s a switch: those together are tested")
    knobs = SWITCHES[switch]
    assert error_of_plain_in_bf16() < 0.2
    steps = steps_in_bf16(knobs)
    assert error_over_seeds(steps) < 1.25 * error_of_plain_in_bf16()
    # The loss, in fp32, of logits of 8 bits each.
    expected = plain(torch.float32, kind=IN_BF16)
    torch.testing.assert_close(steps[0].loss, expected.loss, rtol=0.01, atol=0)


def test_channels_last_is_the_same_in_fp32() -> None:
    """Other kernels, so other orders of sums: 24 bits through 60 layers."""
    assert plain(torch.float32, channels_last=True).error(plain(torch.float32)) < 3e-5


def test_one_operator_stands_for_every_norm() -> None:
    model = workload(frozen_bn="addcmul").build_model()
    assert sum(isinstance(m, OneOpNorm) for m in model.modules()) == 53
    assert not any(isinstance(m, FrozenBatchNorm2d) for m in model.modules())
    norm = next(m for m in model.modules() if isinstance(m, OneOpNorm))
    x = torch.ones(1, 64, 2, 2, dtype=torch.bfloat16)
    assert norm(x).dtype == torch.bfloat16


def test_a_fused_norm_stands_for_every_norm_and_takes_the_relu_along() -> None:
    model = workload(frozen_bn="fused").build_model()
    assert sum(isinstance(m, FusedNorm) for m in model.modules()) == 53
    assert not any(isinstance(m, FrozenBatchNorm2d) for m in model.modules())
    with torch.profiler.profile() as profile:
        model.backbone.body.layer1(torch.ones(1, 64, 4, 4))
    called = {event.key: event.count for event in profile.key_averages()}
    assert called["benchfarm::frozen_batch_norm"] == 10
    assert "aten::relu_" not in called
    assert "aten::add_" not in called


@pytest.mark.parametrize("frozen_bn", ["mul_add", "folded"])
def test_every_pointwise_convolution_becomes_matrix_products(frozen_bn: str) -> None:
    plain_weights = dict(plain_model().named_parameters())
    model = workload(frozen_bn=frozen_bn, pointwise="matmul").transform(plain_model())
    products = [m for m in model.modules() if isinstance(m, PointwiseConv2d)]
    assert len(products) == 39  # two of each of 16 blocks, four shortcuts, three of the pyramid
    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d | FoldedConv2d)]
    assert all(tuple(m.weight.shape[2:]) != (1, 1) for m in convolutions)
    learning = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert learning.keys() == {n for n, p in plain_weights.items() if p.requires_grad}


@pytest.mark.parametrize("stride", [1, 2])
def test_a_pointwise_product_gives_a_gradient_laid_out_as_its_input(stride: int) -> None:
    conv = torch.nn.Conv2d(3, 5, 1, stride)
    x = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    x = x.to(memory_format=torch.channels_last).requires_grad_()
    found, expected = (
        torch.autograd.grad(module(x).square().sum(), x)[0]
        for module in (PointwiseConv2d(conv), conv)
    )
    torch.testing.assert_close(found, expected)
    # Any other would be copied where it meets the gradient of a shortcut.
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", ROW_CONVOLUTIONS)
def test_every_convolution_of_the_heads_takes_all_levels_at_once(name: str) -> None:
    plain_names = {n for n, _ in plain_model().named_parameters()}
    for packed_levels in (False, True):
        job = workload(head_convolutions=name, packed_levels=packed_levels)
        model = job.transform(plain_model())
        # Two towers of four, and what follows each.
        assert sum(isinstance(m, ROW_CONVOLUTIONS[name]) for m in model.head.modules()) == 10
        assert not any(isinstance(m, torch.nn.Conv2d) for m in model.head.modules())
        assert {n for n, _ in model.named_parameters()} == plain_names


def test_folding_keeps_the_weights_that_learn_and_scales_the_others_for_good() -> None:
    model, plain_weights = plain_model(), dict(plain_model().named_parameters())
    assert fold(model) == 53
    assert not any(isinstance(m, FrozenBatchNorm2d) for m in model.modules())
    folded = [m for m in model.modules() if isinstance(m, FoldedConv2d)]
    assert len(folded) == 42  # of layer2, layer3 and layer4
    assert all(m.weight.requires_grad for m in folded)
    learning = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert learning.keys() == {n for n, p in plain_weights.items() if p.requires_grad}
    assert all(torch.equal(p, plain_weights[n]) for n, p in learning.items())


class Multiplications(TorchDispatchMode):
    """Counts multiplications of tensors with as many numbers as a convolution's weight."""

    def __init__(self, model: RetinaNet) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch's
        self.sizes = {p.shape for p in model.parameters() if p.ndim == 4}
        self.sizes |= {shape[:2] for shape in self.sizes}
        self.count = 0

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run an operator."""
        if func.overloadpacket is torch.ops.aten.mul and args[0].shape in self.sizes:
            self.count += 1
        result: object = func(*args, **(kwargs or {}))
        return result


@pytest.mark.parametrize("pointwise", ["convolution", "matmul"])
def test_folded_weights_are_scaled_once_where_a_model_is_evaluated(pointwise: str) -> None:
    """Those that would learn, too: what learns is of no account to a query."""
    job = workload(frozen_bn="folded", pointwise=pointwise)
    plain_eval, model = plain_model().eval(), job.transform(plain_model())
    images = job.batch(0).images
    counted = Multiplications(model)
    with torch.no_grad(), counted:
        model(images)
    assert counted.count
    for step in range(2):  # also after it has trained again
        model.eval()
        counted.count = 0
        with torch.inference_mode(), counted:
            found = model(images)
        assert counted.count == 0
        with torch.inference_mode():
            for one, truth in zip(found, plain_eval(images), strict=True):
                torch.testing.assert_close(one, truth, rtol=1e-4, atol=1e-4)  # sums in fp32
        model.train()
        if step == 0:
            with torch.no_grad():
                for own, other in zip(*_folded_weights(model, plain_eval), strict=True):
                    own.mul_(0.9)
                    other.mul_(0.9)


def _folded_weights(model: RetinaNet, plain: RetinaNet) -> tuple[list[Tensor], list[Tensor]]:
    """Return the weights of the folded convolutions that learn, and the plain model's own."""
    names = [n for n, m in model.named_modules() if isinstance(m, ScaledWeight)]
    names = [n for n in names if model.get_submodule(n).scale is not None]
    return tuple([m.get_submodule(n).weight for n in names] for m in (model, plain))  # type: ignore[return-value]


def test_gradients_of_frozen_stages_are_worked_out_and_dropped() -> None:
    job = workload(skip_frozen=False)
    model = job.build_model()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    traced: list[bool] = []
    model.backbone.body.conv1.register_forward_hook(
        lambda _module, _inputs, output: traced.append(output.requires_grad)
    )
    optimizer = job.build_optimizer(model)
    torch.autograd.backward(job.loss(model(job.batch(0).images), job.batch(0)))
    optimizer.step()

    frozen = ("backbone.body.conv1.", "backbone.body.layer1.")
    assert traced == [True]
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == name.startswith(frozen), name
        assert (parameter.grad is None) == name.startswith(frozen), name
