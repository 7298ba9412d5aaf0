"""Images decoded on an emulated arm64 phone: the bits that this host has of them.

On x86_64, tests/integration/test_bundle.py checks the same.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.attempts.runner_program import run_folder, run_runner, write_spec
from agents.inference.content import Content, cache_folder
from agents.inference.image_spec import image_spec
from agents.remotes.tree import Tree
from controller.runtime.home import Home
from models.mobile.metrics import read_answers
from tests.support.emulation import skip_without_arm64
from tests.support.image_kinds import of_every_kind, of_folder, pushed, wanted
from tests.support.phone_farm import LoopAgent, agent_with, wait_for_nobody
from tests.support.resize_model import resize_model
from tests.support.virtual_phone import running_phone

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]
DEADLINE_S = 300.0
"""Of the runner under the emulator."""
HELD = 7
"""Images in memory at once."""


@pytest.fixture
async def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LoopAgent]:
    skip_without_arm64()
    wait_for_nobody(monkeypatch, tmp_path)
    serial = f"--serial=IMAGESARM{os.getpid()}"
    with running_phone("flagship-arm64", tmp_path / "phone", serial) as phone:
        async with agent_with(phone, Home(tmp_path / "home")) as agent:
            yield agent


@pytest.mark.parametrize("fit", ["center_crop", "pad"])
async def test_images_are_decoded_on_arm64_to_the_bits_of_the_host_s(
    agent: LoopAgent, fit: str, tmp_path: Path
) -> None:
    """A model that answers with its input."""
    images, to_push = tmp_path / "images", tmp_path / "to push"
    images.mkdir()
    for name, content in of_every_kind():
        (images / name).write_bytes(content)
    how = wanted(fit)
    samples = of_folder(images, how)
    model = resize_model((how.height, how.width), (how.height, how.width), kind="uint8")
    (pushed(samples, to_push) / "echo.tflite").write_bytes(model)
    made = Tree.of(to_push / "in", tmp_path)

    (phone,) = agent.phones.present.here.values()
    remote = agent.phones.remote_of(phone.device)
    runtime = await Content(tmp_path / "content", cache_folder()).runtime("litert", "arm64-v8a")
    bundle, files = await remote.push_tree(runtime.tree), await remote.push_tree(made)
    folder = bundle.path.parent / "images"
    told: dict[str, object] = {"model": str(files.path / "echo.tflite"), "dataset": str(files.path)}
    told |= {"log_dir": str(folder / "logs"), "scenario": "single_stream", "mode": "accuracy"}
    told |= {"answer": "raw", "delegate": "none", "threads": 1, "batch_size": 1}
    told |= {"min_query_count": 1, "min_duration_ms": 0, "performance_sample_count": HELD}
    async with run_folder(remote, folder):
        await write_spec(remote, folder / "spec.json", {**told, **image_spec(how)})
        result = await run_runner(
            remote, bundle.path, folder / "spec.json", (DEADLINE_S, DEADLINE_S), lambda _: None
        )
        await remote.pull(folder / "logs", tmp_path / "logs")

    assert (result.environment["machine"], result.environment["performance_samples"]) == (
        "aarch64",
        HELD,
    )
    log = tmp_path / "logs" / Path(result.artefacts["loadgen_accuracy"]).name
    answers = read_answers(log, len(samples))
    assert answers.objections == ()
    found = [answers.by_sample[index] for index in range(len(samples))]
    assert found == [samples.inputs(index)[0].tobytes() for index in range(len(samples))]
