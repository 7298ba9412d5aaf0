"""`python -m tests.support.compare_torchvision SIZE…`: ours and torchvision's RetinaNet, one step.

Runs in the environment of stack ipex, where torchvision is. Prints relative differences as JSON, a
line for each image size.
"""

from __future__ import annotations

import json
import sys

import torch
from torch import Tensor, nn

from models.retinanet.frozen_norm import FrozenBatchNorm2d
from models.retinanet.model import RetinaNet
from models.retinanet.torchvision_reference import TorchvisionTraining
from models.retinanet.workload import RetinaNetTraining
from tests.support.knobs import retinanet_arguments


class TrainedLooking(RetinaNetTraining):
    """Norms that do something: fresh ones are the identity. The same on every call."""

    def build_model(self) -> RetinaNet:
        model = super().build_model()
        generator = torch.Generator().manual_seed(11)
        for norm in model.modules():
            if isinstance(norm, FrozenBatchNorm2d):
                for buffer in (norm.weight, norm.running_var):
                    buffer.uniform_(0.5, 1.5, generator=generator)
                for buffer in (norm.bias, norm.running_mean):
                    buffer.uniform_(-0.2, 0.2, generator=generator)
        return model


def difference(mine: Tensor, theirs: Tensor) -> float:
    """Return the largest difference, relative to the largest value."""
    return ((mine - theirs).abs().max() / theirs.abs().max()).item()


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def compare(size: int) -> dict[str, float]:
    """Return the relative differences of one step."""
    ours = TrainedLooking(**retinanet_arguments(image_size=size, batch_size=2))
    theirs = TorchvisionTraining(ours)
    batch, model, reference = ours.batch(0), ours.build_model(), theirs.build_model()

    outputs = ours.forward(model, batch)
    images = (batch.images - model.mean) / model.std
    expected = reference.get_submodule("head")(
        list(reference.get_submodule("backbone")(images).values())
    )
    loss = ours.loss(outputs, batch)
    expected_loss = theirs.loss(theirs.forward(reference, batch), batch)
    torch.autograd.backward([loss, expected_loss])
    mine, wanted = gradients(model), gradients(reference)
    assert mine.keys() == wanted.keys()
    return {
        "cls_logits": difference(outputs.cls_logits, expected["cls_logits"]),
        "bbox_regression": difference(outputs.bbox_regression, expected["bbox_regression"]),
        "loss": difference(loss, expected_loss),
        "gradient": max(difference(mine[name], wanted[name]) for name in wanted),
    }


def main() -> None:
    for size in map(int, sys.argv[1:]):
        sys.stdout.write(json.dumps(compare(size)) + "\n")


if __name__ == "__main__":
    main()
