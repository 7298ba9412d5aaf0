"""Images as they are published, on a virtual phone with 4 GB of storage and 512 MB of memory.

BENCHFARM_IMAGES sets their number. 50,000, as many as ImageNet has, take half an hour.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from agents.inference.content import Content, cache_folder
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Result, Validity
from controller.runtime.home import Home
from models.mobile import catalogue
from models.mobile.store import Store
from models.mobile.surrogates.data import CLASSES, class_colours
from tests.support.figures import Figure
from tests.support.phone_farm import LoopAgent, agent_with, wait_for_nobody
from tests.support.phone_runs import run_cell
from tests.support.virtual_phone import running_phone

pytestmark = pytest.mark.integration
IMAGES = int(os.environ.get("BENCHFARM_IMAGES", "500"))
SIDE = 96
SAMPLE_BYTES = 224 * 224 * 3 * 4
MEMORY = 512 << 20
HELD = MEMORY // 2 // SAMPLE_BYTES
"""Samples that half of the phone's memory holds: fewer than there are images."""
TASK, SURROGATE = "published_images_surrogate", "mobilenet_edgetpu_surrogate"


def write_images(folder: Path, count: int) -> Path:
    """Write JPEGs of the surrogate's classes, and their labels beside the folder."""
    folder.mkdir()
    source = np.random.default_rng(7)
    labels = source.integers(0, CLASSES, count)
    for number, label in enumerate(labels):
        quarters = class_colours()[label].repeat(SIDE // 2, axis=0).repeat(SIDE // 2, axis=1)
        pixels = quarters + source.integers(-32, 33, (SIDE, SIDE, 3))
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(folder / f"{number:05}.jpg", quality=90)
    truth = folder.with_suffix(".txt")
    truth.write_text("".join(f"{label}\n" for label in labels))
    return truth


def add_task(store: Store, folder: Path) -> None:
    """Add a task with the surrogate's model, and with images for its data set."""
    surrogate = load_catalog().workloads[SURROGATE].model_dump(mode="json", exclude_none=True)
    parts: dict[str, object] = {"samples": {}, "truth": {}}
    dataset = {"kind": "imagenet", "samples": IMAGES, "parts": parts}
    surrogate["on_device"]["datasets"] = {"tiny": dataset}
    file = folder / f"{TASK}.yaml"
    file.write_text(yaml.safe_dump({**surrogate, "name": TASK}))
    catalogue.add(store, file, None)
    truth = write_images(folder / "images", IMAGES)
    catalogue.add(store, folder / "images", f"{TASK}/tiny/samples")
    catalogue.add(store, truth, f"{TASK}/tiny/truth")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHFARM_MODELS", str(folder))
        add_task(Store(folder), tmp_path_factory.mktemp("published"))
        yield folder


@pytest.fixture
async def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LoopAgent]:
    wait_for_nobody(monkeypatch, tmp_path)
    serial = f"--serial=ENTRY{os.getpid()}"
    with running_phone("entry", tmp_path / "phone", serial) as phone:
        async with agent_with(phone, Home(tmp_path / "home")) as agent:
            yield agent


@asynccontextmanager
async def storage_watched(agent: LoopAgent) -> AsyncIterator[list[int]]:
    """Note the free bytes of the agent's phone every half second during the block."""
    (phone,) = agent.phones.present.here.values()
    free: list[int] = []

    async def watch() -> None:
        while True:
            free.append(await agent.phones.remote_of(phone.device).free_bytes())
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch())
    try:
        yield free
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_all_images_are_answered_in_windows_that_fit(
    agent: LoopAgent, models: Path, tmp_path: Path, figure: Figure
) -> None:
    knobs: dict[str, Scalar] = {"mode": "accuracy", "length": "rapid"}
    content = Content(tmp_path / "content", cache_folder(), models)
    began = time.monotonic()
    async with storage_watched(agent) as free:
        outcome, _ = await run_cell(
            agent, tmp_path / "run", TASK, knobs=knobs, content=content, deadline_s=7200
        )
    took_s = time.monotonic() - began
    assert isinstance(outcome, Result), outcome
    said = outcome.environment
    assert outcome.validity is Validity.VALID, outcome.reasons
    assert said["samples"] == IMAGES
    assert outcome.metrics["top1"].value > 0.9
    held = min(IMAGES, HELD)
    assert (said["performance_samples"], said["samples_wanted"]) == (held, min(IMAGES, 1024))
    assert (said["sample_bytes"], said["memory_before_samples_bytes"]) == (SAMPLE_BYTES, MEMORY)
    published = sum(file.stat().st_size for file in tmp_path.glob("content/*/device/images.bin"))
    assert 0 < published < IMAGES * SIDE * SIDE * 3
    figure("images, MB as published", published / 1e6, "not 150 kB of pixels each")
    figure("peak storage, MB", (max(free) - min(free)) / 1e6, "bundle and images twice")
    figure("stored, MB", int(str(said["stored_bytes"])) / 1e6, "bundle, model and images")
    figure("peak memory, MB", outcome.metrics["peak_memory"].value / 1e6, "below 512")
    figure("the run, s", took_s, "it ends")
