"""What the runner accepts as a spec and as a data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agents.android.runner.dataset import Dataset
from agents.android.runner.faults import RunnerFault
from agents.android.runner.spec import RunSpec

GIVEN: dict[str, object] = {
    "model": "m.tflite",
    "dataset": "d.npz",
    "log_dir": "logs",
    "scenario": "offline",
    "mode": "performance",
    "min_query_count": 64,
    "min_duration_ms": 0,
    "performance_sample_count": 1024,
}


def test_a_spec_is_its_json(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(GIVEN | {"threads": 2, "input_mean": 127, "die_with_stdin": True}))
    spec = RunSpec.read(path)
    assert (spec.scenario, spec.threads, spec.input_mean, spec.die_with_stdin) == (
        "offline",
        2,
        127,
        True,
    )


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        ({"scenario": "server"}, "scenario must be one of single_stream, offline, not 'server'"),
        ({"mode": "fast"}, "mode must be one of performance, accuracy, not 'fast'"),
        ({"threads": 0}, "threads must be at least 1, not 0"),
        ({"threads": True}, "threads must be int, not True"),
        ({"threads": "2"}, "threads must be int, not '2'"),
        ({"min_duration_ms": -1}, "min_duration_ms must not be negative, not -1"),
        ({"input_std": 0.0}, "input_std must be positive, not 0.0"),
        ({"input_std": float("nan")}, "input_std must be positive, not nan"),
        ({"thread": 2}, "unknown key thread"),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, object], objection: str) -> None:
    with pytest.raises(RunnerFault) as caught:
        RunSpec.of(GIVEN | change)
    assert (caught.value.kind, caught.value.blame) == ("spec_invalid", "harness")
    assert caught.value.message == objection


def test_every_missing_key_is_named() -> None:
    with pytest.raises(RunnerFault, match=r"model is missing; dataset is missing; log_dir"):
        RunSpec.of({})


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_spec_that_is_no_object_is_a_fault(text: str, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(RunnerFault, match=r"spec\.json"):
        RunSpec.read(tmp_path / "spec.json")


@pytest.mark.parametrize(
    ("arrays", "objection"),
    [
        ({"images": np.zeros((2, 4, 4, 3), np.float32), "labels": np.zeros(2, int)}, "not uint8"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.zeros(2, int)}, "not uint8"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8), "labels": np.zeros(3, int)}, "for 2 images"),
        ({"images": np.zeros((0, 4, 4, 3), np.uint8), "labels": np.zeros(0, int)}, "no images"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8)}, "labels"),
    ],
)
def test_an_unusable_data_set_is_named(
    arrays: dict[str, np.ndarray], objection: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "set.npz", **arrays)  # type: ignore[arg-type]  # its stub's allow_pickle
    with pytest.raises(RunnerFault, match=objection) as caught:
        Dataset.read(tmp_path / "set.npz")
    assert caught.value.kind == "dataset_unusable"


@pytest.mark.parametrize("content", [b"PK\x03\x04 and then nothing", b"", b"\x93NUMPY", b"x"])
def test_a_data_set_that_is_no_archive_is_a_fault(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "set.npz").write_bytes(content)
    with pytest.raises(RunnerFault, match=r"set\.npz"):
        Dataset.read(tmp_path / "set.npz")


def test_a_single_array_is_not_a_data_set(tmp_path: Path) -> None:
    with (tmp_path / "set.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(RunnerFault, match=r"set\.npz"):
        Dataset.read(tmp_path / "set.npz")
