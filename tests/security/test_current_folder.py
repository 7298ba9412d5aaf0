"""Nothing of the current folder is imported, whatever benchfarm is asked for there, and nothing of
the caller's environment reaches what a farm starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.platform.processes import FARM_MARKER
from controller.platform.programs import python_module
from tests.integration.farm import (
    BENCHFARM,
    TestFarm,
    cmdline,
    endless_sweep,
    farm_up,
    short_sweep,
)
from tests.support.shadowing_folder import ShadowingFolder
from tests.support.waiting import COMMAND_S, eventually

SECRET = "/of-the-caller"
SET = (
    *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SMART_PLUG_PASSWORD", "BENCHFARM_KERNELS"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONBREAKPOINT", "LD_PRELOAD", "LD_LIBRARY_PATH"),
    *("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_RUNTIME_ENV_HOOK", "RAY_JOB_NAME", "KMP_BLOCKTIME"),
)
"""Variables of a shell that `benchfarm up` is called from."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> ShadowingFolder:
    return ShadowingFolder.make(tmp_path_factory.mktemp("planted"))


def run_in(planted: ShadowingFolder, home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONSAFEPATH", FARM_MARKER)}
    return subprocess.run(
        command,
        cwd=planted.path,
        env={**environ, "BENCHFARM_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def test_the_folder_catches_a_program_that_is_started_otherwise(tmp_path: Path) -> None:
    planted = ShadowingFolder.make(tmp_path / "planted")
    done = run_in(planted, tmp_path, sys.executable, "-m", "models.mobile", "list")
    assert done.returncode != 0
    assert planted.imported != []


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("--help", 0),
        ("models list", 0),
        ("stacks list", 0),
        ("stacks show torch", 0),
        ("stacks install torch", 0),
        ("bundle build litert-none", 2),
        ("machine peaks --stack none", 2),
        ("kernels check none", 2),
        ("phone virtual --profile none", 2),
        ("bench compare --trials 1 --time-limit 1", 0),
        ("sweep validate none.yaml", 2),
        ("device list", 2),
        ("results list", 2),
    ],
)
def test_no_command_imports_from_the_current_folder(
    planted: ShadowingFolder, tmp_path: Path, arguments: str, status: int
) -> None:
    done = run_in(planted, tmp_path, str(BENCHFARM), *arguments.split())
    assert (planted.imported, done.returncode) == ([], status), done.stderr


def test_no_module_of_ours_does_when_started_by_itself(
    planted: ShadowingFolder, tmp_path: Path
) -> None:
    for module in ("agents", "agents.joined", "agents.worker", "agents.phone_command"):
        done = run_in(planted, tmp_path, *python_module(module))
        assert (planted.imported, done.returncode != 0) == ([], True), done.stderr


@pytest.fixture(scope="module")
def farm(planted: ShadowingFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFarm]:
    """A farm whose every command is given in the planted folder, in an environment like it."""
    within = ("env", "-C", str(planted.path), *(f"{name}={SECRET}" for name in SET))
    with farm_up(tmp_path_factory.mktemp("farm"), within=within) as farm:
        yield farm


@pytest.mark.integration
@pytest.mark.farm
def test_no_process_of_a_farm_does(farm: TestFarm, planted: ShadowingFolder) -> None:
    sweep = farm.submit(short_sweep("planted"))
    waited = farm.cli("sweep", "watch", sweep)
    assert (planted.imported, waited.status) == ([], 0), waited.err


@pytest.mark.integration
@pytest.mark.farm
def test_no_process_of_a_farm_has_what_its_caller_had_set(farm: TestFarm) -> None:
    sweep = farm.submit(endless_sweep("endless"))
    (worker,) = eventually(lambda: farm.processes("agents.worker"), "the worker")
    assert worker.environ().keys() >= {"PATH", "PYTHONSAFEPATH", "OMP_NUM_THREADS"}
    found = {
        (name, " ".join(cmdline(process))[:60])
        for process in farm.processes("")
        for name, value in process.environ().items()
        if SECRET in value
    }
    assert found == set()
    assert farm.cli("sweep", "cancel", sweep).status == 0
