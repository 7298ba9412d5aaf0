"""CompiledModel beside Interpreter: the same answers, what an option does, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.inference.runner.spec import EXECUTORS
from controller.platform.programs import python_module
from models.mobile.classifier import shapes
from models.mobile.surrogates import data

CLASSIFIER = Path(shapes.__file__).parent
FLOAT, INT8 = CLASSIFIER / "shapes_float32.tflite", CLASSIFIER / "shapes_int8.tflite"
PARTLY = Path(data.__file__).parent / "mosaic_fp32.tflite"
"""XNNPACK does not take its ARG_MAX."""
OPTIONS = EXECUTORS[1:]
FP16_EPSILON = 2.0**-11
"""The relative error of one rounding to 11 bits."""
Case = tuple[Path, str, str, int]
"""A model, its option, its delegate, and how many samples at once."""
CASES: list[Case] = [
    *((model, option, "xnnpack", 1) for model in (FLOAT, INT8) for option in EXECUTORS),
    *((PARTLY, option, "xnnpack", 1) for option in OPTIONS),
    *((FLOAT, option, "none", 1) for option in OPTIONS),
    *((FLOAT, option, "xnnpack", 4) for option in OPTIONS),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[Case, dict[str, Any]]:
    """What each case came to, all in one process."""
    common = {"dataset": "", "scenario": "offline", "mode": "accuracy", "threads": 1}
    common |= {"min_query_count": 1, "min_duration_ms": 0, "performance_sample_count": 1}
    specs = [
        {
            **common,
            "model": str(model),
            "log_dir": str(folder / str(number)),
            "executor": option,
            "delegate": delegate,
            "batch_size": batch,
        }
        for number, (model, option, delegate, batch) in enumerate(CASES)
    ]
    command = python_module("tests.support.graph_answers")
    done = subprocess.run(
        command, input=json.dumps(specs), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("model", [FLOAT, INT8], ids=lambda path: path.stem)
@pytest.mark.parametrize("option", ["compiled", "cache"])
def test_answers_are_the_interpreter_s_bit_for_bit(
    told: dict[Case, dict[str, Any]], option: str, model: Path
) -> None:
    mine, theirs = (told[model, o, "xnnpack", 1] for o in (option, "interpreter"))
    for said in ("answers", "types", "delegated"):
        assert mine[said] == theirs[said]
    cache = {"xnnpack_cache_bytes"} if option == "cache" else set()
    assert mine["facts"].keys() == {"load_to_answer_s"} | cache
    assert theirs["facts"] == {}


def test_the_cache_has_the_weights_and_is_gone_from_what_the_run_fetches(
    told: dict[Case, dict[str, Any]], folder: Path
) -> None:
    packed = told[FLOAT, "cache", "xnnpack", 1]["facts"]["xnnpack_cache_bytes"]
    # Nearly all of the file are weights, and packing pads them.
    assert 0.9 * FLOAT.stat().st_size < packed < 3 * FLOAT.stat().st_size
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_fp16_is_what_computes(told: dict[Case, dict[str, Any]]) -> None:
    """Answers differ by roundings to 11 bits through 12 layers, and by no more."""
    mine, theirs = (
        np.array(told[FLOAT, option, "xnnpack", 1]["answers"]) for option in ("fp16", "interpreter")
    )
    error = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
    assert FP16_EPSILON / 16 < error < 12 * FP16_EPSILON


@pytest.mark.parametrize(
    ("case", "why"),
    [
        *(((PARTLY, o, "xnnpack", 1), "XNNPACK takes 1 of the graph's 2 nodes") for o in OPTIONS),
        *(((FLOAT, o, "none", 1), "XNNPACK takes 0 of the graph's 12 nodes") for o in OPTIONS),
        (
            (INT8, "fp16", "xnnpack", 1),
            "its answers are those without FP16, which none of its nodes uses",
        ),
    ],
)
def test_what_can_t_be_shown_to_have_run_is_refused(
    told: dict[Case, dict[str, Any]], case: Case, why: str
) -> None:
    model, option, *_ = case
    said = f"cannot run {model} with xnnpack={option}: {why}. Set xnnpack=interpreter."
    assert told[case] == {"fault": ["xnnpack_unsupported", "user", said]}


@pytest.mark.parametrize("option", OPTIONS)
def test_batches_are_refused(told: dict[Case, dict[str, Any]], option: str) -> None:
    kind, blame, said = told[FLOAT, option, "xnnpack", 4]["fault"]
    assert (kind, blame) == ("batch_unsupported", "user")
    assert f"xnnpack={option} takes one at a time. Set batch_size=1." in said
