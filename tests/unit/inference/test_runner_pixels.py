"""Pixels → the input tensor: integer models take the pixels, whatever their quantisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.inference.runner.faults import RunnerFault
from agents.inference.runner.model import TfliteModel
from agents.inference.runner.spec import RunSpec
from tests.support.resize_model import resize_model

PIXELS = np.array([[[0, 1, 127], [128, 254, 255]]], np.uint8)


def loaded(folder: Path, kind: str, **said: object) -> TfliteModel:
    """Load a model that takes one row of two pixels."""
    file = folder / "model.tflite"
    file.write_bytes(resize_model((1, 2), (1, 2), kind=kind))
    needed: dict[str, Any] = {"model": str(file), "dataset": "", "log_dir": "", "threads": 1}
    needed |= {"batch_size": 1}
    needed |= {"scenario": "offline", "mode": "accuracy", "delegate": "none"}
    needed |= {"min_query_count": 1, "min_duration_ms": 0, "performance_sample_count": 1}
    needed["batch_size"] = 1
    return TfliteModel(RunSpec.of(needed | said))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("uint8", [0, 1, 127, 128, 254, 255]), ("int8", [-128, -127, -1, 0, 126, 127])],
)
def test_integer_models_take_the_pixels(kind: str, expected: list[int], tmp_path: Path) -> None:
    (tensor,) = loaded(tmp_path, kind, input_mean=127.5, input_std=127.5).prepare([PIXELS])
    assert (tensor.dtype.name, tensor.shape) == (kind, (1, 1, 2, 3))
    assert tensor.ravel().tolist() == expected


def test_float_models_take_normalised_pixels(tmp_path: Path) -> None:
    (tensor,) = loaded(tmp_path, "float32", input_mean=127.5, input_std=127.5).prepare([PIXELS])
    assert tensor.ravel().tolist() == pytest.approx([(p - 127.5) / 127.5 for p in PIXELS.ravel()])
    each = loaded(tmp_path, "float32", input_mean=[0, 1, 127], input_std=2)
    assert each.prepare([PIXELS])[0].ravel().tolist() == [0, 0, 0, 64, 126.5, 64]


def test_what_is_normalised_already_stays(tmp_path: Path) -> None:
    real = np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 2, 3)
    (tensor,) = loaded(tmp_path, "float32", input_mean=127.5).prepare([real])
    assert np.array_equal(tensor[0], real)
    with pytest.raises(RunnerFault, match=r"inputs are float32, .* takes uint8"):
        loaded(tmp_path, "uint8").prepare([real])


def test_a_model_of_wider_integers_takes_no_pixels(tmp_path: Path) -> None:
    with pytest.raises(RunnerFault, match="takes int16, and no pixels"):
        loaded(tmp_path, "int16").prepare([PIXELS])


@pytest.mark.parametrize("mean", [[], [1, 2], [1, 2, "3"], [True, 1, 2]])
def test_a_mean_is_one_number_or_three(mean: list[object], tmp_path: Path) -> None:
    with pytest.raises(RunnerFault, match="input_mean must have three numbers, not"):
        loaded(tmp_path, "uint8", input_mean=mean)
