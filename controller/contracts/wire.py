"""What crosses between agent and controller, and between agent and worker."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from controller.contracts.base import Contract, Scalar
from controller.contracts.command import Command
from controller.contracts.device import Device, Id, Word
from controller.contracts.manifests import QualityTarget, StackEnvironment
from controller.contracts.mobile import OnDevice
from controller.contracts.result import Failure, Outcome, Result
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Cell

# --- agent ↔ controller, over Ray ---------------------------------------------------------------

HostTime = Annotated[float, Field(ge=0.0, le=253_402_300_799.0)]
"""Seconds since the epoch, to the end of the year 9999, by a host's clock, which may be wrong."""


class AttemptRef(Contract):
    """The identity of an attempt."""

    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
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


class CommandProgram(Contract):
    """A program of a user's, from its stack's manifest, and the model it runs, if it takes one."""

    type: Literal["command"] = "command"
    stack: str
    command: Command
    workload: OnDevice | None = None


Program = Annotated[TrainingProgram | OnDeviceProgram | CommandProgram, Field(discriminator="type")]


class CandidateJob(Contract):
    """Side B of a paired comparison, and when to stop."""

    stack: str
    knobs: dict[str, Scalar]
    program: Program
    metric: str
    """The scenario's: what is compared."""
    width: float
    time_limit_s: float


class Job(Contract):
    """Everything needed to do one attempt."""

    ref: AttemptRef
    device_id: str
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    """All of the cell's."""
    program: Program
    deadline_s: float
    candidate: CandidateJob | None = None
    """What it is compared with, in turns; `stack`, `knobs` and `program` are then side A's."""
    profiled: bool = False
    """Profile it, too, when it has been timed."""


class ProbeOrder(Contract):
    """A look at a device in quarantine; the number tells it from earlier ones."""

    device_id: Id
    number: int


class ProbeReport(Contract):
    """What a probe has come to; sent until an answer has come."""

    of: ProbeOrder
    passed: bool
    why: Word
    """What was seen."""


class Orders(Contract):
    """The controller's answer: what the agent should run and stop, worked out from the leases.

    Orders repeat until the agent's `held` agrees with the leases, so that a lost answer costs
    nothing; an agent ignores what it already does.
    """

    run: tuple[Job, ...] = ()
    stop: tuple[AttemptRef, ...] = ()
    probe: tuple[ProbeOrder, ...] = ()


class Exchange(Contract):
    """An agent's question: here is what I hold; what should change?"""

    agent_id: Id
    incarnation: Id
    held: tuple[AttemptRef, ...]
    asked_at: HostTime
    """Tells the controller how far that clock is off."""
    probing: tuple[ProbeOrder, ...] = ()
    """Probes that are under way."""
    probed: Annotated[tuple[ProbeReport, ...], Field(max_length=4096)] = ()


class Report(Contract):
    """An attempt's outcome; sent until the controller has acknowledged it."""

    ref: AttemptRef
    agent_id: Id
    incarnation: Id
    started_at: HostTime
    outcome: Outcome


# --- agent ↔ worker, JSON lines on the worker's standard input and output ----------------------


COOL_DOWN: Final = "cool-down"
"""The phase of a run that waits until its device is within its policy's limits."""


class Progress(Contract):
    """How far a run is; sent at most once a second."""

    type: Literal["progress"] = "progress"
    phase: str
    done: int
    total: int
    values: dict[str, float] = {}
    """Live values by metric name: `loss`, `step_time` …"""


class StepBatch(Contract):
    """What a worker that takes turns says after each of them, and once when it is ready."""

    type: Literal["turn"] = "turn"
    samples: tuple[float, ...] = ()
    """Seconds of each counted step; none when it is ready."""
    rest_cpu_s: float = 0.0
    """CPU seconds it has used between this turn and the one before, when it should rest."""


Message = Annotated[Progress | StepBatch | Result | Failure, Field(discriminator="type")]
MESSAGE: TypeAdapter[Progress | StepBatch | Result | Failure] = TypeAdapter(Message)


class StepOrder(Contract):
    """A later line for a worker that takes turns."""

    steps: int = Field(ge=0)
    """Counted steps of the next turn; 0: there is none, say the Result."""


ProfilePass = Literal["trace", "verbose", "replay", "peaks"]
"""What a worker does instead of timing: train under torch.profiler, or under that and oneDNN's
verbose mode; run kernels alone; find out what the machine can do."""


class WorkerSpec(Contract):
    """The first line on a worker's standard input; the only one unless `in_batches`."""

    job: Job
    device: Device
    artefact_dir: str
    in_batches: bool = False
    """Measure in turns, each when a StepOrder comes."""
    profile_pass: ProfilePass | None = None


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
