"""Whole examples of what a store keeps: every field filled, awkward values included."""

from __future__ import annotations

from controller.contracts.device import (
    Agent,
    Device,
    DeviceKind,
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.records import SweepRecord
from controller.contracts.result import Blame, Failure, Measurement, Result, Validity
from controller.contracts.run import Run, RunChange
from controller.contracts.sweep import Cell, Sweep
from controller.contracts.units import Unit
from controller.scheduling.binding import runs_of
from controller.scheduling.lifecycle import Event, Granted, LeaseLost, Reported, advance
from controller.scheduling.policy import RetryPolicy

AGENT = RegisteredAgent(
    agent=Agent(
        id="host-1",
        incarnation="first",
        version="0.2.0",
        host="host-1",
        exporter="127.0.0.1:9",
        boot_id="993b1a36-047e-4841-9c33-428c133d4e9b",
    ),
    online=True,
    since=1.5,
    clock_ahead_s=-3.5,
)
CPU = RegisteredDevice(
    device=Device(
        id="host-1",
        kind=DeviceKind.CPU_HOST,
        virtual=False,
        labels={"rack": "7"},
        facts={"cpu_model": "Xeon", "cores": 2, "ghz": 2.0, "isa": ("avx512", "amx")},
        host_cores=frozenset({1, 0}),
    ),
    agent_id="host-1",
    online=True,
    since=1.5,
)
PHONE = RegisteredDevice(
    device=Device(id="phone-1", kind=DeviceKind.ANDROID, virtual=True),
    agent_id="host-1",
    online=False,
    since=2.25,
)


def sweep_record(name: str = "demo", generation: int = 1, repeats: int = 3) -> SweepRecord:
    """Return a sweep of one cell and some repeats."""
    sweep = Sweep.model_validate(
        {
            "name": name,
            "workload": "retinanet",
            "stack": "eager",
            "scenario": "training",
            "knobs": {"batch": [2, 4], "lr": 0.1},
            "repeats": repeats,
        }
    )
    return SweepRecord(
        sweep_id=sweep.sweep_id(generation),
        sweep=sweep,
        generation=generation,
        submitted_at=1000.125,
    )


def runs_for(record: SweepRecord) -> list[Run]:
    """Return the queued runs of `sweep_record`'s one cell."""
    cell = Cell(
        workload="retinanet",
        stack="eager",
        scenario="training",
        knobs={"batch": 2, "channels_last": True, "lr": 0.1, "dtype": "bf16"},
        selector="any",
    )
    return runs_of(record.sweep, record.sweep_id, [cell], now=1000.5)


def result(step_s: float = 0.25, validity: Validity = Validity.VALID) -> Result:
    """Return a result with two metrics; INVALID comes with a reason."""
    return Result(
        validity=validity,
        reasons=() if validity is Validity.VALID else ("another process took 31 % of the CPU",),
        metrics={
            "step_time": Measurement.of_samples((step_s, step_s + 0.1, 0.1), Unit.SECONDS),
            "throughput": Measurement(value=8, unit=Unit.IMAGES_PER_SECOND),
        },
        environment={"governor": None, "threads": 2, "load": 0.5, "numa": (0, 1), "smt": False},
        artefacts={"profile": "artefacts/profile.json"},
    )


def failure(blame: Blame = Blame.WORKLOAD) -> Failure:
    """Return a failure by signal, with the worker's last words."""
    return Failure(
        blame=blame, kind="signal", message="killed", output="töö\n\x00", exit_code=None, signal=9
    )


def grant(run: Run, device: RegisteredDevice = CPU, now: float = 2000.0) -> RunChange:
    """Lease a queued run to a device."""
    event = Granted(device.device.id, device.agent_id, "first")
    return change(run, event, now)


def report(run: Run, outcome: Result | Failure, attempt: int = 1, now: float = 2001.5) -> RunChange:
    """Report how an attempt ended."""
    return change(run, Reported(attempt, outcome, started_at=now - 1), now)


def lose(run: Run, now: float = 2030.0) -> RunChange:
    """Let a run's lease run out."""
    return change(run, LeaseLost(), now)


def change(run: Run, event: Event, now: float) -> RunChange:
    """Apply an event under a policy that gives up on a run's second loss."""
    return advance(run, event, now, RetryPolicy(max_failures=3, max_lost=2))
