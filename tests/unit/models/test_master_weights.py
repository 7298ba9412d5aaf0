"""Weights in bf16 whose fp32 masters the optimizer has: the same numbers as autocast's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from agents.backends.torch_eager.backend import TorchEager
from agents.scenarios.training_quality import Scheduled
from agents.worker import failure_of
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame
from models.bert import BertTraining
from models.master_weights import MasterAdam, rounded_weights, with_masters
from models.optimizers import build_optimizer
from models.retinanet.frozen_norm import FoldedConv2d, FrozenBatchNorm2d
from models.retinanet.pointwise import PointwiseConv2d
from models.retinanet.workload import RetinaNetTraining
from tests.support.knobs import retinanet_arguments, workload_arguments
from tests.support.shallow_retinanet import ShallowRetinaNet

STACK: dict[str, Scalar] = {"precision": "bf16", "memory_format": "channels_last"}
RETINANET: dict[str, Scalar] = {"image_size": 96, "batch_size": 1, "num_classes": 4}


class Small(nn.Module):
    """Of each kind of weight one: rounded by its layer, used as it is, or both."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.products = PointwiseConv2d(nn.Conv2d(8, 8, 1))
        folded = FoldedConv2d(nn.Conv2d(8, 8, 1, bias=False), FrozenBatchNorm2d(8))
        self.folded = PointwiseConv2d(folded)
        self.linear = nn.Linear(8, 5)
        self.words = nn.Embedding(5, 8)
        self.tied = nn.Linear(8, 5, bias=False)
        self.tied.weight = self.words.weight
        self.frozen = nn.Conv2d(8, 8, 1).requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [B, 3, H, W] to [B, 5]."""
        x = self.norm(self.convolution(x))
        x = self.frozen(self.folded(self.products(x))).mean((2, 3))
        y: Tensor = self.linear(x) + self.tied(x + self.words.weight.sum(0))
        return y


def small() -> Small:
    torch.manual_seed(0)
    return Small().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def learning(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def gradients(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Return the gradient of each parameter that learns, and the output as `y`."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, 6, 6, generator=generator).to(memory_format=torch.channels_last)
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x)
    torch.autograd.backward(y.float().square().sum())
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {**found, "y": y.detach()}


def test_a_weight_is_held_in_bf16_where_every_use_rounds_it() -> None:
    model = small()
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert {names[parameter] for parameter in rounded_weights(model)} == {
        f"{layer}.{kind}"
        for layer in ("convolution", "products", "linear", "frozen")
        for kind in ("weight", "bias")
    }


def test_outputs_and_gradients_are_those_of_autocast() -> None:
    plain, held = small(), small()
    with_masters(held, build_optimizer("adam", True, learning(held), 0.01))
    assert held.frozen.weight.dtype == held.convolution.weight.dtype == torch.bfloat16
    assert held.norm.weight.dtype == held.words.weight.dtype == torch.float32
    found, expected = gradients(held, 1), gradients(plain, 1)
    assert found.keys() == expected.keys()
    assert found["convolution.weight"].dtype == torch.bfloat16
    assert all(torch.equal(found[name].float(), expected[name].float()) for name in expected)


def test_masters_take_the_steps_of_weights_in_fp32() -> None:
    plain, held = small(), small()
    adam = build_optimizer("adam", True, learning(plain), 0.01)
    masters = with_masters(held, build_optimizer("adam", True, learning(held), 0.01))
    for number, rate in enumerate((0.01, 0.01, 0.001, 0.0)):
        for optimizer in (adam, masters):
            optimizer.param_groups[0]["lr"] = rate
        given = gradients(plain, number)
        for name, parameter in held.named_parameters():
            parameter.grad = given[name].to(parameter.dtype) if name in given else None
        adam.step()
        masters.step()
    assert isinstance(masters, MasterAdam)
    for (name, expected), found in zip(plain.named_parameters(), held.parameters(), strict=True):
        if name.startswith("frozen"):
            assert torch.equal(found, expected.bfloat16())
            continue
        # A few roundings of fp32 a step, on weights of up to 1; the gradients are the same.
        kept = masters.master(found)
        torch.testing.assert_close(kept, expected.detach(), rtol=1e-5, atol=1e-6, msg=name)
        assert torch.equal(found, kept.to(found.dtype)), name


def test_what_has_no_gradient_stays_and_counts_its_own_steps() -> None:
    one, other = (nn.Parameter(torch.ones(3)) for _ in range(2))
    adam = MasterAdam({p: p.detach() for p in (one, other)}, 0.1)
    one.grad = torch.ones(3)
    adam.step()
    assert other.tolist() == [1.0] * 3
    other.grad = torch.ones(3)
    adam.step()
    # The first step of each is the learning rate, whatever the gradient's size.
    assert other.tolist() == pytest.approx([0.9] * 3, rel=1e-6)
    assert one.tolist() == pytest.approx([0.8] * 3, rel=1e-6)


def test_a_copy_which_would_train_no_model_is_refused() -> None:
    one = nn.Parameter(torch.ones(3))
    adam = MasterAdam({one: one.detach()}, 0.1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="it can't be copied or pickled"):
            copied(adam)
    with pytest.raises(TypeError, match="it can't load another's state"):
        adam.load_state_dict(adam.state_dict())


@pytest.mark.parametrize(("name", "fused"), [("adam", False), ("sgd", True), ("lamb", True)])
def test_another_optimizer_is_refused(name: str, fused: bool) -> None:
    with pytest.raises(WorkerFault) as raised:
        backend(master_weights=True).prepare(bert(optimizer=name, fused_optimizer=fused))
    failure = failure_of(raised.value)
    assert failure.blame is Blame.USER
    assert failure.message == (
        "cannot apply master_weights: only a fused Adam keeps masters of weights in bf16. Set it "
        "to false, or choose a workload that has the knob fused_optimizer, set it to true, and "
        "optimizer to adam."
    )


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))


def backend(**knobs: Scalar) -> TorchEager:
    return TorchEager({**STACK, **knobs})


def losses(workload: Any, torch_eager: TorchEager, steps: int = 4) -> list[float]:  # noqa: ANN401 - any workload
    model, optimizer = torch_eager.prepare(workload)
    batch = workload.batch(0)
    return [torch_eager.step(workload, model, optimizer, batch) for _ in range(steps)]


def retinanet() -> RetinaNetTraining:
    kernels: dict[str, Scalar] = {"frozen_bn": "fused", "pointwise": "matmul"}
    heads: dict[str, Scalar] = {"head_convolutions": "winograd", "fused_optimizer": True}
    return ShallowRetinaNet(**retinanet_arguments(**RETINANET, **kernels, **heads))


def bert_knobs(**given: Scalar) -> dict[str, Any]:
    sizes: dict[str, Scalar] = {"layers": 1, "hidden_size": 64, "sequence_length": 16}
    small: dict[str, Scalar] = {**sizes, "vocabulary_size": 40, "batch_size": 4}
    chosen: dict[str, Scalar] = {"optimizer": "adam", "fused_optimizer": True, **given}
    return workload_arguments("bert", **small, **chosen)


def bert(**given: Scalar) -> BertTraining:
    return BertTraining(**bert_knobs(**given))


@pytest.mark.parametrize("build", [retinanet, bert])
def test_a_training_has_the_losses_of_one_without(build: Any) -> None:  # noqa: ANN401 - of any workload
    expected, found = losses(build(), backend()), losses(build(), backend(master_weights=True))
    assert found[0] == expected[0]
    assert found[-1] < found[0]
    # An update's sums are rounded otherwise, and by that some weights, to 8 bits, in each step.
    assert found[1] == pytest.approx(expected[1], rel=2e-3)
    assert found == pytest.approx(expected, rel=2e-2)


class Kept(BertTraining):
    """A workload whose weights are kept."""

    def weights(self, learnt: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """See EvaluatedWorkload.weights."""
        return learnt


def test_what_is_kept_of_a_training_are_the_masters() -> None:
    workload: Any = Kept(**bert_knobs())
    trained = Scheduled(workload, backend(master_weights=True))
    trained.start()
    kept = trained.weights()
    assert kept.keys() == dict(trained.model.named_parameters()).keys()
    assert {weight.dtype for weight in kept.values()} == {torch.float32}
    for name, parameter in trained.model.named_parameters():
        assert torch.equal(kept[name].to(parameter.dtype), parameter)


def test_in_fp32_it_does_nothing() -> None:
    model, optimizer = backend(master_weights=True, precision="fp32").prepare(retinanet())
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert not isinstance(optimizer, MasterAdam)
