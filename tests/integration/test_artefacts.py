"""A real farm brings a run's files home, though its link is cut three times on the way."""

from __future__ import annotations

import hashlib
import random
import signal
import time
from pathlib import Path

import pytest

from tests.integration.farm import TestFarm, training_sweep
from tests.support.figures import Figure
from tests.support.waiting import SOON_S, eventually, seconds_until

pytestmark = [pytest.mark.integration, pytest.mark.farm]

NAME = "planted/big.bin"
CUTS = 3
STEPS = 8
MIB = 2**20
USUAL_MIB, MEASURED_MIB = 48, 1024
"""Of the file: usually, and with --figures."""


def test_a_file_arrives_whole_though_the_link_is_cut_three_times(
    farm: TestFarm, tmp_path: Path, figure: Figure, pytestconfig: pytest.Config
) -> None:
    measured = pytestconfig.getoption("figures")
    mib, steps = (MEASURED_MIB, 12) if measured else (USUAL_MIB, 4)
    sweep_id = farm.submit(training_sweep("brought-home", steps))
    with farm.events(sweep_id) as events:
        run_id = next(event.run_id for event in events if event.progress)
        sha256 = planted(farm, run_id, mib)
    assert farm.cli("sweep", "watch", sweep_id).status == 0

    for cut in range(1, CUTS + 1):
        cut_link(farm, run_id, sha256, mib * MIB * cut // (CUTS + 2))
    if measured:
        came, share = beside_a_run(farm, "beside", sha256)
        assert came == 0, "it waits while a run measures"
        figure("share of a core the agent takes beside a run, artefacts waiting, %", share, "2")
    left_s = seconds_until(lambda: place_of(farm, run_id) == "head", "it is all at the head")
    figure(f"seconds for the last two fifths of {mib} MiB", left_s, "60")
    if measured:
        _, alone = beside_a_run(farm, "alone", sha256)
        figure("the same without artefacts, %", alone, "2")

    out = tmp_path / "out"
    fetched = farm.cli("results", "artifacts", run_id, "--fetch", NAME, "-o", str(out))
    assert fetched.status == 0, fetched.err
    with (out / "1" / NAME).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == sha256
    names = {one["name"] for one in farm.cli("results", "artifacts", run_id, "--json").json}
    assert names > {NAME}, "with what the run itself has left"


def planted(farm: TestFarm, run_id: str, mib: int) -> str:
    """Put a large file that can't be compressed into a run's folder; return its SHA-256."""
    (folder,) = farm.home.agent.glob(f"*/runs/{run_id}/1")
    path = folder / NAME
    path.parent.mkdir()
    whole, source = hashlib.sha256(), random.Random(mib)
    with path.open("wb") as file:
        for _ in range(mib):
            piece = source.randbytes(MIB)
            whole.update(piece)
            file.write(piece)
    return whole.hexdigest()


def cut_link(farm: TestFarm, run_id: str, sha256: str, least: int) -> None:
    """Kill the controller once so many bytes of a content are there, and await its return."""
    eventually(lambda: arrived(farm, sha256) > least, "a part is there", SOON_S / 4)
    controller = farm.the_process("ray::Controller")
    controller.send_signal(signal.SIGKILL)
    assert place_of(farm, run_id) == "agent", "it was cut before all had come"
    eventually(lambda: farm.home.endpoint().pid != controller.pid, "the controller's return")


def beside_a_run(farm: TestFarm, name: str, sha256: str) -> tuple[int, float]:
    """Measure while a content is on its way: return how many bytes of it came meanwhile, and what
    the agent took, in percent of a core."""
    agent = farm.the_process("ray::AgentActor")
    with farm.events(farm.submit(training_sweep(name, STEPS))) as events:
        steps = (e.progress.done for e in events if e.progress and e.progress.phase == "training")
        next(steps)
        there, used, began = arrived(farm, sha256), sum(agent.cpu_times()[:2]), time.monotonic()
        next(done for done in steps if done >= STEPS - 2)
        seconds = time.monotonic() - began
        percent = 100 * (sum(agent.cpu_times()[:2]) - used) / seconds
        return arrived(farm, sha256) - there, percent


def arrived(farm: TestFarm, sha256: str) -> int:
    """Return the bytes of a content that are on their way."""
    sizes = [path.stat().st_size for path in farm.home.artefacts.glob(f"arriving/*/{sha256}")]
    return max(sizes, default=0)


def place_of(farm: TestFarm, run_id: str) -> str:
    listed = farm.cli("results", "artifacts", run_id, "--json").json
    return next((one["where"] for one in listed if one["name"] == NAME), "")
