"""Both focal losses on the logits of one 800 px image: 120,087 anchors, 264 classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import (
    DTYPES,
    UPSTREAM,
    Case,
    Comparator,
    Differentiated,
    Function,
    Work,
    bytes_of,
    compiled,
)
from kernels.bench.comparator import ComparatorUnusable, unlike, users_code
from kernels.reference import focal_loss as reference

ROWS, CLASSES = 120_087, 264
SHAPE = f"{ROWS}x{CLASSES}"
IGNORED, BACKGROUND = -2, -1
CHECKED_ROWS = 4003
"""Enough for every kind of row; float64 takes 50 times the memory."""

LOSS_ERROR = {"fp32": 1e-6, "bf16": 1e-4}
"""Bounds of the summed loss's relative error against float64. For bf16, fp32 losses are computed
with coarser polynomials and summed."""

Loss = Callable[[Tensor, Tensor], Tensor]
TargetOf = Callable[[Tensor, torch.dtype], Tensor]


def loss_case(
    dtype: str,
    target_of: TargetOf,
    mine: Loss,
    plain: Loss,
    rewritten: Loss | None = None,
) -> Case:
    """Return the case of a loss, forward and backward, with a baseline in plain torch.

    target_of: returns the loss's second argument from labels [ROWS] and the dtype of the logits.
    """
    labels = _labels(ROWS)
    logits = _logits(ROWS).to(DTYPES[dtype]).requires_grad_()
    target = target_of(labels, logits.dtype)
    is_dense = target.dim() == 2
    baselines: dict[str, Work] = {
        "eager": _work(plain, logits, target),
        "compile": _work(compiled(plain), logits, target),
    }
    if rewritten:
        baselines["compile_rewritten"] = _work(compiled(rewritten), logits, target)
    targets_bytes = bytes_of(target if is_dense else None)
    return Case(
        shape=SHAPE,
        kernel=_work(mine, logits, target),
        baselines=baselines,
        moved_bytes=bytes_of(logits, logits) + targets_bytes,
        passes={
            "forward": bytes_of(logits) + targets_bytes,
            "backward": bytes_of(logits, logits) + targets_bytes,
        },
        largest_bytes=bytes_of(logits),
        objections=partial(_objections, dtype, target_of, mine, plain),
        comparator=lambda theirs: Comparator(
            _work(theirs, logits, target), partial(_unlike, dtype, target_of, theirs)
        ),
    )


def _unlike(dtype: str, target_of: TargetOf, theirs: Function) -> list[str]:
    """Compare another implementation's loss and gradient with float64."""
    labels = _labels(CHECKED_ROWS)
    logits = _logits(CHECKED_ROWS).to(DTYPES[dtype]).requires_grad_()
    target = target_of(labels, logits.dtype)
    try:
        with users_code():
            found = _step(theirs, logits, target)
    except ComparatorUnusable as error:
        return [f"it raised {error}"]
    return unlike(dtype, found, _double_step(logits, target))


def _double_step(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return loss and gradient in float64."""
    exact = logits.detach().double().requires_grad_()
    return _step(_double_loss, exact, target if target.dim() == 1 else target.double())


def _work(loss: Callable[..., object], logits: Tensor, target: Tensor) -> Work:
    """Return a loss and its gradient as work; keeps neither, so that its memory can be measured."""
    return Differentiated(partial(_loss, loss, logits, target), partial(_gradient, logits))


def _step(loss: Callable[..., object], logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss and the gradient."""
    return _gradient(logits, _loss(loss, logits, target))


def _loss(loss: Callable[..., object], logits: Tensor, target: Tensor) -> Tensor:
    value = loss(logits, target)
    if not isinstance(value, Tensor):
        raise TypeError(f"a loss is a tensor, not {type(value).__name__}")
    return value


def _gradient(logits: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    (grad,) = torch.autograd.grad(value, logits, value.new_tensor(UPSTREAM))
    return value.detach(), grad


def _objections(dtype: str, target_of: TargetOf, mine: Loss, plain: Loss) -> list[str]:
    """Compare loss and gradient with float64; the gradient's bound is the eager reference's
    error."""
    labels = _labels(CHECKED_ROWS)
    logits = _logits(CHECKED_ROWS).to(DTYPES[dtype]).requires_grad_()
    target = target_of(labels, logits.dtype)
    loss, grad = _step(mine, logits, target)
    _, plain_grad = _step(plain, logits, target)
    # Where p_t rounds to 1, float64 loses bits too, but 29 fewer than fp32.
    truth, true_grad = _double_step(logits, target)
    found = []
    error = abs(loss.double() - truth).item() / truth.item()
    # A dense bf16 loss is finally rounded to bf16, like torchvision's.
    bound = 2.0**-8 if loss.dtype == torch.bfloat16 else LOSS_ERROR[dtype]
    if not error <= bound:
        found.append(f"loss: relative error {error:.2e}, bound {bound:.0e}")
    ours, theirs = (_largest_error(s, true_grad) for s in (grad, plain_grad))
    if not ours <= theirs:
        found.append(f"gradient: largest error {ours:.2e}, the eager reference's {theirs:.2e}")
    return found


def _double_loss(logits: Tensor, target: Tensor) -> Tensor:
    if target.dim() == 2:
        return reference.sigmoid_focal_loss(logits, target, reduction="sum")
    return reference.sigmoid_focal_loss_from_labels(
        logits, target, ignore_index=IGNORED, background=BACKGROUND
    )


def _largest_error(mine: Tensor, truth: Tensor) -> float:
    return (mine.double() - truth).abs().max().item()


def _logits(rows: int) -> Tensor:
    """Return logits around the prior 0.01, as in training."""
    return torch.randn(rows, CLASSES, generator=torch.Generator().manual_seed(1)) * 2 - 4.6


def _labels(rows: int) -> Tensor:
    """Return labels: 1 % of the rows foreground, 2 % ignored, the rest background."""
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(0, CLASSES, (rows,), generator=generator)
    kind = torch.rand(rows, generator=generator)
    return labels.masked_fill(kind > 0.01, BACKGROUND).masked_fill(kind > 0.98, IGNORED)
