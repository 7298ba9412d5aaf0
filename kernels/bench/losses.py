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
    Results,
    Work,
    bytes_of,
    compiled,
)
from kernels.bench.comparator import ComparatorUnusable, unlike, users_code
from kernels.bench.gradients import (
    bounds_by_decade,
    coarse_decades,
    decades_of_errors,
    wrong_elements,
)
from kernels.reference import focal_loss as reference

ROWS, CLASSES = 120_087, 264
SHAPE = f"{ROWS}x{CLASSES}"
IGNORED, BACKGROUND = -2, -1
CHECKED_ROWS = 4003
"""Enough for every kind of row; float64 takes 50 times the memory."""
PIECE_ROWS = 4000
"""So few that their gradient stays in the caches, in either dtype; of whole vectors, so that no
element is computed in another way."""

LOSS_ERROR = {"fp32": 1e-6, "bf16": 1e-4}
"""Bounds of the summed loss's relative error against float64. For bf16, fp32 losses are computed
with coarser polynomials and summed."""

Loss = Callable[[Tensor, Tensor], Tensor]
TargetOf = Callable[[Tensor, torch.dtype], Tensor]
InputsOf = Callable[[int], tuple[Tensor, Tensor]]
"""Returns logits and target of so many rows."""


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
    inputs = partial(_inputs, dtype, target_of)
    logits, target = inputs(ROWS)
    baselines: dict[str, Work] = {
        "eager": _work(plain, logits, target),
        "compile": _work(compiled(plain), logits, target),
    }
    if rewritten:
        baselines["compile_rewritten"] = _work(compiled(rewritten), logits, target)
    given = bytes_of(logits, target)
    return Case(
        shape=SHAPE,
        kernel=_work(mine, logits, target),
        baselines=baselines,
        moved_bytes=given + bytes_of(logits),
        passes={"forward": given, "backward": given + bytes_of(logits)},
        largest_bytes=bytes_of(logits),
        objections=lambda: [
            *_objections(dtype, inputs(CHECKED_ROWS), mine, plain),
            *_objections_to_all(dtype, (logits, target), mine),
        ],
        comparator=lambda theirs: Comparator(
            _work(theirs, logits, target),
            lambda: _unlike(dtype, inputs, theirs, plain),
            lambda found, expected: _differences(dtype, inputs, plain, found, expected),
            lambda: _changes((logits, target), inputs(ROWS)),
        ),
    )


def _inputs(dtype: str, target_of: TargetOf, rows: int) -> tuple[Tensor, Tensor]:
    """Return logits and target, the same ones each time."""
    logits = _logits(rows).to(DTYPES[dtype]).requires_grad_()
    return logits, target_of(_labels(rows), logits.dtype)


def _unlike(dtype: str, inputs: InputsOf, theirs: Function, plain: Loss) -> list[str]:
    """Compare another implementation's loss and gradient with float64, on few rows.

    All that it is compared with is made before it runs: it has the inputs in its hands.
    """
    given, truth = inputs(CHECKED_ROWS), _double_step(*inputs(CHECKED_ROWS))
    bounds = _bounds(inputs, plain)
    try:
        with users_code():
            found = _step(theirs, *given)
    except ComparatorUnusable as error:
        return [f"it raised {error}"]
    return (
        _changes(given, inputs(CHECKED_ROWS))
        or unlike(dtype, found, truth)
        or coarse_decades(found[1], truth[1], bounds)
    )


def _differences(
    dtype: str, inputs: InputsOf, plain: Loss, theirs: Results, mine: Results
) -> list[str]:
    """Compare another implementation's loss and gradient on all rows with the kernel's."""
    bounds = _bounds(inputs, plain)
    return unlike(dtype, theirs, mine) or coarse_decades(theirs[1], mine[1], bounds)


def _bounds(inputs: InputsOf, plain: Loss) -> list[float]:
    """Return the bounds of another implementation's errors, by decade of the gradient."""
    given = inputs(CHECKED_ROWS)
    return bounds_by_decade(decades_of_errors(_step(plain, *given)[1], _double_step(*given)[1]))


def _changes(given: Results, made_anew: Results) -> list[str]:
    same = all(map(torch.equal, given, made_anew))
    return [] if same else ["it changes its inputs"]


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


def _objections(dtype: str, given: tuple[Tensor, Tensor], mine: Loss, plain: Loss) -> list[str]:
    """Compare loss and gradient with float64; the gradient's largest error may be that of the eager
    reference."""
    loss, grad = _step(mine, *given)
    _, plain_grad = _step(plain, *given)
    # Where p_t rounds to 1, float64 loses bits too, but 29 fewer than fp32.
    truth, true_grad = _double_step(*given)
    found = _wrong_loss("loss", dtype, loss, truth)
    ours, theirs = (_largest_error(s, true_grad) for s in (grad, plain_grad))
    if not ours <= theirs:
        found.append(f"gradient: largest error {ours:.2e}, the eager reference's {theirs:.2e}")
    return found + wrong_elements(dtype, grad, true_grad)


def _objections_to_all(dtype: str, given: tuple[Tensor, Tensor], mine: Loss) -> list[str]:
    """Compare loss and gradient of all rows with those of pieces.

    A gradient too large for the caches is stored past them, those of pieces are not: what is timed
    has to be right, too.
    """
    loss, grad = _step(mine, *given)
    total, wrong = torch.zeros((), dtype=torch.float64), 0
    pieces = (torch.split(t.detach(), PIECE_ROWS) for t in (*given, grad))
    for logits, target, part in zip(*pieces, strict=True):
        of_piece, alone = _step(mine, logits.requires_grad_(), target)
        total += of_piece.double()
        wrong += int((part != alone).sum())
    found = _wrong_loss(f"loss of {SHAPE}", dtype, loss, total)
    if wrong:
        of = f"gradient of {SHAPE}: {wrong} of {grad.numel()} elements"
        found.append(f"{of} differ from those of pieces")
    return found


def _wrong_loss(what: str, dtype: str, loss: Tensor, truth: Tensor) -> list[str]:
    error = abs(loss.double() - truth).item() / truth.item()
    # A dense bf16 loss is finally rounded to bf16, like torchvision's.
    bound = 2.0**-8 if loss.dtype == torch.bfloat16 else LOSS_ERROR[dtype]
    return [] if error <= bound else [f"{what}: relative error {error:.2e}, bound {bound:.0e}"]


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
