"""Batches on the runner: a `.tflite` model's inputs resized, under the real LoadGen and LiteRT."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agents.inference.on_device_result import of_full_batches
from agents.inference.runner.spec import AT_ONCE
from controller.contracts.result import Blame, Failure, Result, Validity
from controller.contracts.wire import MESSAGE
from models.mobile import classifier, surrogates
from models.mobile.classifier import shapes
from models.mobile.metrics import read_answers
from models.mobile.samples import write_samples
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

SHAPES, SURROGATES = (Path(next(iter(package.__path__))) for package in (classifier, surrogates))
IMAGES = 40


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first images of the shapes."""
    folder = tmp_path_factory.mktemp("images")
    write_samples(shapes.evaluation_set(), folder / "inputs", folder / "truths", IMAGES)
    return folder / "inputs"


def outcome_of(folder: Path, model: Path, **settings: object) -> Result | Failure:
    """Run a model with the runner, as a device does, on random samples unless told otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "model": str(model),
        "dataset": "",
        "log_dir": str(folder / "logs"),
        "scenario": "offline",
        "mode": "accuracy",
        "min_query_count": 64,
        "min_duration_ms": 0,
        "performance_sample_count": IMAGES,
        "threads": 1,
        "delegate": "xnnpack",
        "batch_size": 1,
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec | settings))
    done = subprocess.run(
        [sys.executable, "-m", "agents.inference.runner", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    last = MESSAGE.validate_json(done.stdout.splitlines()[-1])
    assert isinstance(last, Result | Failure), done.stderr
    return last


def result_of(folder: Path, model: Path, **settings: object) -> Result:
    found = outcome_of(folder, model, **settings)
    assert isinstance(found, Result), found
    return found


def answers_of(result: Result, samples: int) -> list[bytes]:
    """Return the answer of each sample, from LoadGen's log."""
    found = read_answers(Path(result.artefacts["loadgen_accuracy"]), samples)
    assert found.objections == ()
    return [bytes(found.by_sample[number]) for number in range(samples)]


@pytest.mark.parametrize(
    ("model", "answer", "samples", "batch"),
    [
        (SHAPES / "shapes_int8.tflite", "top1", IMAGES, 16),
        (SHAPES / "shapes_float32.tflite", "raw", IMAGES, 7),
        (SURROGATES / "mosaic_fp32.tflite", "class_map", 5, 2),
        (SURROGATES / "edsr_fp32.tflite", "upscaled", 3, 2),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else None,
)
def test_a_batch_s_answers_are_those_of_its_samples_alone(
    model: Path, answer: str, samples: int, batch: int, tmp_path: Path, images: Path
) -> None:
    """Bit for bit: XNNPACK computes each sample of these graphs alike, however many there are."""
    said: dict[str, object] = {"answer": answer, "performance_sample_count": samples}
    if model.parent == SHAPES:
        said["dataset"] = str(images)
    one = result_of(tmp_path / "one", model, **said)
    several = result_of(tmp_path / "several", model, **said, batch_size=batch)
    assert answers_of(one, samples) == answers_of(several, samples)
    assert several.environment[AT_ONCE] == batch
    assert AT_ONCE not in one.environment


def test_a_last_batch_is_smaller_also_of_sets_that_loadgen_loads_one_by_one(
    tmp_path: Path, images: Path
) -> None:
    """Of 40 images 15 are held: queries of 15, 15 and 10, in batches of 8, 7, 8, 7, 8 and 2."""
    model = SHAPES / "shapes_int8.tflite"
    said: dict[str, object] = {"dataset": str(images), "performance_sample_count": 15}
    one = result_of(tmp_path / "one", model, **said)
    several = result_of(tmp_path / "several", model, **said, batch_size=8)
    assert answers_of(one, IMAGES) == answers_of(several, IMAGES)


def test_throughput_is_loadgen_s_and_each_sample_has_its_part_of_the_batch_s_time(
    tmp_path: Path, images: Path
) -> None:
    result = result_of(
        tmp_path,
        SHAPES / "shapes_float32.tflite",
        dataset=str(images),
        mode="performance",
        batch_size=24,
    )
    assert result.validity is Validity.VALID, result.reasons
    latencies = tuple(np.load(result.artefacts["latencies"]) / 1e9)
    assert len(latencies) == result.environment["samples"] == 64  # 24 + 24 + 16
    assert len(set(latencies[:24])) == 1
    assert len(of_full_batches(latencies, 24)) == 2
    assert sum(latencies) <= result.metrics["duration"].value
    assert result.environment["delegate"] == "xnnpack"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mobiledet", "failed to"),
        ("mobilenet_edgetpu", "failed to"),
        ("mobilebert", "its output 0 stays (1, 384)"),
    ],
)
@pytest.mark.parametrize("delegate", ["xnnpack", "none"])
def test_a_graph_that_is_bound_to_one_sample_fails_with_a_line(
    name: str, said: str, delegate: str, tmp_path: Path
) -> None:
    model = SURROGATES / f"{name}_fp32.tflite"
    found = outcome_of(tmp_path, model, batch_size=3, performance_sample_count=3, delegate=delegate)
    assert isinstance(found, Failure)
    assert (found.blame, found.kind) == (Blame.USER, "batch_unsupported")
    assert found.message.startswith(f"cannot compute {model} in batches of 3: ")
    assert found.message.endswith(". Set batch_size=1.")
    assert "\n" not in found.message
    if delegate == "xnnpack":
        assert said in found.message
