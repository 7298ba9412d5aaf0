"""A real farm for tests: real Ray, controller and agent in a home of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from controller.contracts.device import DeviceKind
from controller.contracts.run import Run
from controller.contracts.wire import RunEvent
from controller.platform.processes import FARM_MARKER, marked_processes
from controller.runtime.client import FarmClient
from controller.runtime.home import Cluster, Home
from controller.runtime.phones import (
    StartedPhone,
    adb_key,
    await_devices,
    connect_phone,
    disconnect_phone,
    started_phone,
)
from controller.runtime.watch import runs_of
from tests.support.forked_cli import forked
from tests.support.prometheus import with_programs
from tests.support.waiting import COMMAND_S, eventually

BENCHFARM = Path(sys.executable).with_name("benchfarm")
ENDLESS = 1_000_000
"""Steps of a training run that is to be ended."""
SMALLEST: Mapping[str, object] = {"image_size": 96, "num_classes": 8, "warmup_steps": 0}
SHORTEST: Mapping[str, object] = {**SMALLEST, "image_size": 32, "batch_size": 2}
SMALLEST_LSTM: Mapping[str, object] = {
    "layers": 1,
    "hidden_size": 64,
    "sequence_length": 12,
    "vocabulary_size": 50,
    "batch_size": 4,
    "optimizer": "sgd",
    "warmup_steps": 0,
    "threads": 1,
}
"""Steps of milliseconds, whose losses are those of one process, however many train."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever was printed
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class TestFarm:
    """A farm that is up, and its command line."""

    __test__ = False
    home: Home
    within: Sequence[str] = ()
    """What comes before every command, such as a limit to its memory."""

    @property
    def cluster(self) -> Cluster:
        cluster = self.home.cluster()
        assert cluster is not None
        return cluster

    @property
    def environment(self) -> dict[str, str]:
        # A home of its own has no stacks installed, whatever the tester has.
        own = {"BENCHFARM_HOME": str(self.home.path), "BENCHFARM_STACKS": str(self.home.path / "s")}
        return {**with_programs(), **own}

    def cli(self, *arguments: str, stdin: str | None = None, timeout_s: float = COMMAND_S) -> Said:
        """Call the command line; as installed if it starts a farm or is called within a limit."""
        if self.within or arguments[0] in ("up", "down"):
            command = [*self.within, str(BENCHFARM), *arguments]
            return run(command, self.environment, stdin, timeout_s)
        done = forked(arguments, self.environment, (stdin or "").encode(), timeout_s)
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def server(self) -> Any:  # noqa: ANN401 - as printed
        """Return how the farm's own server stands; phones of earlier tests stay known beside it."""
        known = self.cli("device", "list", "--json").json
        (own,) = (d for d in known if d["device"]["kind"] == DeviceKind.CPU_HOST)
        return own

    def submit(self, sweep: Mapping[str, object]) -> str:
        """Submit a sweep and return its id."""
        said = self._submitted(sweep)
        assert said.status == 0, said.err
        return _sweep_id(said)

    def submit_once_placed(self, sweep: Mapping[str, object]) -> str:
        """Submit a sweep as soon as its devices are there: a busy machine may lose a phone."""
        return eventually(
            lambda: _sweep_id(said) if (said := self._submitted(sweep)).status == 0 else None,
            "the sweep is accepted",
        )

    def _submitted(self, sweep: Mapping[str, object]) -> Said:
        return self.cli("sweep", "submit", "-", stdin=json.dumps(sweep))

    @contextmanager
    def events(self, sweep_id: str) -> Iterator[Iterator[RunEvent]]:
        with FarmClient(self.home).events(sweep_id) as events:
            yield events

    def runs(self, sweep_id: str) -> list[Run]:
        return runs_of(self.home, sweep_id)

    def processes(self, word: str) -> list[psutil.Process]:
        """Return the farm's live processes whose command line contains a word."""
        found = marked_processes(FARM_MARKER, self.cluster.instance)
        return [process for process in found if word in " ".join(cmdline(process))]

    def the_process(self, word: str) -> psutil.Process:
        (process,) = self.processes(word)
        return process


def first_step(events: Iterator[RunEvent]) -> RunEvent:
    """Wait until a run has done its first step; before, it may have said that it waits for cores,
    which another test's farm measures on, and has no worker."""
    return next(event for event in events if event.progress is not None and event.progress.done)


def _sweep_id(said: Said) -> str:
    return said.out.split()[1].rstrip(":")


def cmdline(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    stdin: str | None = None,
    timeout_s: float = COMMAND_S,
) -> Said:
    done = subprocess.run(
        command,
        env=environment,
        input=stdin or "",
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@contextmanager
def farm_up(path: Path, *options: str, within: Sequence[str] = ()) -> Iterator[TestFarm]:
    """Bring a farm up in a home, take it down at the end, and see that nothing is left."""
    farm = TestFarm(Home(path), within)
    said = farm.cli("up", *options)
    assert said.status == 0, said.err
    instance = farm.cluster.instance
    try:
        yield farm
    finally:
        said = farm.cli("down")
    assert said.status == 0, said.err
    assert list(marked_processes(FARM_MARKER, instance)) == []


@contextmanager
def joined_phone(farm: TestFarm, profile: str) -> Iterator[StartedPhone]:
    """Have a virtual phone in a farm for a while; then its agent lets go of it."""
    with started_phone(profile, adb_key(farm.home)) as phone:
        connect_phone(farm.home, phone.address)
        await_devices(farm.home, {phone.facts.serial})
        yield phone
        disconnect_phone(farm.home, phone.address)


def training_sweep(
    name: str, steps: int | Sequence[int] = 2, **changes: object
) -> dict[str, object]:
    """Return a sweep of the smallest real training runs: about a second a step.

    Of one thread: where the hypervisor takes one core away, another thread waits for it thousands
    of times a step.
    """
    return {
        "name": name,
        "workload": "retinanet_resnext50",
        "stack": "torch",
        "scenario": "training",
        "knobs": {**SMALLEST, "threads": 1, "steps": steps},
        "deadline_s": 200,
        **changes,
    }


def short_sweep(name: str, **changes: object) -> dict[str, object]:
    """Return a sweep of a run that is there to end: two steps of milliseconds of ResNet-18."""
    knobs = {**SHORTEST, "threads": 1, "steps": 2}
    return {**training_sweep(name), "workload": "resnet18", "knobs": knobs, **changes}


def endless_sweep(name: str, **changes: object) -> dict[str, object]:
    """Return a sweep of a run that is there to be ended: steps of milliseconds of an LSTM.

    It takes its first step sooner than RetinaNet does.
    """
    knobs = {**SMALLEST_LSTM, "steps": ENDLESS}
    return {**training_sweep(name), "workload": "lstm", "knobs": knobs, **changes}
