"""A sweep with tasks that can't be run: each is one clear line, and the others are measured."""

from __future__ import annotations

import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from agents.inference import content
from agents.inference.bundle import from_source
from agents.inference.bundle.build import Bundle, build_bundle
from agents.inference.bundle.recipe import Recipe
from agents.virtual_phone.profiles import FOLDER as PROFILES
from controller.contracts.result import Blame, Validity
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Sweep
from controller.runtime.home import Home
from models.mobile import catalogue
from models.mobile.store import Store
from tests.support.phone_farm import LoopFarm, end_server, serving_phones, wait_for_nobody
from tests.support.unsupported_models import with_custom_operator
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long]
MODELS = Path(catalogue.__file__).parents[1]
MODEL = MODELS / "mobile/classifier/shapes_int8.tflite"
REFUSED = {
    "lacks_operator": "(lacks_operator, model, operator 0): LiteRT has no operator MyConv. ",
    "other_signature": "(other_signature, signature.inputs[0]): it has int8 (1, 96, 96, 3), not ",
    "changed": "(changed/models/file.checksum): its checksum is sha256:",
    "bad_image": "(parts.samples): image 0.png: ",
}
"""Workload → what its failure says, beside the file."""
ARM64 = "arm64-v8a"
NO_BUNDLE = (
    "cannot build bundle litert-arm64-v8a: its compiler runs on x86_64 only, and this host is "
    "riscv64. Connect the phone to an x86_64 host of the farm."
)


def device_of(run: Run) -> str:
    """Return where a run was last tried."""
    return run.attempts[-1].device_id


@pytest.fixture
async def phone(tmp_path: Path) -> AsyncIterator[RunningPhone]:
    with running_phone("flagship", tmp_path / "phone", f"--serial=REFUSED{os.getpid()}") as running:
        yield running


def make_tasks(store: Store, folder: Path) -> None:
    """Have a task in the store for each way to be refused."""
    damaged, whole, lacking = (folder / f"{n}.tflite" for n in ("changed", "whole", "lacks"))
    damaged.write_bytes(MODEL.read_bytes() + b"\0")  # as it is, it is the project's own
    whole.write_bytes(MODEL.read_bytes() + b"\0\0")
    with_custom_operator(MODEL, lacking, "MyConv")
    images = folder / "images.zip"
    with zipfile.ZipFile(images, "w") as archive:
        archive.writestr("0.png", b"no image at all")
    catalogue.add(store, damaged, None)
    sha256 = {path: store.add(path)["sha256"] for path in (damaged, whole, lacking, images)}
    tensor = {"shape": [1, 224, 224, 3], "types": ["uint8"]}
    add_task(store, folder, "lacks_operator", sha256[lacking])
    signature = {"inputs": [tensor], "outputs": [tensor]}
    add_task(store, folder, "other_signature", sha256[whole], signature=signature)
    image = {"kind": "image", "height": 32, "width": 32, "fit": "stretch", "mean": 0, "std": 1}
    dataset = {"kind": "imagenet", "parts": {"samples": {"checksum": sha256[images]}}}
    add_task(store, folder, "bad_image", sha256[whole], input=image, datasets={"tiny": dataset})
    file = store.find(sha256[damaged])
    assert file
    file.write_bytes(b"other content")


def add_task(store: Store, folder: Path, name: str, checksum: str, **on_device: object) -> None:
    """Add a task that is as that of `changed`, but for its model and what is given."""
    task = yaml.safe_load((store.folder / "tasks/changed.yaml").read_text())
    task["name"] = name
    task["on_device"] |= {"models": {"file": {"checksum": checksum}}, **on_device}
    if "datasets" in on_device:
        knob = {"type": "str", "default": "tiny", "choices": ["tiny"], "description": "which"}
        task["knobs"]["dataset"] = knob
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(task))
    catalogue.add(store, file, None)


@pytest.fixture
async def arm64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningPhone]:
    """A phone that says it is of arm64, on a host that has no bundle for it and can't build one."""
    profile = yaml.safe_load((PROFILES / "midrange.yaml").read_text())
    file = tmp_path / "arm64.yaml"
    file.write_text(yaml.safe_dump({**profile, "properties": {"ro.product.cpu.abi": ARM64}}))

    def build(folder: Path, recipe: Recipe) -> Bundle:
        return build_bundle(tmp_path if recipe.arch == ARM64 else folder, recipe)

    monkeypatch.setattr(content, "build_bundle", build)
    monkeypatch.setattr(from_source, "machine", lambda: "riscv64")
    with running_phone(str(file), tmp_path / "arm64", f"--serial=ARM{os.getpid()}") as running:
        yield running


async def test_what_can_t_be_run_is_one_line_and_the_sweep_goes_on(
    phone: RunningPhone, arm64: RunningPhone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "models"))
    wait_for_nobody(monkeypatch, tmp_path)
    make_tasks(Store(tmp_path / "models"), tmp_path)
    home = Home(tmp_path / "home")
    farm = LoopFarm(home)
    sweep = Sweep(
        name="refused",
        workload=(*REFUSED, "mobilenet_edgetpu_surrogate"),
        stack="litert",
        scenario="offline",
        knobs={"mode": "performance", "length": "rapid"},
        run_on="each",
        deadline_s=200,
    )
    async with serving_phones(farm, home) as agent:
        for one in (arm64, phone):
            await agent.connect(one.address)
        both = {phone.serial, arm64.serial}
        await until(lambda: farm.online().keys() >= both, "taken in")
        farm.submit(sweep)
        await until(lambda: all(r.state.terminal for r in farm.store.runs()), "ended")
        assert farm.online().keys() >= both, "it was not the phones' fault"
    await end_server(agent)
    states = {(device_of(run), run.cell.workload): run.state for run in farm.store.runs()}
    assert states == {
        **{(arm64.serial, workload): RunState.FAILED for workload in sweep.workload},
        **{(phone.serial, workload): RunState.FAILED for workload in REFUSED},
        (phone.serial, "mobilenet_edgetpu_surrogate"): RunState.DONE,
    }
    assert [result.validity for result in farm.store.results()] == [Validity.VALID]
    failures = {(failure.device, failure.workload): failure for failure in farm.store.failures()}
    assert len(farm.store.failures()) == len(failures) == len(states) - 1, "none is tried again"
    for failure in failures.values():
        assert failure.blame is Blame.USER
        assert "\n" not in failure.message
    for workload, words in REFUSED.items():
        message = failures[phone.serial, workload].message
        assert words in message
        assert str(tmp_path) in message, "the file is named"
    for workload in sweep.workload:
        assert failures[arm64.serial, workload].message == NO_BUNDLE
    farm.store.close()
