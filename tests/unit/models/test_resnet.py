from __future__ import annotations

import inspect

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from controller.contracts.catalog import load_catalog
from models.resnet import ResNet, Resnet18Training, Resnet50Training, ResnetTraining
from tests.support.knobs import workload_arguments
from tests.support.workloads import losses_on_one_batch

WORKLOADS = {"resnet18": Resnet18Training, "resnet50": Resnet50Training}


def small(name: str, fused_optimizer: bool = False) -> ResnetTraining:
    sizes = {"image_size": 64, "batch_size": 4, "num_classes": 3}
    arguments = workload_arguments(name, **sizes, fused_optimizer=fused_optimizer)
    return WORKLOADS[name](**arguments)


@pytest.mark.parametrize(
    ("workload", "parameters", "multiplications"),
    [
        (Resnet18Training, 11_689_512, 1_814_073_344),
        (Resnet50Training, 25_557_032, 4_089_184_256),
    ],
)
def test_size_and_work_are_the_papers(
    workload: type[ResnetTraining], parameters: int, multiplications: int
) -> None:
    with torch.device("meta"):
        model = ResNet(workload.BLOCK, workload.BLOCKS, num_classes=1000)
        image = torch.empty(1, 3, 224, 224)
    assert sum(p.numel() for p in model.parameters()) == parameters
    with FlopCounterMode(display=False) as counter:
        assert model(image).shape == (1, 1000)
    assert counter.get_total_flops() == 2 * multiplications


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("fused", [False, True])
def test_steps_are_repeatable_and_lower_the_loss(name: str, fused: bool) -> None:
    workload = small(name, fused)
    losses = losses_on_one_batch(workload, workload.build_model(), steps=6)
    assert losses[-1] < 0.8 * losses[0]
    assert losses_on_one_batch(workload, workload.build_model(), steps=2) == losses[:2]


@pytest.mark.parametrize("name", WORKLOADS)
def test_knobs_are_its_arguments(name: str) -> None:
    knobs = load_catalog().workloads[name].knobs
    arguments = inspect.signature(WORKLOADS[name]).parameters
    assert knobs.keys() == arguments.keys()
    assert all(a.default is inspect.Parameter.empty for a in arguments.values())
