"""The surrogates' answers on this host beside those of delegates that compute something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.inference.runner.model import TfliteModel
from agents.inference.runner.spec import RunSpec
from controller.contracts.catalog import load_catalog
from controller.contracts.mobile import LEAST_AGREEMENT, OnDevice
from models.mobile.agreement import agreement
from models.mobile.datasets.load import load_samples
from models.mobile.samples import Samples

SAMPLES = 2
"""Samples of each surrogate; the upscaler has no more."""
Tensors = Sequence[NDArray[Any]]
SURROGATES = {
    name: manifest.on_device
    for name, manifest in load_catalog().workloads.items()
    if manifest.on_device and manifest.on_device.surrogate
}


def another(outputs: Tensors, number: int, tensor: NDArray[Any]) -> Tensors:
    """Return outputs of which one is another tensor."""
    return [tensor if n == number else output for n, output in enumerate(outputs)]


def rolled(number: int, by: int) -> Callable[[Tensors], Tensors]:
    return lambda outputs: another(outputs, number, np.roll(outputs[number], by, axis=1))


def of_first(change: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[Tensors], Tensors]:
    return lambda outputs: another(outputs, 0, change(outputs[0]))


def exchanged(outputs: Tensors) -> Tensors:
    return (outputs[1], outputs[0], *outputs[2:])


WRONG: dict[str, dict[str, Callable[[Tensors], Tensors]]] = {
    "top1": {
        "classes one off": rolled(0, 1),
        "the least likely class": of_first(np.negative),
        "no number": of_first(lambda logits: np.full_like(logits, np.nan)),
    },
    "detections": {
        "rows and columns exchanged": of_first(lambda boxes: boxes[..., [1, 0, 3, 2]]),
        "boxes of other objects": rolled(0, 1),
        "classes one off": lambda outputs: another(outputs, 1, outputs[1] + 1),
        "scores halved": lambda outputs: another(outputs, 2, outputs[2] / 2),
        "none found": lambda outputs: another(outputs, 3, outputs[3] * 0),
    },
    "class_map": {
        "classes one off": of_first(lambda classes: (classes + 1) % 32),
        "rows and columns exchanged": of_first(lambda classes: classes.swapaxes(1, 2)),
        "a map of one class": of_first(np.zeros_like),
    },
    "span": {
        "start and end exchanged": exchanged,
        "starts and ends one off": lambda outputs: rolled(1, 1)(rolled(0, 1)(outputs)),
        "logits of zero": lambda outputs: [output * 0 for output in outputs],
    },
    "upscaled": {
        "red and blue exchanged": of_first(lambda image: image[..., ::-1]),
        "a zero point left out": of_first(lambda image: image - 128),
        "eight rows off": rolled(0, 8),
        "a black image": of_first(np.zeros_like),
    },
}
"""Kind of output → what a delegate may make of a model's right output tensors."""


@cache
def model_of(name: str) -> tuple[TfliteModel, Samples]:
    """Return a surrogate as its host runs it for a reference, and its samples."""
    workload: OnDevice = SURROGATES[name]
    (model,) = workload.models.values()
    ((size, dataset),) = workload.datasets.items()
    assert model.path
    spec = {"model": str(Path(str(files("models"))) / model.path), "dataset": "", "log_dir": ""}
    spec |= {"scenario": "single_stream", "mode": "accuracy", "delegate": "none"}
    spec |= {"answer": workload.output.kind}
    numbers: dict[str, object] = {"min_query_count": 1, "min_duration_ms": 0, "threads": 1}
    numbers |= {"performance_sample_count": 1, "batch_size": 1}
    numbers |= {"input_mean": getattr(workload.input, "mean", 0.0)}
    numbers |= {"input_std": getattr(workload.input, "std", 1.0)}
    assert workload.signature
    kind = workload.signature.inputs[0].types[-1]
    samples = load_samples(dataset, {}, workload.input, f"{name}/{size}", kind)
    return TfliteModel(RunSpec.of({**spec, **numbers})), samples


@cache
def reference_of(name: str, index: int) -> Tensors:
    """Return the output tensors of a sample."""
    model, samples = model_of(name)
    return [output.copy() for output in model.outputs(model.prepare(samples.inputs(index)))]


def agreed(name: str, made: Callable[[Tensors], Tensors]) -> float:
    """Return how a host's answers agree with what a device made of the same tensors."""
    model, samples = model_of(name)
    found = [
        agreement(
            SURROGATES[name].output,
            model.converted(made(reference_of(name, index))).tobytes(),
            model.converted(reference_of(name, index)).tobytes(),
            samples.truth(index),
        )
        for index in range(SAMPLES)
    ]
    return float(np.mean(found))


def test_there_is_a_surrogate_of_each_kind_of_output() -> None:
    assert sorted(of.output.kind for of in SURROGATES.values()) == sorted(WRONG)


@pytest.mark.parametrize("name", SURROGATES)
def test_a_device_that_computes_the_same_agrees_wholly(name: str) -> None:
    assert agreed(name, lambda outputs: [output.copy() for output in outputs]) == 1.0


@pytest.mark.parametrize(
    ("name", "flaw"),
    [(name, flaw) for name in SURROGATES for flaw in WRONG[SURROGATES[name].output.kind]],
)
def test_a_wrong_delegate_shows_at_once(name: str, flaw: str) -> None:
    assert agreed(name, WRONG[SURROGATES[name].output.kind][flaw]) < LEAST_AGREEMENT
