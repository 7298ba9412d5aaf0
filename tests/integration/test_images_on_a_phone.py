"""Images as they are published, on a virtual phone with 4 GB of storage and 512 MB of memory.

BENCHFARM_IMAGES sets their number. 50,000, as many as ImageNet has, take a quarter of an hour.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from agents.inference.content import Content, cache_folder
from agents.remotes.adb.device_tree import SPARE_BYTES
from agents.remotes.remote import Completed, FaultKind
from agents.virtual_phone import control
from agents.virtual_phone.faults import FullStorage
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Failure, Result, Validity
from controller.contracts.wire import Progress
from controller.runtime.home import Home
from models.mobile import catalogue
from models.mobile.store import Store
from models.mobile.surrogates.data import CLASSES, class_colours
from tests.support.figures import Figure
from tests.support.phone_farm import LoopAgent, agent_with, wait_for_nobody
from tests.support.phone_runs import run_cell
from tests.support.virtual_phone import RunningPhone, running_phone

pytestmark = pytest.mark.integration
IMAGES = int(os.environ.get("BENCHFARM_IMAGES", "500"))
SIZES = {"tiny": IMAGES, "lite": 5}
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
    """Add a task with the surrogate's model, and with images for its data sets."""
    surrogate = load_catalog().workloads[SURROGATE].model_dump(mode="json", exclude_none=True)
    parts: dict[str, object] = {"samples": {}, "truth": {}}
    surrogate["on_device"]["datasets"] = {
        size: {"kind": "imagenet", "samples": count, "parts": parts}
        for size, count in SIZES.items()
    }
    surrogate["knobs"]["dataset"]["choices"] = list(SIZES)
    file = folder / f"{TASK}.yaml"
    file.write_text(yaml.safe_dump({**surrogate, "name": TASK}))
    catalogue.add(store, file, None)
    for size, count in SIZES.items():
        truth = write_images(folder / size, count)
        catalogue.add(store, folder / size, f"{TASK}/{size}/samples")
        catalogue.add(store, truth, f"{TASK}/{size}/truth")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHFARM_MODELS", str(folder))
        add_task(Store(folder), tmp_path_factory.mktemp("published"))
        yield folder


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    folder = tmp_path_factory.mktemp("phone")
    with running_phone("entry", folder, f"--serial=ENTRY{os.getpid()}") as phone:
        yield phone


@pytest.fixture
async def agent(
    phone: RunningPhone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LoopAgent]:
    wait_for_nobody(monkeypatch, tmp_path)
    async with agent_with(phone, Home(tmp_path / "home")) as agent:
        yield agent


@asynccontextmanager
async def storage_watched(phone: RunningPhone) -> AsyncIterator[list[int]]:
    """Note a phone's free bytes of storage again and again during the block."""
    free: list[int] = []

    async def watch() -> None:
        while True:
            status = await control.ask(phone.folder, control.GetStatus())
            free.append(status.storage_free_bytes)
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    try:
        yield free
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.timeout(900 + IMAGES // 10)
async def test_all_images_are_answered_in_windows_that_fit(
    agent: LoopAgent,
    phone: RunningPhone,
    models: Path,
    tmp_path: Path,
    figure: Figure,
    caplog: pytest.LogCaptureFixture,
) -> None:
    knobs: dict[str, Scalar] = {"mode": "accuracy", "length": "rapid"}
    content = Content(tmp_path / "content", cache_folder(), models)
    began = time.monotonic()
    async with storage_watched(phone) as free:
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
    assert f"memory holds {held} of {min(IMAGES, 1024)} samples" in caplog.text
    published = sum(file.stat().st_size for file in tmp_path.glob("content/*/device/images.bin"))
    assert 0 < published < IMAGES * SIDE * SIDE * 3
    figure("images as published, MB", published / 1e6, "not 150 kB of pixels each")
    figure("stored on the phone, MB", int(str(said["stored_bytes"])) / 1e6, "with the bundle")
    figure("its peak storage, MB", (max(free) - min(free)) / 1e6, "logs and the bundle twice")
    figure("peak memory of the runner, MB", outcome.metrics["peak_memory"].value / 1e6, "< 512")
    figure("the run, s", took_s, "it ends")


async def test_a_run_whose_memory_another_app_takes_ends_with_a_line(
    agent: LoopAgent, models: Path, tmp_path: Path
) -> None:
    """The phone ends the largest process, which is the runner once it has loaded its samples."""
    (phone,) = agent.phones.present.here.values()
    remote, apps = agent.phones.remote_of(phone.device), list[asyncio.Task[Completed]]()
    greedy = "while :; do head -c 250M /dev/zero | tail -c 250M >/dev/null; done"

    def start_app(progress: Progress) -> None:
        if progress.phase == "single_stream" and not apps:
            apps.append(asyncio.create_task(remote.run(("sh", "-c", greedy), 250)))

    knobs: dict[str, Scalar] = {"mode": "performance", "length": "rapid"}
    content = Content(tmp_path / "content", cache_folder(), models)
    outcome, _ = await run_cell(
        agent, tmp_path / "run", TASK, knobs=knobs, content=content, on_progress=start_app
    )
    for app in apps:
        app.cancel()
    await asyncio.gather(*apps, return_exceptions=True)
    assert isinstance(outcome, Failure), outcome
    assert (outcome.kind, outcome.signal) == ("signal", signal.SIGKILL)
    assert outcome.message == (
        "the device killed the worker with SIGKILL, as phones do when memory runs out. "
        "End what else runs on it."
    )


async def test_a_storage_without_room_for_the_images_is_told_with_a_line(
    agent: LoopAgent, phone: RunningPhone, models: Path, tmp_path: Path
) -> None:
    """The bundle lies there already, from the runs before."""
    full = FullStorage(free_bytes=SPARE_BYTES)
    await control.ask(phone.folder, control.SetFaults(faults=(full,)))
    knobs: dict[str, Scalar] = {"mode": "accuracy", "length": "rapid", "dataset": "lite"}
    content = Content(tmp_path / "content", cache_folder(), models)
    outcome, _ = await run_cell(agent, tmp_path / "run", TASK, knobs=knobs, content=content)
    assert isinstance(outcome, Failure), outcome
    assert outcome.kind == FaultKind.STORAGE_FULL
    line = rf"{phone.address}: \d+ bytes are free, and \d+ are needed; free space on the phone"
    assert re.fullmatch(line, outcome.message)
