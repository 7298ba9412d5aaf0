"""Small examples of the contracts, made to measure by keyword."""

from __future__ import annotations

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.device import Agent, Device, DeviceKind, Fact, Registration
from controller.contracts.manifests import (
    Knob,
    LaunchManifest,
    ScenarioManifest,
    StackManifest,
    WorkloadManifest,
)
from controller.contracts.result import Blame, Failure, Measurement, Result, Validity
from controller.contracts.run import Attempt, AttemptState, Run, RunState
from controller.contracts.sweep import Cell, Sweep
from controller.contracts.units import Unit
from controller.contracts.wire import AttemptRef, Job, TrainingProgram, WorkerSpec
from controller.runtime.clock import Clock
from tests.support.knobs import job_knobs

VERSION = "0.2.0"


class FakeClock:
    """Seconds that pass only when told, by both clocks; `step` sets the wall clock alone."""

    def __init__(self, now: float = 1000.0) -> None:
        self._passed = 0.0
        self._epoch = now

    @property
    def now(self) -> float:
        """The date; a later one is reached by waiting."""
        return self._epoch + self._passed

    @now.setter
    def now(self, date: float) -> None:
        self._passed += date - self.now

    def step(self, seconds: float) -> None:
        """Set the wall clock."""
        self._epoch += seconds

    def __call__(self) -> float:
        return self.now

    def both(self) -> Clock:
        """Return it as a farm has it."""
        return Clock(self, lambda: self._passed)


def catalog() -> Catalog:
    """Return two workloads, two stacks (one a phone's) and two scenarios, with a knob of each type.

    `rate` is a float, `steps` an int in bounds, `precision` a word among two, `fused` a bool.
    """
    return Catalog(
        workloads={name: _workload(name) for name in ("resnet", "bert")},
        stacks={
            "torch": _stack("torch", DeviceKind.CPU_HOST),
            "litert": _stack("litert", DeviceKind.ANDROID, delegate=DELEGATE),
        },
        scenarios={"training": _training(), "offline": _offline()},
        launch={
            "cpu_host": LaunchManifest(
                name="cpu_host", title="", knobs={"threads": _int(default=0, least=0)}
            )
        },
    )


def _workload(name: str) -> WorkloadManifest:
    return WorkloadManifest(
        name=name,
        title="",
        task="",
        reference="",
        builder=f"models.{name}:Build",
        scenarios=("training",) if name == "bert" else ("training", "offline"),
        knobs={
            "batch_size": _int(default=2, least=1),
            "rate": Knob(type="float", default=0.5, description="", min=0.0),
        },
    )


DELEGATE = Knob(type="str", default="xnnpack", description="", choices=("xnnpack", "none", "auto"))


def _stack(name: str, kind: DeviceKind, **knobs: Knob) -> StackManifest:
    precision = Knob(type="str", default="fp32", description="", choices=("fp32", "bf16"))
    fused = Knob(type="bool", default=False, description="")
    return StackManifest(
        name=name,
        title="",
        device_kinds=(kind,),
        backend=f"agents.{name}:Backend",
        knobs={"precision": precision, "fused": fused, **knobs},
    )


def _training() -> ScenarioManifest:
    steps = Knob(type="int", default=10, description="", min=1, max=100, multiple_of=5)
    return ScenarioManifest(name="training", title="", metric="step_time", knobs={"steps": steps})


def _offline() -> ScenarioManifest:
    return ScenarioManifest(
        name="offline", title="", metric="throughput", knobs={"samples": _int(default=1, least=1)}
    )


def _int(default: int, least: int) -> Knob:
    return Knob(type="int", default=default, description="", min=least)


def cpu(
    name: str = "cpu-1",
    *,
    cores: frozenset[int] = frozenset({0, 1}),
    labels: dict[str, str] | None = None,
    facts: dict[str, Fact] | None = None,
) -> Device:
    """Return a server."""
    return Device(
        id=name,
        kind=DeviceKind.CPU_HOST,
        virtual=False,
        labels=labels or {},
        facts=facts or {},
        host_cores=cores,
    )


def phone(name: str = "phone-1") -> Device:
    """Return a phone."""
    return Device(id=name, kind=DeviceKind.ANDROID, virtual=False)


def sweep(**changes: object) -> Sweep:
    """Return a sweep of one cell and one repeat, changed by keyword."""
    keys = {"name": "demo", "workload": "resnet", "stack": "torch", "scenario": "training"}
    return Sweep.model_validate(keys | changes)


def cell(selector: str = "any", stack: str = "torch", **knobs: Scalar) -> Cell:
    """Return a cell with only the knobs given."""
    return Cell(workload="resnet", stack=stack, scenario="training", knobs=knobs, selector=selector)


def run(
    run_id: str = "run-1",
    *,
    of: Cell | None = None,
    position: int = 0,
    attempts: tuple[Attempt, ...] = (),
) -> Run:
    """Return a queued run."""
    return Run(
        run_id=run_id,
        sweep_id="demo-1",
        position=position,
        repeat=0,
        cell=of or cell(),
        deadline_s=60.0,
        created_at=1000.0,
        state=RunState.QUEUED,
        attempts=attempts,
    )


def attempt(device_id: str, number: int, state: AttemptState) -> Attempt:
    """Return an attempt; one that holds its lease has not ended."""
    return Attempt(
        number=number,
        device_id=device_id,
        agent_id="host",
        incarnation="first",
        state=state,
        leased_at=1.0,
        ended_at=None if state is AttemptState.LEASED else 2.0,
    )


def result(step_s: float = 0.25) -> Result:
    """Return a VALID result."""
    return Result(
        validity=Validity.VALID,
        metrics={"step_time": Measurement.of_samples((step_s,), Unit.SECONDS)},
        environment={"threads": 2},
    )


def failure(blame: Blame = Blame.DEVICE) -> Failure:
    """Return a failure that someone is to blame for."""
    return Failure(blame=blame, kind="exit", message="it ended", exit_code=1)


def agent(name: str = "host-1", incarnation: str = "first", version: str = VERSION) -> Agent:
    """Return an agent."""
    return Agent(id=name, incarnation=incarnation, version=version, host=name)


def registration(of: Agent | None = None, *devices: Device) -> Registration:
    """Return what an agent says when it starts; it has one server unless told."""
    return Registration(agent=of or agent(), devices=devices or (cpu(),))


def ref(run_id: str = "run-1", attempt: int = 1) -> AttemptRef:
    """Return the identity of an attempt."""
    return AttemptRef(run_id=run_id, attempt=attempt)


def job(of: AttemptRef | None = None, device_id: str = "cpu-1", deadline_s: float = 60.0) -> Job:
    """Return a job."""
    return Job(
        ref=of or ref(),
        device_id=device_id,
        workload="resnet",
        stack="torch",
        scenario="training",
        knobs=job_knobs(threads=1),
        program=TrainingProgram(
            builder="models.resnet:Build", arguments={}, backend="agents.torch:Backend"
        ),
        deadline_s=deadline_s,
    )


def worker_spec(artefact_dir: str, deadline_s: float = 60.0) -> WorkerSpec:
    """Return what a worker is told."""
    return WorkerSpec(job=job(deadline_s=deadline_s), device=cpu(), artefact_dir=artefact_dir)
