"""A model's profiled step, run once for all tests of profiles."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from controller.platform.programs import python_module
from controller.profiles.model import Profile
from tests.support.made_once import made_once
from tests.support.recorded_profiles import recorded_profile

ROOT = Path(__file__).parents[3]


def run_module(module: str, folder: Path) -> None:
    """Run a module of tests.support in a process of its own, quietly."""
    command = python_module(f"tests.support.{module}", str(folder))
    environ = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
    subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which tests.support.profiled_model has written, once in a run of tests."""
    return made_once(tmp_path_factory, "profiled", partial(run_module, "profiled_model"))


@pytest.fixture(scope="session")
def profile(profiled: Path) -> Profile:
    """What those files come to."""
    return recorded_profile(profiled)
