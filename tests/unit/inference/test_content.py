"""A program that gets a task ready, killed, fails no run for good; it is offered to the kernel."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from agents.host import helper_process
from agents.host.oom import OOM_SCORE_ADJ
from agents.inference.bundle.requirements import Requirements
from agents.inference.content import DEADLINE_S, Content, Ready, Runtime, identity_of
from agents.remotes.tree import Tree
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import WorkerFault
from controller.contracts.mobile import OnDevice
from controller.contracts.result import Blame, Environment, Failure
from tests.support.waiting import until


@pytest.fixture
def task() -> OnDevice:
    task = load_catalog().workloads["shapes_classifier"].on_device
    assert task is not None
    return task


async def fault_of(
    tmp_path: Path,
    task: OnDevice,
    then: Callable[[psutil.Process], None],
    deadline_s: float = DEADLINE_S,
) -> Failure:
    """Return what comes of a run when something happens to what makes its model ready."""
    making = Content(tmp_path, tmp_path, deadline_s=deadline_s)
    waiting = asyncio.create_task(making.task("shapes_classifier", task, "int8", None))
    await until(lambda: _helpers() or waiting.done(), "models.mobile has been started")
    (helper,) = _helpers()
    await until(
        lambda: Path(f"/proc/{helper.pid}/oom_score_adj").read_text() == f"{OOM_SCORE_ADJ}\n",
        "it is offered to the kernel",
    )
    then(helper)
    with pytest.raises(WorkerFault) as caught:
        await waiting
    assert not psutil.pid_exists(helper.pid)
    return caught.value.failure


def _helpers() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [child for child in children if "models.mobile" in child.cmdline()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_killed_it_is_tried_again(tmp_path: Path, task: OnDevice, number: int) -> None:
    failure = await fault_of(tmp_path, task, lambda helper: helper.send_signal(number))
    assert (failure.blame, failure.kind, failure.signal) == (Blame.HARNESS, "signal", number)
    assert failure.message == (
        "cannot prepare with models.mobile: another process killed the worker with "
        f"{signal.Signals(number).name}"
    )


async def test_killed_for_memory_it_is_the_workloads_fault(
    tmp_path: Path, task: OnDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter([3, 4])
    monkeypatch.setattr(helper_process, "oom_kills", lambda: next(kills))
    failure = await fault_of(tmp_path, task, psutil.Process.kill)
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "out_of_memory")


async def test_it_has_a_deadline(tmp_path: Path, task: OnDevice) -> None:
    failure = await fault_of(tmp_path, task, psutil.Process.suspend, deadline_s=1.0)
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "deadline")
    assert failure.message == "cannot prepare with models.mobile: no end after 1 s"


async def test_a_bundle_whose_program_is_killed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\nkill -KILL $$\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(WorkerFault) as caught:
        await Content(tmp_path, tmp_path / "bundles").runtime("litert", "x86_64")
    failure = caught.value.failure
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "signal")
    assert "cannot run apt-get update: the program was killed by SIGKILL" in failure.message


def test_what_is_pushed_is_identified(tmp_path: Path, task: OnDevice) -> None:
    needs = Requirements(kernel=(3, 7, 0), page_bytes=16384, storage_bytes=1)
    bundle = Tree(tmp_path, 0, {"run": "program aa"})
    runtime = Runtime("litert-x86_64", bundle, bundle, "ld.so", needs)

    def facts(inputs: str, samples: int = 8, checksums: tuple[str, ...] = ()) -> Environment:
        tree = Tree(tmp_path, 0, {"model.tflite": "file ab12", "inputs.npy": inputs})
        return identity_of(runtime, Ready(tree, task, tmp_path, samples, True, None, checksums))

    found = facts("file cd34", checksums=("images sha256:ef",))
    assert found["model_sha256"] == "ab12"
    assert found["bundle"] == f"litert-x86_64 {bundle.digest}"
    assert found["dataset_checksums"] == ("images sha256:ef",)
    assert found["inputs_digest"] == facts("file cd34")["inputs_digest"]
    assert found["inputs_digest"] != facts("file cd35")["inputs_digest"]
    assert facts("file cd34", samples=0).keys() == {"model_sha256", "bundle"}
