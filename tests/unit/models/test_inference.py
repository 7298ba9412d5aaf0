"""Inference of the training workloads' models: seeded samples, and an answer for each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from models.inference import InferenceWorkload
from models.resnet import Resnet50Training
from models.retinanet.workload import RetinaNetTraining
from tests.support.knobs import retinanet_arguments, workload_arguments

SMALL = {"image_size": 96, "num_classes": 8, "batch_size": 2}


def resnet() -> Resnet50Training:
    return Resnet50Training(**workload_arguments("resnet50", **SMALL))


def retinanet() -> RetinaNetTraining:
    return RetinaNetTraining(**retinanet_arguments(**SMALL))


@pytest.mark.parametrize("workload", [resnet(), retinanet()], ids=["resnet50", "retinanet"])
def test_samples_are_the_seed_s_and_differ(workload: Resnet50Training | RetinaNetTraining) -> None:
    samples = workload.samples(3)
    assert samples.shape == (3, 3, 96, 96)
    assert samples.equal(workload.samples(3))
    assert not samples[0].equal(samples[1])


@torch.inference_mode()
def test_a_class_of_each_image_whatever_is_computed_with_it() -> None:
    workload: InferenceWorkload[torch.Tensor] = resnet()
    model, samples = workload.build_model().eval(), workload.samples(3)
    together = workload.answers(model(*workload.arguments(samples)))
    alone = [workload.answers(model(*workload.arguments(each[None])))[0] for each in samples]
    assert [answer.shape for answer in together] == [(1,)] * 3
    assert torch.stack(list(together)).equal(torch.stack(alone))


@torch.inference_mode()
def test_detections_of_each_image_in_the_order_of_a_device_s_answers() -> None:
    workload = retinanet()
    model = workload.build_model().eval()
    nothing = workload.answers(model(*workload.arguments(workload.samples(2))))
    assert [answer.shape for answer in nothing] == [(0, 6)] * 2, "random weights are unsure"
    bias = model.get_submodule("head.classification_head.cls_logits").get_parameter("bias")
    nn.init.constant_(bias, 2.0)
    for rows in workload.answers(model(*workload.arguments(workload.samples(2)))):
        top, left, bottom, right, label, score = rows.unbind(1)
        assert len(rows) > 0
        assert bool(((top >= 0) & (top <= bottom) & (bottom <= 96)).all())
        assert bool(((left >= 0) & (left <= right) & (right <= 96)).all())
        assert bool(((label >= 0) & (label < 8)).all())
        assert bool((score > 0.05).all())
