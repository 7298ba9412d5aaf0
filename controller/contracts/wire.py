"""Messages between agent and controller, and between agent and worker."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from controller.contracts.base import Contract, Scalar
from controller.contracts.command import Command
from controller.contracts.device import Device, Id, Label, Word
from controller.contracts.manifests import QualityTarget, StackEnvironment
from controller.contracts.mobile import OnDevice
from controller.contracts.plugins import Plugin
from controller.contracts.result import Failure, Outcome, Result
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit
from controller.contracts.weights import NeededWeights

# --- agent ↔ controller, over Ray ---------------------------------------------------------------

HostTime = Annotated[float, Field(ge=0.0, le=253_402_300_799.0)]
"""Seconds since the epoch, until the end of the year 9999, by a host's clock, which may be wrong.
"""


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
    """The knobs that the workload's manifest declares; passed to its builder."""
    plain: dict[str, Scalar] | None = None
    """The same with the workload's switches at their defaults, if the scenario compares with it."""
    backend: str
    """`package.module:Class` of the stack, from its manifest."""
    environment: StackEnvironment | None = None
    """The Python environment it runs in, if not benchfarm's own."""
    rate_unit: Unit = Unit.SAMPLES_PER_SECOND
    """What its samples are, from the unit of the workload's knob `batch_size`."""
    scenario_module: str | None = None
    """`package.module` of the scenario, if it is not one of `agents.scenarios`."""
    plugins: dict[str, Plugin] = {}
    """`workload`, `stack`, `scenario` → the plugin that it comes from."""
    weights: NeededWeights | None = None
    """What the argument `weights` names, until the worker has put the file's path there."""
    quality_target: QualityTarget | None = None
    """The least accuracy that counts under LoadGen; None: its samples have no truths."""


class OnDeviceProgram(Contract):
    """A model for a device's own runtime, driven by LoadGen."""

    type: Literal["on_device"] = "on_device"
    bundle: str
    workload: OnDevice
    quality_target: QualityTarget | None


class CommandProgram(Contract):
    """A user's program from its stack's manifest, and its model, if it takes one."""

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
    """The scenario's metric, which is compared."""
    width: float
    time_limit_s: float


class TrainingHost(Contract):
    """One of the hosts of a run on several."""

    device_id: str
    name: str
    """Its host name."""
    address: str
    """IP address at which the others reach it."""


class HostShare(Contract):
    """What an agent runs of an attempt on several hosts: an equal share of its ranks."""

    index: int = Field(ge=0)
    """Which of `hosts` the agent's is; the first leads."""
    hosts: tuple[TrainingHost, ...]
    port: int = Field(ge=1, le=65535)
    """TCP port of the first at which the ranks find each other."""

    @property
    def leads(self) -> bool:
        """Whether the agent's result is that of the run."""
        return self.index == 0


class Job(Contract):
    """Everything needed for one attempt."""

    ref: AttemptRef
    device_id: str
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    """All knobs of the cell."""
    program: Program
    deadline_s: float
    candidate: CandidateJob | None = None
    """Side B of a paired comparison; `stack`, `knobs` and `program` are then side A's."""
    profiled: bool = False
    """Whether to profile it after it has been timed."""
    share: HostShare | None = None
    """None of a run on one host."""

    @property
    def leads(self) -> bool:
        """Whether the agent's result is that of the run."""
        return self.share is None or self.share.leads


class ProbeOrder(Contract):
    """An order to probe a device in quarantine; the number identifies the probe."""

    device_id: Id
    number: int


class ProbeReport(Contract):
    """The result of a probe; sent until the controller has acknowledged it."""

    of: ProbeOrder
    passed: bool
    why: Word
    """What the probe observed."""


class Orders(Contract):
    """The controller's answer: what the agent should run and stop, derived from the leases.

    Orders repeat until the agent's `held` agrees with the leases, so a lost answer does no harm; an
    agent ignores orders that it already follows.
    """

    run: tuple[Job, ...] = ()
    stop: tuple[AttemptRef, ...] = ()
    probe: tuple[ProbeOrder, ...] = ()


MOST_FILES: Final = 4096
"""Files of a store that an agent tells of; of a larger store it tells nothing."""


class HeldUp(Contract):
    """A held attempt that waits for a process of another farm."""

    ref: AttemptRef
    why: Word
    """`waiting for core 3, which process 7 of user ann holds`."""


class Exchange(Contract):
    """An agent's request: the runs that it holds now."""

    agent_id: Id
    incarnation: Id
    held: Annotated[tuple[AttemptRef, ...], Field(max_length=4096)]
    asked_at: HostTime
    """The agent's clock, from which the controller computes its offset."""
    probing: Annotated[tuple[ProbeOrder, ...], Field(max_length=4096)] = ()
    """Probes that are under way."""
    probed: Annotated[tuple[ProbeReport, ...], Field(max_length=4096)] = ()
    held_up: Annotated[tuple[HeldUp, ...], Field(max_length=4096)] = ()
    files: Annotated[tuple[Word, ...], Field(max_length=MOST_FILES)] | None = None
    """Checksums and keys in its host's store of models; None if it can't tell."""


class Report(Contract):
    """The outcome of an attempt; sent until the controller has acknowledged it."""

    ref: AttemptRef
    agent_id: Id
    incarnation: Id
    started_at: HostTime
    outcome: Outcome


# --- agent ↔ worker, JSON lines on the worker's standard input and output ----------------------


WAIT_FOR_CORE: Final = "waiting for core"
"""How the phase begins in which a run waits for a core that a process of another farm holds."""
COOL_DOWN: Final = "cool-down"
"""The phase in which a run waits until its device is within its policy's limits."""


Count = Annotated[int, Field(ge=0, le=2**53)]
"""A whole number that a double represents exactly."""


class Progress(Contract):
    """Progress of a run; sent at most once a second."""

    type: Literal["progress"] = "progress"
    phase: Word
    done: Count
    total: Count
    values: Annotated[dict[Label, float], Field(max_length=64)] = {}
    """Current values by metric name: `loss`, `step_time` …"""


class StepBatch(Contract):
    """A worker's message after each batch of steps, and once when it is ready."""

    type: Literal["turn"] = "turn"
    samples: tuple[float, ...] = ()
    """Seconds of each counted step; empty in the first message."""
    rest_cpu_s: float = 0.0
    """CPU seconds used between the previous batch and this one, when the worker should be idle."""
    uncounted: int = Field(default=1, ge=0)
    """Steps at the beginning of each batch that are not counted; told by the first message."""


Message = Annotated[Progress | StepBatch | Result | Failure, Field(discriminator="type")]
MESSAGE: TypeAdapter[Progress | StepBatch | Result | Failure] = TypeAdapter(Message)


class StepOrder(Contract):
    """An order for the next batch; a line on the worker's standard input."""

    steps: int = Field(ge=0)
    """Counted steps of the next batch; 0 ends the measurement: the worker sends its Result."""


ProfilePass = Literal["trace", "verbose", "replay", "counters", "peaks"]
"""What a worker does instead of timing: train under torch.profiler, train under torch.profiler with
oneDNN's verbose mode, replay kernels, count in each phase, or measure the machine's peaks."""


class RankPlace(Contract):
    """A process's place among those that train together."""

    rank: int = Field(ge=0)
    ranks: int = Field(ge=1)
    """On all hosts."""
    meeting_point: str
    """Path of the file in which the ranks of one host find each other."""
    local: int = Field(ge=1)
    """Ranks on its own host."""


class WorkerSpec(Contract):
    """The first line on a worker's standard input; the only one unless `in_batches`."""

    job: Job
    device: Device
    artefact_dir: str
    in_batches: bool = False
    """Measure in batches, each started by a StepOrder."""
    profile_pass: ProfilePass | None = None
    most_windows: int | None = Field(default=None, ge=1)
    """How often to watch steps at most; None: as often as a VALID profile may need."""
    rank: RankPlace | None = None
    """Be a rank of the worker that sends this, instead of the worker."""


class RunProgress(Contract):
    """The progress of a run, for whoever watches; from the agent that leads it."""

    ref: AttemptRef
    agent_id: Id
    incarnation: Id
    progress: Progress


# --- controller → whoever submits and watches ---------------------------------------------------


class Submission(Contract):
    """The answer to a submitted sweep."""

    sweep_id: str
    new_runs: int
    known_runs: int
    ended_runs: int = 0
    """Known runs that have failed or were cancelled."""
    left_out: tuple[str, ...] = ()
    """Devices that fit but are away, and so get no run of a sweep for each device; with why."""
    awaited: tuple[str, ...] = ()
    """Devices that are away, and that runs of a sweep with `await` wait for; with why."""


class RunEvent(Contract):
    """A change of a run's state, or its progress."""

    sweep_id: str
    run_id: str
    state: RunState
    attempt: int
    device_id: str | None
    cell: Cell
    progress: Progress | None = None

    @staticmethod
    def of(run: Run, progress: Progress | None = None) -> RunEvent:
        """Return the event for a run's present state."""
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
