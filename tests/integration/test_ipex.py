"""Stack ipex where it is installed: benchfarm stacks install ipex."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from agents.stacks.environments import EnvironmentFolder, stacks_folder
from controller.contracts.base import Scalar
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.runtime.home import Home
from controller.scheduling.expansion import cells_of
from tests.integration.farm import SMALLEST
from tests.support import builders
from tests.support.cells import CATALOG, IPEX_HAS_BF16, run_cell
from tests.support.profiled_model import PACKED
from tests.support.recorded_profiles import matched_bodies, recorded_profile, true_bodies
from tests.support.validity import MET_RULES

pytestmark = [pytest.mark.integration, pytest.mark.long]
ROOT = Path(__file__).parents[2]
PRECISION = "bf16" if IPEX_HAS_BF16 else "fp32"
SMALL = {**SMALLEST, "threads": 1, "steps": 2}


@pytest.fixture(scope="module")
def ipex() -> EnvironmentFolder:
    environment = CATALOG.stacks["ipex"].environment
    assert environment is not None
    folder = EnvironmentFolder(stacks_folder(Home.from_environment().path) / "ipex", environment)
    if not folder.is_installed:
        pytest.skip("stack ipex is not installed: benchfarm stacks install ipex")
    return folder


async def outcome_of(folder: Path, ipex: EnvironmentFolder, **knobs: Scalar) -> Outcome:
    sweep = builders.sweep(workload="retinanet_resnext50", stack="ipex", knobs={**SMALL, **knobs})
    (cell,) = cells_of(sweep, CATALOG)
    return await run_cell(cell, folder, ipex.path.parent, deadline_s=250)


@pytest.mark.skipif(IPEX_HAS_BF16, reason="IPEX takes bf16 models on this CPU")
async def test_bf16_without_avx512_is_refused_in_one_line(
    ipex: EnvironmentFolder, tmp_path: Path
) -> None:
    failure = await outcome_of(tmp_path, ipex, precision="bf16")
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.USER, "knobs")
    assert failure.message.startswith("cannot optimize the model for bf16: IPEX lays weights out")


async def test_trains_in_its_own_interpreter(ipex: EnvironmentFolder, tmp_path: Path) -> None:
    outcome = await outcome_of(
        tmp_path, ipex, precision=PRECISION, memory_format="channels_last", ipex_frozen_bn=True
    )
    assert isinstance(outcome, Result), outcome
    assert outcome.validity in MET_RULES
    found = outcome.environment
    assert str(found["torch"]).startswith("2.8.0")
    assert found["ipex_onednn"] is not None
    assert found["ipex_onednn_isa"] == found["onednn_isa"] is not None
    packages = found["packages"]
    assert isinstance(packages, tuple)
    assert "intel_extension_for_pytorch==2.8.0" in packages


async def test_answers_queries_in_its_own_interpreter(
    ipex: EnvironmentFolder, tmp_path: Path
) -> None:
    knobs = {"image_size": 32, "num_classes": 8, "threads": 1, "precision": PRECISION}
    sweep = builders.sweep(workload="resnet50", stack="ipex", scenario="offline", knobs=knobs)
    (cell,) = cells_of(sweep, CATALOG)
    outcome = await run_cell(cell, tmp_path, ipex.path.parent, 250, scenario="offline")
    assert isinstance(outcome, Result), outcome
    assert outcome.validity in MET_RULES
    assert str(outcome.environment["torch"]).startswith("2.8.0")
    assert outcome.metrics["throughput"].value > 0


async def test_scores_a_training_in_its_own_interpreter(
    ipex: EnvironmentFolder, tmp_path: Path
) -> None:
    knobs = {"threads": 1, "images": 2, "batch_size": 2, "num_classes": 2, "steps": 1}
    sweep = builders.sweep(
        workload="retinanet_overfit", stack="ipex", scenario="training_quality", knobs=knobs
    )
    (cell,) = cells_of(sweep, CATALOG)
    outcome = await run_cell(cell, tmp_path, ipex.path.parent, 250)
    assert isinstance(outcome, Result), outcome
    assert outcome.reasons[-1] == "mAP is 0 after 1 steps, below 0.5"


async def test_norms_that_are_not_there_cannot_be_swapped(
    ipex: EnvironmentFolder, tmp_path: Path
) -> None:
    failure = await outcome_of(tmp_path, ipex, frozen_bn="folded", ipex_frozen_bn=True)
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.USER, "knobs")


def test_primitives_are_matched_to_the_modules_that_run_them_alone(
    ipex: EnvironmentFolder, tmp_path: Path
) -> None:
    command = [str(ipex.python), "-m", "tests.support.profiled_model", str(tmp_path), "ipex"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=True)
    profile = recorded_profile(tmp_path)
    assert profile.summary.matched == 1.0
    expected = true_bodies(tmp_path)
    assert sum(expected["forward head.0"].values()) >= 3
    assert matched_bodies(profile) == expected
    # Three levels, of 32, 16 and 8 cells, pass the head; `down` makes the smaller ones.
    packed = json.loads((tmp_path / PACKED).read_text())
    assert packed["head.0"] == [2, 16, 32, 32]
    assert packed["down.1"] == [2, 16, 16, 16]
    # IPEX replaces the optimizer's step, which torch then does not mark.
    assert any(row.place.phase == "optimizer" and row.place.op for row in profile.kernels)


class TestBesideTorchvision:
    """Tested at once with those above: each starts an interpreter of IPEX's, or two."""

    def test_ours_is_torchvision_s_with_the_same_weights(self, ipex: EnvironmentFolder) -> None:
        command = [str(ipex.python), "-m", "tests.support.compare_torchvision", "96", "256"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
        by_size = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(by_size) == 2
        for differences in by_size:
            assert set(differences) == {"cls_logits", "bbox_regression", "loss", "gradient"}
            # fp32, and both call the same kernels in the same order: what is seen is 0.
            assert max(differences.values()) <= 1e-4, differences

    def test_a_checkpoint_s_detections_are_torchvision_s(self, ipex: EnvironmentFolder) -> None:
        command = [str(ipex.python), "-m", "tests.support.compare_detections"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        assert found["detections"] > 1000
        assert found["unmatched_alone"] == 0, found
        assert found["unmatched"] == found["tied"] <= found["detections"] / 1000, found
        assert found["scores"] <= 1e-5, found
        assert found["boxes_px"] <= 1e-3, found

    async def test_torchvision_s_trains_as_ours(
        self, ipex: EnvironmentFolder, tmp_path: Path
    ) -> None:
        ours, theirs = [
            await outcome_of(tmp_path / name, ipex, implementation=name, ipex_optimize=False)
            for name in ("benchfarm", "torchvision")
        ]
        assert isinstance(ours, Result), ours
        assert isinstance(theirs, Result), theirs
        assert theirs.metrics["loss"].samples == pytest.approx(
            ours.metrics["loss"].samples, rel=1e-4
        )
