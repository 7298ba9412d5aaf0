"""The suite's own classifier through a virtual phone, and what the way there costs.

The model and its ten images are looked for in the folder `mobile` of BENCHFARM_TEST_DATA.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from socket import gethostname

import adbutils
import numpy as np
import psutil
import pytest

from agents.inference.bench_harness import overhead_spec
from agents.inference.content import Content, cache_folder
from agents.inference.runner.images import read_dataset
from agents.inference.runner.model import TfliteModel
from agents.inference.runner.spec import RunSpec
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device
from controller.contracts.result import Failure, Outcome, Result, Validity
from controller.contracts.wire import Progress
from controller.runtime.home import Home
from controller.stats.pairs import CONFIDENCE, signed_rank_interval
from models.mobile import catalogue
from models.mobile.store import Store
from tests.support.alternating_processes import alternate
from tests.support.emulation import skip_without_arm64
from tests.support.figures import Figure
from tests.support.phone_farm import LoopAgent, agent_with, wait_for_nobody
from tests.support.phone_runs import run_cell
from tests.support.virtual_phone import RunningPhone, running_phone

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]
KNOBS: dict[str, Scalar] = {"dataset": "tiny"}
RUNNER = "agents.inference.runner"
LABELS = [388, 590, 962, 847, 594, 982, 594, 764, 413, 928]
"""What the ten images show, in the order of their names."""
BEGUN_S = 1.5
"""Within which a quiet machine begins a run on a phone that has all it needs."""


@pytest.fixture(scope="module")
def data() -> Path:
    """The folder of the suite's files."""
    folder = Path(os.environ.get("BENCHFARM_TEST_DATA", "")) / "mobile"
    if not os.environ.get("BENCHFARM_TEST_DATA") or not folder.is_dir():
        pytest.skip("no files of the suite: set BENCHFARM_TEST_DATA to a folder with mobile/")
    return folder


@pytest.fixture(scope="module")
def content(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Content]:
    """A store with every file of the suite that is there."""
    folder = tmp_path_factory.mktemp("models")
    os.environ["BENCHFARM_MODELS"] = str(folder)
    added = catalogue.add(Store(folder), data, None)
    assert any("mobilenet_edgetpu/models/uint8" in one.keys for one in added)
    yield Content(tmp_path_factory.mktemp("content"), cache_folder(), folder)
    del os.environ["BENCHFARM_MODELS"]


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    serial = f"--serial=REAL{os.getpid()}"
    with running_phone("flagship", tmp_path_factory.mktemp("phone"), serial) as running:
        yield running


@pytest.fixture
async def agent(
    phone: RunningPhone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LoopAgent]:
    wait_for_nobody(monkeypatch, tmp_path)
    async with agent_with(phone, Home(tmp_path / "home")) as agent:
        yield agent


@pytest.fixture
async def arm64_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LoopAgent]:
    skip_without_arm64()
    wait_for_nobody(monkeypatch, tmp_path)
    serial = f"--serial=REALARM{os.getpid()}"
    with running_phone("flagship-arm64", tmp_path / "phone", serial) as phone:
        async with agent_with(phone, Home(tmp_path / "home")) as agent:
            yield agent


@pytest.fixture
def ready(content: Content) -> Content:
    """The module's content in the event loop of this test."""
    content._making = asyncio.Lock()
    return content


@dataclass(frozen=True, slots=True)
class BareLoop:
    """LoadGen and an interpreter that have loaded everything, and wait."""

    process: asyncio.subprocess.Process

    def begin(self) -> psutil.Process:
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        return psutil.Process(self.process.pid)

    async def p90(self) -> float:
        """Return the 90th percentile of latency in seconds, at the end."""
        said, _ = await self.process.communicate()
        assert self.process.returncode == 0
        return float(said)


@asynccontextmanager
async def bare_loop(model: Path, pixels: Path, device: Device) -> AsyncIterator[BareLoop]:
    cores = ",".join(map(str, sorted(device.host_cores)))
    process = await asyncio.create_subprocess_exec(
        *("taskset", "-c", cores, sys.executable, "-m", "tests.support.bare_loadgen"),
        *(str(model), str(pixels), "60"),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdout
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield BareLoop(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def device_of(agent: LoopAgent) -> Device:
    return next(phone.device for phone in agent.phones.present.here.values())


def runner_on(phone: RunningPhone) -> psutil.Process:
    (runner,) = (
        process
        for process in psutil.Process(phone.pid).children(recursive=True)
        if RUNNER in process.cmdline()
    )
    return runner


def _set_when_measuring(event: asyncio.Event, progress: Progress) -> None:
    if progress.phase == "single_stream":
        event.set()


def result_of(outcome: Outcome) -> Result:
    assert isinstance(outcome, Result), outcome
    return outcome


async def prepared(content: Content) -> RunSpec:
    """Return a spec with the classifier and its ten images."""
    workload = load_catalog().workloads["mobilenet_edgetpu"].on_device
    assert workload
    ready = await content.task("mobilenet_edgetpu", workload, "uint8", "tiny")
    return overhead_spec(ready.folder, workload)


async def bare_top1(content: Content) -> float:
    """Return the share of the ten images that an interpreter of this host alone answers rightly."""
    spec = await prepared(content)
    model = TfliteModel(spec)
    images = read_dataset(spec, model.input_type)
    bare = [int(model.answer(model.prepare(images[n]))[0]) - 1 for n in range(len(images))]
    return sum(a == b for a, b in zip(bare, LABELS, strict=True)) / len(LABELS)


async def test_nine_of_ten_on_both_stacks_and_bare(
    agent: LoopAgent, ready: Content, tmp_path: Path, figure: Figure
) -> None:
    right = await bare_top1(ready)
    assert right == 0.9
    p90 = {}
    for stack in ("litert", "tflite"):
        outcome, _ = await run_cell(
            agent, tmp_path / stack, "mobilenet_edgetpu", stack, knobs=KNOBS, content=ready
        )
        result = result_of(outcome)
        assert result.validity is Validity.VALID
        assert result.metrics["top1"].value == right
        assert result.environment["runtime"] == stack
        p90[stack] = result.metrics["latency_p90"].value
    figure("p90 of tflite by that of litert", p90["tflite"] / p90["litert"], "above 1")
    assert p90["tflite"] > p90["litert"]


async def test_on_arm64_both_stacks_are_as_right_as_here(
    arm64_agent: LoopAgent, ready: Content, tmp_path: Path
) -> None:
    right = await bare_top1(ready)
    for stack in ("litert", "tflite"):
        outcome, _ = await run_cell(
            arm64_agent,
            tmp_path / stack,
            "mobilenet_edgetpu",
            stack,
            knobs={**KNOBS, "mode": "accuracy"},
            content=ready,
        )
        result = result_of(outcome)
        facts = result.environment
        assert (facts["runtime"], facts["abi"], facts["emulated"]) == (stack, "arm64-v8a", True)
        assert result.metrics["top1"].value == right


async def test_a_second_run_pushes_nothing_and_begins_soon(
    agent: LoopAgent, ready: Content, tmp_path: Path, figure: Figure
) -> None:
    found = []
    for number in range(4):
        outcome, _ = await run_cell(
            agent,
            tmp_path / str(number),
            "mobilenet_edgetpu",
            scenario="offline",
            knobs={**KNOBS, "mode": "performance"},
            content=ready,
        )
        result = result_of(outcome)
        found.append(result.environment)
    assert [facts["pushed_bytes"] for facts in found[1:]] == [0, 0, 0]
    begun = [float(str(facts["start_to_first_query_s"])) for facts in found[1:]]
    figure("seconds from a second run's start to its first query", min(begun), "1.5")
    assert min(begun) < 10 * BEGUN_S


async def test_a_push_is_as_fast_as_adbs(agent: LoopAgent, ready: Content, figure: Figure) -> None:
    tree = (await ready.runtime("litert", "x86_64")).tree
    remote = next(p.remote for p in agent.phones.present.here.values())
    adb = adbutils.adb_path()
    ratios = []
    for _ in range(6):
        started = time.perf_counter()
        async with remote.link.sync() as sync:
            with tree.archive.open("rb") as source:
                await sync.send(source, PurePosixPath("/data/local/tmp/ours.tar"))
        ours_s = time.perf_counter() - started
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(adb, "-L", f"localfilesystem:{agent.server}", "-s", remote.link.serial, "push"),
            *(str(tree.archive), "/data/local/tmp/theirs.tar"),
            stdout=PIPE,
            stderr=PIPE,
        )
        _, trouble = await process.communicate()
        assert process.returncode == 0, trouble
        ratios.append((time.perf_counter() - started) / ours_s)
    figure("speed of a push by that of adb push", statistics.median(ratios), "0.8 or more")
    assert statistics.median(ratios) > 0.1


@pytest.mark.timeout(3600)
async def test_p90_through_the_farm_is_that_of_a_bare_loop(
    agent: LoopAgent,
    phone: RunningPhone,
    ready: Content,
    tmp_path: Path,
    figure: Figure,
) -> None:
    """Pairs of runs of normal length on the phone's core, a second each in turn.

    A host that is shared changes its speed every few seconds. The end of a turn lengthens one query
    in some seventy, on both sides.
    """
    spec, pixels = await prepared(ready), tmp_path / "pixels.npy"
    images = read_dataset(spec, "uint8")
    np.save(pixels, np.stack([images[n][0] for n in range(len(images))]))
    found = []
    for number in range(int(os.environ.get("BENCHFARM_P90_PAIRS", "10"))):
        async with bare_loop(Path(spec.model), pixels, device_of(agent)) as bare:
            measuring = asyncio.Event()
            through_farm = asyncio.create_task(
                run_cell(
                    agent,
                    tmp_path / str(number),
                    "mobilenet_edgetpu",
                    knobs={**KNOBS, "mode": "performance", "length": "normal"},
                    content=ready,
                    on_progress=partial(_set_when_measuring, measuring),
                )
            )
            await measuring.wait()
            both = (bare.begin(), runner_on(phone))
            await alternate(*(both if number % 2 else reversed(both)))
            outcome, _ = await through_farm
            found.append((await bare.p90(), result_of(outcome).metrics["latency_p90"].value))
    logs = [float(np.log(farm / bare)) for bare, farm in found]
    middle, _, high = np.exp(signed_rank_interval(logs, CONFIDENCE)).tolist()
    figure("p90 through the farm by that of a bare loop", middle, "1")
    figure("p90 through the farm by that of a bare loop: upper end of the interval", high, "1.02")
    assert middle < 1.2


async def test_a_model_that_is_not_there_is_one_clear_line(
    agent: LoopAgent, ready: Content, tmp_path: Path, figure: Figure
) -> None:
    outcome, _ = await run_cell(agent, tmp_path, "mobilenet_v4", knobs=KNOBS, content=ready)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == ("user", "setup")
    assert (
        f"mobilenet_v4/models/int8: it is not in the store of host {gethostname()}. "
        "Run `benchfarm models fetch mobilenet_v4` there" in outcome.message
    )
