"""The rungs of sweeps/retinanet-ablation.yaml train, each on its stack, as eager fp32 does.

With fewer blocks than the sweep's model, of every sort. A rung keeps what those before it switched
on: one in bf16 whose every setting a later rung has is not trained apart. Nor are two compiled
rungs, whose settings compiled-kernels has but for the loss by labels: torch.compile takes minutes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch

from agents.stacks.environments import EnvironmentFolder, stacks_folder
from controller.contracts.base import Scalar
from controller.contracts.result import Result
from controller.contracts.sweep import Cell
from controller.contracts.sweep_file import parse_sweep
from controller.runtime.home import Home
from controller.scheduling.expansion import cells_of
from tests.support.cells import CATALOG, IPEX_HAS_BF16, importable_tests, run_cell
from tests.support.made_once import made_once
from tests.support.validity import MET_RULES

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
SWEEP = ROOT / "sweeps" / "retinanet-ablation.yaml"
BUILDER = "tests.support.shallow_retinanet:shallow_retinanet"
SMALL: Mapping[str, tuple[Scalar, ...]] = {
    "image_size": (96,),
    "num_classes": (8,),
    "warmup_steps": (0,),
    "steps": (3,),
    "threads": (1,),  # another rung may be training beside it
}
IMAGES = {"fp32": 2, "bf16": 2 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else 1}
"""Precision → images in a batch; where bf16 is emulated, a step takes seconds an image."""


def rungs(images: int) -> dict[str, Cell]:
    """Return a small cell of each rung."""
    sweep = parse_sweep(SWEEP.read_bytes(), SWEEP.name)
    knobs = {**SMALL, "batch_size": (images,)}
    cells = cells_of(sweep.model_copy(update={"knobs": knobs}), CATALOG)
    return dict(zip(sweep.recipes, cells, strict=True))


def trained() -> dict[str, Cell]:
    """Return the rungs that no later one covers, without the one that all are compared with."""
    rungs = {
        name: BY_IMAGES[IMAGES[str(cell.knobs["precision"])]][name]
        for name, cell in BY_IMAGES[IMAGES["fp32"]].items()
    }
    recipes = list(RECIPES.items())
    covered = {
        name
        for place, (name, settings) in enumerate(recipes)
        if rungs[name].knobs["precision"] == "bf16"
        and any(settings.items() <= later.items() for _, later in recipes[place + 1 :])
    }
    left_out = covered | {"compiled-bf16", "compiled-all", EAGER}
    return {name: cell for name, cell in rungs.items() if name not in left_out}


EAGER = "eager-fp32"
RECIPES = parse_sweep(SWEEP.read_bytes(), SWEEP.name).recipes
BY_IMAGES = {images: rungs(images) for images in IMAGES.values()}
RUNGS = trained()


def of_stack(name: str) -> list[str]:
    return [rung for rung, cell in RUNGS.items() if cell.stack == name]


@pytest.fixture(scope="module")
def stacks() -> Path:
    return stacks_folder(Home.from_environment().path)


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    with importable_tests():
        yield


async def losses_of(cell: Cell, folder: Path, stacks: Path) -> tuple[float, ...]:
    environment = CATALOG.stacks[cell.stack].environment
    if environment and not EnvironmentFolder(stacks / cell.stack, environment).is_installed:
        pytest.skip(f"not installed: benchfarm stacks install {cell.stack}")
    if cell.stack == "ipex" and cell.knobs["precision"] == "bf16" and not IPEX_HAS_BF16:
        pytest.skip("IPEX takes bf16 models on CPUs with AVX-512 alone")
    outcome = await run_cell(cell, folder, stacks, deadline_s=1100, builder=BUILDER)
    assert isinstance(outcome, Result), outcome
    assert outcome.validity in MET_RULES
    return outcome.metrics["loss"].samples


@pytest.fixture
def expected(
    rung: str, tmp_path_factory: pytest.TempPathFactory, stacks: Path
) -> tuple[float, ...]:
    """The losses of eager fp32 in a rung's batches; it is trained once in a run of the tests."""
    images = int(RUNGS[rung].knobs["batch_size"])

    def train(folder: Path) -> None:
        losses = asyncio.run(losses_of(BY_IMAGES[images][EAGER], folder, stacks))
        (folder / "losses.json").write_text(json.dumps(losses))

    made = made_once(tmp_path_factory, f"{EAGER}-{images}", train)
    return tuple(json.loads((made / "losses.json").read_text()))


class Rungs:
    """Tests of one stack's; stacks may be tested at once, the slowest is listed first."""

    async def test_a_rung_trains_as_eager_fp32_does(
        self, rung: str, expected: tuple[float, ...], tmp_path: Path, stacks: Path
    ) -> None:
        losses = await losses_of(RUNGS[rung], tmp_path, stacks)
        # Adam's first step takes the sign of each gradient, so that roundings grow: after two
        # steps 24 bits leave about 1e-4, the 8 bits of bf16 some percent.
        tolerance = 1e-3 if RUNGS[rung].knobs["precision"] == "fp32" else 0.05
        assert losses == pytest.approx(expected, rel=tolerance)
        assert losses[0] == pytest.approx(expected[0], rel=1e-5 if tolerance < 0.01 else 0.02)


@pytest.mark.parametrize("rung", of_stack("torch-compile"))
class TestTorchCompile(Rungs):
    pass


@pytest.mark.parametrize("rung", of_stack("ipex"))
class TestIpex(Rungs):
    pass


@pytest.mark.parametrize("rung", of_stack("torch"))
class TestTorch(Rungs):
    pass


def test_every_rung_is_of_a_stack_above() -> None:
    assert {cell.stack for cell in RUNGS.values()} == {"torch-compile", "ipex", "torch"}
