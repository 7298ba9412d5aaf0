"""Where a result comes from, walked back step by step."""

from __future__ import annotations

from enum import StrEnum

from controller.contracts.base import Contract, Scalar, Timestamp
from controller.contracts.device import DeviceKind
from controller.contracts.imported import ImportOrigin
from controller.contracts.result import Environment
from controller.contracts.run import AttemptState


class FileState(StrEnum):
    """What has become of a file that an attempt left."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    """Its content no longer has the checksum that was recorded."""
    UNCHECKED = "unchecked"
    """The head has it, but no checksum of it was recorded."""
    GONE = "gone"
    """The head has kept it no longer."""
    UNREADABLE = "unreadable"
    """The head's copy is damaged."""
    ELSEWHERE = "elsewhere"
    """The head has no copy of it; its agent keeps it."""


class KeptFile(Contract):
    """A file that an attempt left."""

    path: str
    names: tuple[str, ...] = ()
    """By which `artefacts` has it."""
    sha256: str | None = None
    """When the result was handed in; None: not recorded."""
    state: FileState


class SweepOrigin(Contract):
    """The submission that asked for a run."""

    sweep_id: str
    name: str
    generation: int
    user: str
    submitted_at: Timestamp
    tags: tuple[str, ...] = ()


class CellOrigin(Contract):
    """What was to be measured."""

    key: str
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    selector: str | None = None
    """None: the record of the run can't be read."""
    versus: str | None = None
    """Side B of a paired comparison: stack and knobs."""


class AttemptOrigin(Contract):
    """An attempt of the run."""

    number: int
    device: str
    agent: str
    state: AttemptState
    leased_at: Timestamp
    ended_at: Timestamp | None = None


class Provenance(Contract):
    """Where the outcome of an attempt comes from."""

    run_id: str
    attempt: int
    outcome: str
    """Its validity; `failure` and its kind for an attempt that measured nothing."""
    reasons: tuple[str, ...] = ()
    counted: bool
    repeat: int
    started_at: Timestamp
    recorded_at: Timestamp | None
    imported: ImportOrigin | None = None
    """Where a published result was read from; None for one that was measured here."""
    sweep: SweepOrigin | None
    """None: its record can't be read."""
    cell: CellOrigin
    attempts: tuple[AttemptOrigin, ...]
    device: str
    device_name: str
    device_kind: DeviceKind
    virtual: bool
    agent: str | None
    host: str | None
    """Name of the agent's host."""
    identity: Environment
    """What device, software, model and data were."""
    settings: Environment
    conditions: Environment
    files: tuple[KeptFile, ...]
    not_recorded: tuple[str, ...]
    """What is usually recorded, and is not of this outcome."""
