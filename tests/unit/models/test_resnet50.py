from __future__ import annotations

import inspect

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from controller.contracts.catalog import load_catalog
from models.resnet50 import ResNet50, Resnet50Training
from tests.support.knobs import workload_arguments
from tests.support.workloads import losses_on_one_batch


def test_size_and_work_are_those_of_resnet50() -> None:
    model = ResNet50(num_classes=1000)
    assert sum(p.numel() for p in model.parameters()) == 25_557_032
    with torch.device("meta"):
        model, image = ResNet50(num_classes=1000), torch.empty(1, 3, 224, 224)
    with FlopCounterMode(display=False) as counter:
        assert model(image).shape == (1, 1000)
    assert counter.get_total_flops() == 2 * 4_089_184_256


@pytest.mark.parametrize("fused", [False, True])
def test_steps_are_repeatable_and_lower_the_loss(fused: bool) -> None:
    arguments = workload_arguments(
        "resnet50", image_size=64, batch_size=4, num_classes=3, fused_optimizer=fused
    )
    workload = Resnet50Training(**arguments)
    losses = losses_on_one_batch(workload, workload.build_model(), steps=6)
    assert losses[-1] < 0.8 * losses[0]
    assert losses_on_one_batch(workload, workload.build_model(), steps=2) == losses[:2]


def test_knobs_are_its_arguments() -> None:
    knobs = load_catalog().workloads["resnet50"].knobs
    arguments = inspect.signature(Resnet50Training).parameters
    assert knobs.keys() == arguments.keys()
    assert all(a.default is inspect.Parameter.empty for a in arguments.values())
