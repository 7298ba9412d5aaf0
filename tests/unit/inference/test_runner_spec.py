"""What the runner accepts as a spec and as a data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import RunnerFault
from agents.inference.runner.spec import RunSpec

GIVEN: dict[str, object] = {
    "model": "m.tflite",
    "dataset": "d.npz",
    "log_dir": "logs",
    "scenario": "offline",
    "mode": "performance",
    "min_query_count": 64,
    "min_duration_ms": 0,
    "performance_sample_count": 1024,
    "threads": 1,
    "delegate": "xnnpack",
    "batch_size": 1,
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
        (
            {"scenario": "training"},
            "scenario must be one of single_stream, multi_stream, offline, server, not 'training'",
        ),
        ({"target_qps": 0.0}, "target_qps must be positive, not 0.0"),
        ({"mode": "fast"}, "mode must be one of performance, accuracy, not 'fast'"),
        ({"threads": 0}, "threads must be at least 1, not 0"),
        ({"threads": True}, "threads must be int, not True"),
        ({"threads": "2"}, "threads must be int, not '2'"),
        ({"min_duration_ms": -1}, "min_duration_ms must not be negative, not -1"),
        ({"input_std": 0.0}, "input_std must be positive, not 0.0"),
        ({"input_std": float("nan")}, "input_std must be positive, not nan"),
        ({"thread": 2}, "unknown key thread"),
        ({"scenario": "multi_stream"}, "samples_per_query is missing"),
        (
            {"samples_per_query": 0},
            "samples_per_query must be at least 1, not 0",
        ),
        ({"scenario": "server", "target_qps": 1.0}, "target_latency_ms is missing"),
        ({"scenario": "server", "target_latency_ms": 1.0}, "target_qps is missing"),
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


def test_inputs_are_read_by_their_numbers(tmp_path: Path) -> None:
    for number in (0, 1, 10, 2):
        np.save(tmp_path / f"input_{number}.npy", np.full((3, 2), number))
    data = Dataset.read(tmp_path)
    assert len(data) == 3
    assert [int(part[0]) for part in data[1]] == [0, 1, 2, 10]


@pytest.mark.parametrize(
    ("files", "objection"),
    [
        ({}, "it has no input_0.npy"),
        ({"input_0.npy": b""}, "No data left in file"),
        ({"input_0.npy": b"\x93NUMPY"}, "expected"),
        ({"input_x.npy": b"x"}, "invalid literal"),
    ],
)
def test_an_unusable_data_set_is_named(
    files: dict[str, bytes], objection: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RunnerFault, match=objection) as caught:
        Dataset.read(tmp_path)
    assert caught.value.kind == "dataset_unusable"


@pytest.mark.parametrize("counts", [(2, 3), (0, 0)])
def test_inputs_of_unequal_length_are_a_fault(counts: tuple[int, ...], tmp_path: Path) -> None:
    for number, count in enumerate(counts):
        np.save(tmp_path / f"input_{number}.npy", np.zeros((count, 2)))
    with pytest.raises(RunnerFault, match="its inputs have"):
        Dataset.read(tmp_path)
