"""The mean of what the ranks' shares give is what the whole batch gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from models.dlrm import DlrmTraining
from models.language import EncoderTraining, LstmTraining
from models.training import SharedWorkload
from tests.support.knobs import retinanet_arguments, workload_arguments
from tests.support.shallow_retinanet import ShallowRetinaNet

TEXT = {"layers": 1, "hidden_size": 64, "sequence_length": 12, "vocabulary_size": 50}


def lstm() -> LstmTraining:
    return LstmTraining(**workload_arguments("lstm", batch_size=4, **TEXT))


def encoder() -> EncoderTraining:
    return EncoderTraining(**workload_arguments("transformer_encoder", batch_size=4, **TEXT))


def dlrm() -> DlrmTraining:
    return DlrmTraining(**workload_arguments("dlrm", batch_size=4, tables=3, table_rows=10))


def retinanet() -> ShallowRetinaNet:
    return ShallowRetinaNet(**retinanet_arguments(image_size=96, batch_size=2, num_classes=5))


def gradients(workload: SharedWorkload[Any, Any], batch: object) -> tuple[float, list[Tensor]]:
    model = workload.build_model()
    loss = workload.loss(workload.forward(model, batch), batch)
    torch.autograd.backward(loss)
    return loss.item(), [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("make", [lstm, encoder, dlrm, retinanet])
def test_the_mean_over_shares_is_the_batch_s(make: Any) -> None:  # noqa: ANN401
    workload: SharedWorkload[Any, Any] = make()
    batch = workload.batch(0)
    loss, whole = gradients(workload, batch)
    shares = [gradients(workload, workload.share(batch, rank, 2)) for rank in range(2)]
    # fp32: the sums over the batch are in another order; about 1e-6 of the largest gradient.
    assert sum(loss for loss, _ in shares) / 2 == pytest.approx(loss, rel=1e-5)
    for gradient, *own in zip(whole, *(found for _, found in shares), strict=True):
        limit = 1e-4 * gradient.abs().max().item()
        torch.testing.assert_close(sum(own) / 2, gradient, rtol=0, atol=limit)
