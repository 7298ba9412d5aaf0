"""Outputs of a model → the answer in LoadGen's log."""

from __future__ import annotations

import numpy as np
import pytest

from agents.inference.runner.answers import ANSWERS, Outputs, Quantisation


def answer(kind: str, *tensors: np.ndarray, first_class: int = 0) -> np.ndarray:
    none = Quantisation(0.0, 0)
    return ANSWERS[kind](Outputs(tensors, [none] * len(tensors), first_class))


@pytest.mark.parametrize("kind", ["uint8", "int8", "float32"])
def test_the_background_is_never_the_answer(kind: str) -> None:
    """The app ranks the outputs from the task's offset on."""
    scores = np.array([[100, 3, 90, 7]], kind)
    assert answer("top1", scores, first_class=1).tolist() == [2]
    assert answer("top1", scores).tolist() == [0]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("float32", [0.0, 0.999, 254.999, 255.0], [0, 0, 254, 255]),
        ("float32", [-0.5, -1.0, -300.0, 256.0, 300.7], [0, 255, 212, 0, 44]),  # it is not clipped
        ("int8", [-128, -1, 0, 127], [0, 127, 128, 255]),
        ("uint8", [0, 127, 255], [0, 127, 255]),
    ],
)
def test_pixels_are_converted_as_the_app_does_it(
    kind: str, given: list[float], expected: list[int]
) -> None:
    image = np.array(given, kind).reshape(1, 1, -1, 1)
    found = answer("upscaled", image)
    assert found.dtype == np.uint8
    assert found.ravel().tolist() == expected


def test_steps_of_an_image_are_pixels_whatever_their_quantisation() -> None:
    image = np.array([[[[-128, 127, 0]]]], np.int8)
    outputs = Outputs([image], [Quantisation(0.5, 3)])
    assert ANSWERS["upscaled"](outputs).ravel().tolist() == [0, 255, 128]


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "float32"])
def test_classes_of_pixels_of_any_type(kind: str) -> None:
    classes = np.array([[[0, 31], [7, 255]]], kind)
    assert answer("class_map", classes).tolist() == [[0, 31], [7, 255]]
    assert answer("class_map", classes[..., np.newaxis]).tolist() == [[0, 31], [7, 255]]
    scores = np.array([[[[1, 3, 2], [5, 4, 0]]]], kind)
    assert answer("class_map", scores).tolist() == [[1, 0]]
