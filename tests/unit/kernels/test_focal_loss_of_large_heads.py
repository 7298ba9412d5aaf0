"""Gradients too large for caches are stored past them: the same numbers as in small pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import kernels.ops.sigmoid_focal_loss
import kernels.ops.sigmoid_focal_loss_from_labels  # noqa: F401 - registers the operator

PAST_CACHES = 32 << 20
"""From here on, in bytes, `should_stream` of vec.h says yes to an aligned array."""
PIECE_ROWS = 4_000
CLASSES = 264
ROWS = {torch.float32: 33_000, torch.bfloat16: 66_000}


@pytest.fixture(scope="module", params=ROWS)
def logits(request: pytest.FixtureRequest) -> Tensor:
    dtype: torch.dtype = request.param
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS[dtype], CLASSES, generator=generator, dtype=dtype) * 3


# The operators' backward passes alone: the forward ones would double the time.


def of_labels(logits: Tensor) -> Tensor:
    # Classes, background and ignored rows, by a number of each row's own.
    labels = (logits[:, 0] * 97).to(torch.int64) % (CLASSES + 2) - 1
    operator = torch.ops.benchfarm.sigmoid_focal_loss_from_labels_backward
    found: Tensor = operator(torch.ones(()), logits, labels, 0.25, 2.0, CLASSES, -1)
    return found


def of_dense_targets(logits: Tensor) -> Tensor:
    targets = (logits > 6).to(logits.dtype)
    operator = torch.ops.benchfarm.sigmoid_focal_loss_backward
    found: Tensor = operator(torch.ones(()), logits, targets, 0.25, 2.0)
    return found


@pytest.mark.parametrize("gradient", [of_labels, of_dense_targets])
def test_a_large_gradient_is_that_of_its_pieces(
    variant: str, logits: Tensor, gradient: Callable[[Tensor], Tensor]
) -> None:
    found = gradient(logits)
    assert found.nbytes >= PAST_CACHES
    assert found.data_ptr() % 64 == 0
    for some, piece in zip(*(torch.split(t, PIECE_ROWS) for t in (found, logits)), strict=True):
        assert torch.equal(some, gradient(piece))
