"""The whole library under AddressSanitizer and UndefinedBehaviorSanitizer, every variant."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import build
from kernels.library import REFERENCE, choose
from tests.support.sanitized.exported import exported
from tests.support.sanitized.inputs import Step
from tests.support.sanitized.steps import STEPS

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build(tmp_path_factory.mktemp("sanitized") / "library.so", build.SANITIZED)


def run(library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    runtimes = [
        subprocess.run(
            [*compiler, f"-print-file-name=lib{name}.so"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.strip()
        for name in ("asan", "ubsan")
    ]
    return subprocess.run(
        [sys.executable, "-m", "tests.support.sanitized", str(library), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LD_PRELOAD": ":".join(runtimes),
            "OMP_NUM_THREADS": "2",  # work is split, too
            # Python leaves memory to the end of its process.
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_step_leaves_its_arrays_and_nothing_is_undefined(library: Path) -> None:
    variants = [name for name in choose("", build.LIBRARY).supported if name != REFERENCE]
    assert "scalar" in variants
    done = run(library, ",".join(variants))
    assert (done.returncode, done.stderr) == (0, "")
    *called, end = done.stdout.splitlines()
    assert end == "all done"
    assert set(called) == exported(library)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_step_beyond_is_caught(library: Path, step: Step) -> None:
    done = run(library, "avx2", step.__name__)
    assert done.returncode != 0
    assert "ERROR: AddressSanitizer" in done.stderr
