"""Wrong results that the cases' own checks must see, and the bytes that a case counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.bench import losses
from kernels.bench.case import Case, bytes_of
from kernels.bench.losses import BACKGROUND, IGNORED, loss_case
from kernels.bench.registry import operators
from kernels.ops.sigmoid_focal_loss_from_labels import sigmoid_focal_loss_from_labels
from kernels.reference import focal_loss as reference

Change = Callable[[Tensor], Tensor]
FEW_ROWS = 40_000
"""Gradients of more rows than this are stored past the caches, in either dtype."""


def planted(dtype: str, change: Change) -> Case:
    """Return the case of a loss whose gradient is changed on its way back."""

    def mine(logits: Tensor, labels: Tensor) -> Tensor:
        given = logits.clone()
        given.register_hook(change)  # type: ignore[no-untyped-call] # torch's
        return sigmoid_focal_loss_from_labels(
            given, labels, ignore_index=IGNORED, background=BACKGROUND
        )

    plain = partial(
        reference.sigmoid_focal_loss_from_labels, ignore_index=IGNORED, background=BACKGROUND
    )
    return loss_case(dtype, lambda labels, _: labels, mine, plain)


def without_small_ones(gradient: Tensor) -> Tensor:
    """Leave out the easy negatives: all that is below eager mode's largest error."""
    least = {torch.float32: 1e-7, torch.bfloat16: 9e-4}[gradient.dtype]
    return gradient * (gradient.abs() > least)


def one_wrong_of_many(gradient: Tensor) -> Tensor:
    """Change one element of many, behind all that float64 checks."""
    gradient = gradient.clone()
    if len(gradient) > FEW_ROWS:
        gradient[-1, 7] += 1.0
    return gradient


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_small_ones, r"gradient: \d+ of \d+ elements differ by more than"),
        (one_wrong_of_many, f"gradient of {losses.SHAPE}: 1 of .* differ from those of pieces"),
    ],
)
def test_a_wrong_gradient_is_seen(dtype: str, change: Change, said: str) -> None:
    (objection,) = planted(dtype, change).objections()
    assert re.match(said, objection), objection


@pytest.mark.parametrize("op", ["sigmoid_focal_loss", "sigmoid_focal_loss_from_labels"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_kernels_losses_are_right(variant: str, op: str, dtype: str) -> None:
    assert operators()[op].case(dtype, losses.SHAPE).objections() == []


class Moved(TorchDispatchMode):
    """The bytes that calls of the compiled operators read and write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch's
        self.calls: list[int] = []

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        made = func(*args, **(kwargs or {}))
        if func.namespace == "benchfarm":
            self.calls.append(bytes_of(*tensors((*args, made))))
        return made


def tensors(found: object) -> list[Tensor]:
    """Return all tensors of nested tuples."""
    if isinstance(found, tuple):
        return [tensor for part in found for tensor in tensors(part)]
    return [found] if isinstance(found, Tensor) else []


# Winograd's pass their transformed weight on, which not every implementation makes. Post-processing
# reads of offsets and anchors only those of its candidates. Adam's step writes what it reads, and
# returns nothing.
APART = {"adam_step", "winograd_convolution", "detection_postprocess"}


@pytest.mark.parametrize("op", sorted(operators().keys() - APART))
def test_a_case_counts_all_that_is_read_and_written(op: str) -> None:
    operator = operators()[op]
    for dtype in operator.dtypes:
        case = operator.case(dtype, operator.shapes[0])
        with Moved() as moved:
            case.kernel()
        counted = [*case.passes.values()] or [case.moved_bytes]
        # A scalar, or a number a channel, is less than a thousandth.
        assert counted == pytest.approx(moved.calls, rel=1e-3)


def test_a_step_of_adam_reads_and_writes_masters_and_moments() -> None:
    """4 bytes six times, and a gradient of 4, or gradient and weight of 2."""
    operator = operators()["adam_step"]
    for dtype in operator.dtypes:
        case = operator.case(dtype, operator.shapes[0])
        assert case.moved_bytes == 7 * case.largest_bytes


def test_detections_are_written() -> None:
    operator = operators()["detection_postprocess"]
    case = operator.case("fp32", operator.shapes[0])
    found = tensors(case.kernel())
    assert len(found[0]) > 0
    assert case.moved_bytes == case.largest_bytes + bytes_of(*found)


def test_winograds_passes_read_and_write_their_arrays() -> None:
    operator = operators()["winograd_convolution"]
    case = operator.case("fp32", operator.shapes[0])
    y, *gradients = tensors(case.kernel())
    of_inputs, of_x_and_weight = bytes_of(*gradients), bytes_of(*gradients[:2])
    assert case.passes["forward"] == of_inputs + bytes_of(y)
    assert case.passes["backward"] == bytes_of(y) + of_x_and_weight + of_inputs
