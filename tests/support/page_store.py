"""A store whose texts try to be markup, wherever a user, a phone or a worker writes one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.contracts.annotations import Note, SweepAnnotations
from controller.contracts.device import (
    DeviceHistoryEntry,
    DeviceLife,
    DeviceState,
    Hold,
    RegisteredDevice,
)
from controller.contracts.records import SweepRecord
from controller.contracts.result import Failure, Result, Validity
from controller.contracts.run import Run
from controller.contracts.sweep import Cell, Sweep
from controller.profiles.files import write
from controller.profiles.model import Profile
from controller.runtime.home import Home
from controller.scheduling.binding import runs_of
from controller.store.artefacts.folder import FolderArtefacts
from controller.store.sqlite import SqliteStore
from tests.support.artefacts import LOG, artefact, send
from tests.support.planted_profile import kernel, profile, step
from tests.support.store_examples import AGENT, CPU, PHONE, failure, grant, report, result

HOSTILE: Final = "</title></script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e"
MARKUP: Final = "<img src=x onerror=alert(2)>\"'&"
"""For names that have to be printable."""
REPEATS: Final = 50
"""Of each cell of a sweep of a large store."""
BATCH: Final = 2000
USER: Final = "submitter"
"""The user whose token of this scope `prepared` stores."""


def hostile_sweep() -> SweepRecord:
    """Return a sweep of a user with hostile texts."""
    sweep = Sweep.model_validate(
        {
            "name": "hostile",
            "description": HOSTILE,
            "workload": "retinanet_resnext50",
            "stack": "torch",
            "scenario": "training",
            "knobs": {"word": HOSTILE},
            "repeats": 8,
        }
    )
    sweep_id = sweep.sweep_id(1)
    return SweepRecord(sweep_id=sweep_id, sweep=sweep, generation=1, submitted_at=1500.0, user=USER)


def runs_in(record: SweepRecord) -> list[Run]:
    """Return its queued runs."""
    cell = Cell(
        workload="retinanet_resnext50",
        stack="torch",
        scenario="training",
        knobs={"word": HOSTILE},
        selector=f"label == {HOSTILE!r}",
    )
    return runs_of(record.sweep, record.sweep_id, [cell], now=1500.5)


def add_hostile(home: Home) -> SweepRecord:
    """Store a sweep: a result, an INVALID one, a failure, a run under way, and queued ones."""
    record = hostile_sweep()
    runs = runs_in(record)
    host = CPU.model_copy(
        update={"device": CPU.device.model_copy(update={"labels": {"rack": HOSTILE}})}
    )
    held = DeviceLife(quarantine=Hold(since=3.0, who="ann", why=HOSTILE))
    phone = PHONE.model_copy(update={"life": held, "online": True})
    event = DeviceHistoryEntry(
        device_id="phone-1", at=3.0, state=DeviceState.QUARANTINED, who="ann", why=HOSTILE
    )
    bad = result(0.5, Validity.INVALID).model_copy(
        update={
            "reasons": (HOSTILE,),
            "environment": {"cpu_model": HOSTILE, HOSTILE: HOSTILE},
            "artefacts": {"log": f"/x/{HOSTILE}"},
        }
    )
    broken = failure().model_copy(update={"message": HOSTILE, "output": HOSTILE * 3})
    with closing(SqliteStore.open(home.store)) as store:
        store.save_agent(AGENT, [host, phone], [event])
        store.add_sweep(record, runs)
        note = Note(number=1, text=HOSTILE, who="ann", at=1501.0)
        store.save_annotations(
            SweepAnnotations(sweep_id=record.sweep_id, tags=("paper",), notes=(note,), noted=1)
        )
        outcomes: tuple[Result | Failure, ...] = (result(), bad, broken)
        for number, outcome in enumerate(outcomes):
            leased = grant(runs[number], host, 2000.0 + 10 * number)
            store.save_runs([leased])
            store.save_runs([report(leased.run, outcome, now=2002.0 + 10 * number)])
        store.save_runs([grant(runs[3], host, 2100.0)])
    return record


def add_large(home: Home, results: int, devices: int = 20, workloads: int = 10) -> None:
    """Store so many VALID results: of each workload on each device, in sweeps of all of them."""
    fleet = [
        CPU.model_copy(update={"device": CPU.device.model_copy(update={"id": f"cpu-{number:02}"})})
        for number in range(devices)
    ]
    numbers = random.Random(0)
    with closing(SqliteStore.open(home.store)) as store:
        store.save_agent(AGENT, fleet, [])
        for generation in range(1, 1 + -(-results // (devices * workloads * REPEATS))):
            _add_sweep(store, generation, fleet, workloads, numbers)


def _add_sweep(
    store: SqliteStore,
    generation: int,
    fleet: Sequence[RegisteredDevice],
    workloads: int,
    numbers: random.Random,
) -> None:
    names = [f"w{number}" for number in range(workloads)]
    said = {"name": "large", "workload": names, "stack": "torch", "scenario": "training"}
    sweep = Sweep.model_validate({**said, "repeats": REPEATS})
    sweep_id = sweep.sweep_id(generation)
    record = SweepRecord(
        sweep_id=sweep_id, sweep=sweep, generation=generation, submitted_at=2000.0 + generation
    )
    cells = [
        Cell(workload=name, stack="torch", scenario="training", knobs={}, selector=device.device.id)
        for name in names
        for device in fleet
    ]
    runs = store.add_sweep(record, runs_of(sweep, sweep_id, cells, now=2000.0))
    for begin in range(0, len(runs), BATCH):
        leased = [
            grant(run, fleet[(begin + place) % len(fleet)], 3000.0 + generation)
            for place, run in enumerate(runs[begin : begin + BATCH])
        ]
        store.save_runs(leased)
        store.save_runs(
            [
                report(change.run, result(numbers.lognormvariate(0, 0.05)), now=3001.0 + generation)
                for change in leased
            ]
        )


def hostile_profile() -> Profile:
    """Return a profile with a module, an op and a kernel of texts that try to be markup."""
    return profile([*step(), kernel(f"aten::{MARKUP}", 0.5, module=MARKUP)])


def add_files(home: Home, run_id: str) -> None:
    """Store on the head what a profiled run left: a log of such a name, and a profile."""
    store = FolderArtefacts(home.artefacts, room_bytes=0)
    with closing(store), TemporaryDirectory() as folder:
        send(store, artefact(LOG, f"{MARKUP}.txt", run_id), LOG)
        write(hostile_profile(), Path(folder))
        for file in sorted(Path(folder).iterdir()):
            content = file.read_bytes()
            send(store, artefact(content, f"profile/{file.name}", run_id), content)
