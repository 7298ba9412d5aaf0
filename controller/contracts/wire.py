"""What crosses between agent and controller, and between agent and worker."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from controller.contracts.base import Contract, Scalar
from controller.contracts.catalog import OnDevice, QualityTarget, StackEnvironment
from controller.contracts.device import Device
from controller.contracts.result import Failure, Outcome, Result
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Cell

# --- agent ↔ controller, over Ray ---------------------------------------------------------------


class AttemptRef(Contract):
    """The identity of an attempt."""

    run_id: str
    attempt: int


class TrainingProgram(Contract):
    """What a worker process on a host builds and trains."""

    type: Literal["training"] = "training"
    builder: str
    """`package.module:Class` of the workload, from its manifest."""
    arguments: dict[str, Scalar]
    """The knobs the workload's manifest declares: what its builder is called with."""
    backend: str
    """`package.module:Class` of the stack, from its manifest."""
    environment: StackEnvironment | None = None
    """The Python environment it runs in, if not benchfarm's own."""


class OnDeviceProgram(Contract):
    """What a device's own runtime runs, with LoadGen beside it."""

    type: Literal["on_device"] = "on_device"
    bundle: str
    workload: OnDevice
    quality_target: QualityTarget | None


class Job(Contract):
    """Everything needed to do one attempt."""

    ref: AttemptRef
    device_id: str
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    """All of the cell's."""
    program: Annotated[TrainingProgram | OnDeviceProgram, Field(discriminator="type")]
    deadline_s: float


class Orders(Contract):
    """The controller's answer: what the agent should run and stop, worked out from the leases.

    Orders repeat until the agent's `held` agrees with the leases, so that a lost answer costs
    nothing; an agent ignores what it already does.
    """

    run: tuple[Job, ...] = ()
    stop: tuple[AttemptRef, ...] = ()


class Exchange(Contract):
    """An agent's question: here is what I hold; what should change?"""

    agent_id: str
    incarnation: str
    held: tuple[AttemptRef, ...]


class Report(Contract):
    """An attempt's outcome; sent until the controller has acknowledged it."""

    ref: AttemptRef
    agent_id: str
    incarnation: str
    started_at: float
    outcome: Outcome


# --- worker → agent, JSON lines on the worker's standard output --------------------------------


class Progress(Contract):
    """How far a run is; sent at most once a second."""

    type: Literal["progress"] = "progress"
    phase: str
    done: int
    total: int
    values: dict[str, float] = {}
    """Live values by metric name: `loss`, `step_time` …"""


Message = Annotated[Progress | Result | Failure, Field(discriminator="type")]
MESSAGE: TypeAdapter[Progress | Result | Failure] = TypeAdapter(Message)


class WorkerSpec(Contract):
    """The one line a worker reads from its standard input."""

    job: Job
    device: Device
    artefact_dir: str


class RunProgress(Contract):
    """A worker's progress on its way to whoever watches."""

    ref: AttemptRef
    progress: Progress


# --- controller → whoever submits and watches ---------------------------------------------------


class Submission(Contract):
    """The answer to a submitted sweep."""

    sweep_id: str
    new_runs: int
    known_runs: int


class RunEvent(Contract):
    """A run changed state, or got further."""

    sweep_id: str
    run_id: str
    state: RunState
    attempt: int
    device_id: str | None
    cell: Cell
    progress: Progress | None = None

    @staticmethod
    def of(run: Run, progress: Progress | None = None) -> RunEvent:
        """Tell of a run as it is now."""
        last = run.attempts[-1] if run.attempts else None
        return RunEvent(
            sweep_id=run.sweep_id,
            run_id=run.run_id,
            state=run.state,
            attempt=len(run.attempts),
            device_id=last.device_id if last else None,
            cell=run.cell,
            progress=progress,
        )
