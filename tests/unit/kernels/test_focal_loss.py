"""The compiled focal loss, every variant of it, against float64 and against the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from kernels.ops.sigmoid_focal_loss import sigmoid_focal_loss
from kernels.ops.sigmoid_focal_loss_from_labels import sigmoid_focal_loss_from_labels
from kernels.reference import focal_loss as reference
from kernels.reference.focal_loss import Reduction
from tests.support.focal_loss_reference import true_loss, true_slope

DTYPES = [torch.float32, torch.bfloat16]
REDUCTIONS: list[Reduction] = ["none", "mean", "sum"]
TINY = 1e-30
"""Smaller results may lose bits to subnormal intermediate ones."""


def bound(dtype: torch.dtype, gamma: float) -> float:
    """The relative error that docs/kernels.md states; of bf16 nearly all is its own rounding."""
    return 1e-6 * max(1.0, gamma / 2) if dtype == torch.float32 else 2**-8 * 1.1


def close(found: Tensor, expected: Tensor, rtol: float, atol: float = TINY) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=rtol, atol=atol)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3


def gradient(loss: Tensor, logits: Tensor, upstream: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss, logits, upstream.to(loss.dtype))
    return found


# --- accuracy: every bf16 number, and a dense grid of fp32 ----------------------------------------


def many_logits(dtype: torch.dtype) -> Tensor:
    if dtype == torch.bfloat16:
        every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
        numbers = every.view(torch.bfloat16)
        return numbers[numbers.isfinite()]
    return torch.cat((torch.linspace(-100, 100, 60_001), torch.linspace(-1, 1, 20_001)))


@pytest.mark.parametrize("target", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_loss_and_slope_is_accurate(
    variant: str, dtype: torch.dtype, gamma: float, target: float
) -> None:
    logits = many_logits(dtype).requires_grad_()
    targets = torch.full_like(logits, target)

    loss = sigmoid_focal_loss(logits, targets, gamma=gamma)
    slope = gradient(loss, logits, torch.ones_like(loss))

    rtol = bound(dtype, gamma)
    close(loss.detach(), true_loss(logits.detach(), targets, gamma=gamma), rtol)
    close(slope, true_slope(logits.detach(), targets, gamma=gamma), rtol)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_is_no_worse_than_the_references(variant: str, dtype: torch.dtype) -> None:
    logits = random(100_003).to(dtype).requires_grad_()
    targets = (random(100_003, seed=1) > 2).to(dtype)
    exact = true_slope(logits.detach(), targets)

    def error(function: Callable[..., Tensor]) -> Tensor:
        found = gradient(function(logits, targets).sum(), logits, torch.tensor(1.0)).double()
        return (found - exact).abs()

    ours, theirs = error(sigmoid_focal_loss), error(reference.sigmoid_focal_loss)
    assert ours.max() <= theirs.max()
    assert ours.mean() <= theirs.mean()


def test_a_sum_keeps_its_bits(variant: str) -> None:
    logits = random(3_000_017)
    targets = torch.zeros_like(logits)
    total = sigmoid_focal_loss(logits, targets, reduction="sum").item()
    assert total == pytest.approx(true_loss(logits, targets).sum().item(), rel=1e-7)


# --- dense targets --------------------------------------------------------------------------------

SHAPES = [(), (0,), (1,), (3, 0, 2), (7,), (33, 5), (2, 3, 5, 7), (1025,), (17_000,)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_over_shapes_reductions_and_soft_targets(variant: str, dtype: torch.dtype) -> None:
    for shape, reduction, gamma in product(SHAPES, REDUCTIONS, (0.0, 1.5, 2.0)):
        logits = random(*shape).to(dtype).requires_grad_()
        targets = random(*shape, seed=1).sigmoid().to(dtype)
        loss = sigmoid_focal_loss(logits, targets, gamma=gamma, reduction=reduction)
        upstream = random(*loss.shape, seed=2).to(dtype)
        slope = gradient(loss, logits, upstream)

        each = true_loss(logits.detach(), targets, gamma=gamma)
        expected = reference.reduce(each, reduction)
        scale = upstream.double() / (each.numel() if reduction == "mean" else 1)
        rtol = bound(dtype, gamma) * 3
        assert (loss.dtype, slope.dtype) == (dtype, dtype)
        torch.testing.assert_close(
            loss.detach().double(), expected, rtol=rtol, atol=TINY, equal_nan=True
        )
        # Soft targets: where the slope's two terms cancel, what is left is a matter of their size.
        close(slope, true_slope(logits.detach(), targets, gamma=gamma) * scale, rtol, rtol)


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.25, 1.0])
def test_alpha_is_the_references(variant: str, alpha: float) -> None:
    logits, targets = random(300), (random(300, seed=1) > 0).float()
    close(sigmoid_focal_loss(logits, targets, alpha), true_loss(logits, targets, alpha), 1e-6)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[::2, 1::3],
        lambda x: x[:, :1].expand(-1, 9),
        lambda x: x.flip(0)[3:],
    ],
)
def test_dense_takes_any_strides(variant: str, view: Callable[[Tensor], Tensor]) -> None:
    logits, targets = random(24, 36), (random(24, 36, seed=1) > 0).float()
    leaf = logits.clone().requires_grad_()
    loss = sigmoid_focal_loss(view(leaf), view(targets))
    upstream = view(random(24, 36, seed=2))
    found = gradient(loss, leaf, upstream)

    same = logits.double().requires_grad_()
    expected = reference.sigmoid_focal_loss(view(same), view(targets.double()))
    close(loss.detach(), expected.detach(), 1e-6)
    close(found, gradient(expected, same, upstream), 1e-5, 1e-7)  # expanded: sums of nine


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_infinities_and_nan_are_the_references(
    variant: str, dtype: torch.dtype, gamma: float
) -> None:
    strange = torch.tensor([math.inf, -math.inf, math.nan, 1e4, -1e4, 0.0, -0.0])
    for target in (0.0, 1.0, 0.25):
        # Enough for two of the packs of 64 that AVX-512 works on, and a tail.
        logits = strange.repeat_interleave(20).to(dtype).requires_grad_()
        targets = torch.full_like(logits, target)
        found, expected = (
            (loss.detach(), gradient(loss, logits, torch.ones_like(loss)))
            for loss in (
                sigmoid_focal_loss(logits, targets, gamma=gamma),
                reference.sigmoid_focal_loss(logits, targets, gamma=gamma),
            )
        )
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0.02, atol=1e-6, equal_nan=True)


def test_mixed_dtypes_are_promoted(variant: str) -> None:
    logits = random(50).bfloat16().requires_grad_()
    targets = (random(50, seed=1) > 0).float()
    loss = sigmoid_focal_loss(logits, targets, reduction="sum")
    assert loss.dtype == torch.float32
    assert gradient(loss, logits, torch.tensor(1.0)).dtype == torch.bfloat16


# --- from labels ----------------------------------------------------------------------------------


def some_labels(rows: int, classes: int, seed: int = 3) -> Tensor:
    """Every kind of label: a class, background (as `classes`) and ignored (-1)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, classes + 1, (rows,), generator=generator)


@pytest.mark.parametrize("dtype", DTYPES)
def test_labels_over_shapes_and_reductions(variant: str, dtype: torch.dtype) -> None:
    shapes = [(0, 5), (1, 1), (5, 0), (9, 3), (64, 16), (70, 17), (70, 264), (9_000, 2)]
    for shape, reduction, gamma in product(shapes, REDUCTIONS, (0.0, 2.0, 2.5)):
        logits = random(*shape).to(dtype).requires_grad_()
        labels = some_labels(shape[0], shape[1])
        loss = sigmoid_focal_loss_from_labels(logits, labels, gamma=gamma, reduction=reduction)
        upstream = random(*loss.shape, seed=2).to(dtype)
        slope = gradient(loss, logits, upstream)

        same = logits.detach().double().requires_grad_()
        expected = reference.sigmoid_focal_loss_from_labels(
            same, labels, gamma=gamma, reduction=reduction
        )
        rtol = 2e-5 if dtype == torch.float32 else 1e-2  # float64's formula cancels, too
        assert loss.dtype == (dtype if reduction == "none" else torch.float32)
        torch.testing.assert_close(
            loss.detach().double(), expected.detach(), rtol=rtol, atol=1e-14, equal_nan=True
        )
        if same.numel():
            close(slope, gradient(expected, same, upstream), rtol, 1e-14)


@pytest.mark.parametrize("label", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_other_integers(variant: str, label: torch.dtype) -> None:
    logits, labels = random(20, 4), torch.arange(20) % 5
    for use in (
        sigmoid_focal_loss_from_labels,
        reference.sigmoid_focal_loss_from_labels,
    ):
        assert use(logits, labels.to(label)) == use(logits, labels)


@pytest.mark.parametrize("label", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_class_255_is_not_ignored(variant: str, label: torch.dtype) -> None:
    """In uint8, it is what -1 becomes."""
    logits, labels = random(20, 300), torch.arange(20) + 236
    for use in (sigmoid_focal_loss_from_labels, reference.sigmoid_focal_loss_from_labels):
        found = use(logits, labels.to(label), reduction="mean")
        close(found, true_loss(logits, torch.eye(300)[labels]).mean(), 1e-6)


def test_labels_of_another_device_are_never_read(variant: str) -> None:
    logits, labels = random(4, 3), torch.zeros(4, dtype=torch.int64, device="meta")
    with pytest.raises(NotImplementedError, match="meta"):
        sigmoid_focal_loss_from_labels(logits, labels)


def test_background_and_ignored_can_have_other_labels(variant: str) -> None:
    logits, labels = random(50, 6), some_labels(50, 6)
    renamed = labels.masked_fill(labels == -1, -2).masked_fill(labels == 6, -1)
    expected = sigmoid_focal_loss_from_labels(logits, labels)
    found = sigmoid_focal_loss_from_labels(logits, renamed, ignore_index=-2, background=-1)
    assert found == expected


def test_ignored_rows_are_never_read_into_the_loss(variant: str) -> None:
    logits = torch.full((3, 40), math.nan)
    logits[1] = 0.5
    logits.requires_grad_()
    loss = sigmoid_focal_loss_from_labels(logits, torch.tensor([-1, 7, -1]))
    slope = gradient(loss, logits, torch.tensor(1.0))
    assert loss.isfinite()
    assert slope[[0, 2]].abs().sum() == 0


@pytest.mark.parametrize("use", [sigmoid_focal_loss_from_labels])
@pytest.mark.parametrize("wrong", [5, -2, 2**40])
def test_a_label_that_means_nothing_is_refused(
    variant: str, use: Callable[..., Tensor], wrong: int
) -> None:
    labels = torch.tensor([0, 1, wrong, 3])
    with pytest.raises(IndexError, match=f"label {wrong} of row 2: .* 0 to 3, background 4"):
        use(torch.zeros(4, 4), labels)


@pytest.mark.parametrize(
    "use",
    [sigmoid_focal_loss_from_labels, reference.sigmoid_focal_loss_from_labels],
)
def test_arguments_that_do_not_fit_are_refused(use: Callable[..., Tensor]) -> None:
    logits, labels = torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"expected \[N, C\] and \[N\]"):
        use(logits, labels[:2])
    with pytest.raises(ValueError, match="both background and ignored"):
        use(logits, labels, background=-1)
    with pytest.raises(ValueError, match="'max'"):
        use(logits, labels, reduction="max")
    for wrong in (torch.float32, torch.bool):
        with pytest.raises(ValueError, match=f"labels of {wrong}: expected integers"):
            use(logits, labels.to(wrong))
    with pytest.raises(IndexError):
        use(logits, labels - 7)


def test_shapes_that_differ_are_refused(variant: str) -> None:
    with pytest.raises(ValueError, match="must agree"):
        sigmoid_focal_loss(torch.zeros(4), torch.zeros(5))
    with pytest.raises(ValueError, match="'max'"):
        sigmoid_focal_loss(torch.zeros(4), torch.zeros(4), reduction="max")  # type: ignore[arg-type]


# --- as an operator of torch ----------------------------------------------------------------------


def dense_sum(logits: Tensor) -> Tensor:
    return sigmoid_focal_loss(logits, (logits > 1).to(logits.dtype), reduction="sum")


def labels_mean(logits: Tensor) -> Tensor:
    labels = torch.arange(logits.shape[0]) % (logits.shape[1] + 2) - 1
    return sigmoid_focal_loss_from_labels(logits, labels, reduction="mean")


@pytest.mark.parametrize("use", [dense_sum, labels_mean])
def test_the_number_of_threads_changes_no_bit(
    variant: str, use: Callable[[Tensor], Tensor]
) -> None:
    logits = random(1_000, 67).requires_grad_()
    usual = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            loss = use(logits)
            found.append((loss.detach(), gradient(loss, logits, torch.tensor(0.37))))
    finally:
        torch.set_num_threads(usual)
    for loss, slope in found[1:]:
        assert torch.equal(loss, found[0][0])
        assert torch.equal(slope, found[0][1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("each", [False, True])
def test_opcheck(dtype: torch.dtype, each: bool) -> None:
    logits = random(6, 5).to(dtype).requires_grad_()
    labels, targets = some_labels(6, 5), torch.rand(6, 5).to(dtype)
    opcheck(
        torch.ops.benchfarm.sigmoid_focal_loss_from_labels.default,
        (logits, labels, 0.25, 2.0, 5, -1, each),
    )
    opcheck(torch.ops.benchfarm.sigmoid_focal_loss.default, (logits, targets, 0.25, 2.0, each))


@pytest.mark.parametrize("use", [dense_sum, labels_mean])
def test_compiles_without_a_graph_break(use: Callable[[Tensor], Tensor]) -> None:
    logits = random(40, 9).requires_grad_()
    # aot_eager traces forward and backward as inductor does, without a compiler's seconds.
    compiled = torch.compile(use, fullgraph=True, backend="aot_eager")
    found, expected = compiled(logits), use(logits)
    assert torch.equal(found, expected)
    one = torch.tensor(0.37)
    assert torch.equal(gradient(found, logits, one), gradient(expected, logits, one))


def test_works_under_autocast() -> None:
    layer = torch.nn.Linear(8, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = layer(torch.ones(6, 8))
        assert logits.dtype == torch.bfloat16
        loss = sigmoid_focal_loss_from_labels(logits, some_labels(6, 5))
        dense = sigmoid_focal_loss(logits, torch.zeros(6, 5), reduction="sum")
    torch.autograd.backward(loss + dense)
    assert layer.weight.grad is not None
    assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_but_the_inputs_is_held_for_the_backward_pass(dtype: torch.dtype) -> None:
    logits = random(64, 9).to(dtype).requires_grad_()
    labels = some_labels(64, 9)
    held: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        held.append(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        sigmoid_focal_loss_from_labels(logits, labels)
    assert set(held) == {logits.data_ptr(), labels.data_ptr()}


def test_a_second_derivative_is_refused_in_words() -> None:
    logits = random(5).requires_grad_()
    loss = sigmoid_focal_loss(logits, torch.zeros(5), reduction="sum")
    (slope,) = torch.autograd.grad(loss, logits, create_graph=True)
    with pytest.raises(NotImplementedError, match="BENCHFARM_KERNELS=reference"):
        torch.autograd.backward(slope.sum())


def test_what_the_kernels_do_not_do_runs_in_plain_torch(variant: str) -> None:
    logits = random(20).double().requires_grad_()
    targets = torch.rand(20, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda x: sigmoid_focal_loss(x, targets), (logits,))

    learned = torch.full((3,), 0.5, requires_grad=True)
    torch.autograd.backward(sigmoid_focal_loss(torch.ones(3), learned, reduction="sum"))
    assert learned.grad is not None

    steep = sigmoid_focal_loss(torch.ones(3), torch.zeros(3), gamma=50.0)
    close(steep, true_loss(torch.ones(3), torch.zeros(3), gamma=50.0), 1e-4)
