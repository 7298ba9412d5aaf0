"""Records that the store returns to people: sweeps, results and failures."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from controller.contracts.base import Contract, Scalar, Timestamp
from controller.contracts.device import EMULATED, DeviceKind, likeness
from controller.contracts.pair import Pair
from controller.contracts.profile import ProfileSummary
from controller.contracts.result import Blame, Environment, Measurement, Validity
from controller.contracts.run import RunState
from controller.contracts.sweep import PairedCandidate, Sweep

ADMIN: Final = "admin"
"""The user who holds the farm's own api-token."""


class SweepRecord(Contract):
    """A submitted sweep."""

    sweep_id: str
    sweep: Sweep
    generation: int
    submitted_at: Timestamp
    user: str = ADMIN
    """The user whose token submitted it."""


class Scope(StrEnum):
    """What a token allows; each scope allows all that the one before it does."""

    VIEWER = "viewer"
    """Reading, over the API for teams."""
    SUBMITTER = "submitter"
    """Submitting sweeps, and changing the user's own."""
    ADMINISTRATOR = "administrator"
    """All that the farm's own token allows, as the user `admin`."""

    def allows(self, needed: Scope) -> bool:
        """Return whether a token of this scope may do what needs another scope."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


class Token(Contract):
    """A user's token, without the secret."""

    name: str
    digest: str
    """SHA-256 of the token, hex."""
    created_at: Timestamp
    revoked_at: Timestamp | None = None
    scope: Scope = Scope.SUBMITTER


class Spent(Contract):
    """The device time that an attempt of a user took."""

    user: str
    ended_at: float
    seconds: float


class SweepTally(Contract):
    """The number of runs of a sweep in each state, and of those whose result met its rules."""

    runs: dict[RunState, int]
    met_rules: int
    """VALID or DISTURBED."""
    lost: int = 0
    """Runs that can't be read because their records are damaged."""


class Took(Contract):
    """The time that a successful attempt took, from lease to end."""

    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    versus: PairedCandidate | None
    device: str
    device_kind: DeviceKind
    seconds: float


class OutcomeOrigin(Contract):
    """Where an outcome came from: its identity, without its content."""

    run_id: str
    sweep_id: str
    cell_key: str
    repeat: int
    attempt: int
    device: str
    device_name: str = ""
    """Its name for people, as it is now; empty if unknown."""
    device_kind: DeviceKind
    virtual: bool
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    versus: PairedCandidate | None = None
    started_at: Timestamp
    recorded_at: Timestamp | None = None
    """When the controller had its outcome."""
    counted: bool
    tags: tuple[str, ...] = ()
    """The tags of its sweep, as they are now."""
    environment: Environment = {}

    @property
    def emulated(self) -> bool:
        """Whether a program emulated the device's processor."""
        return self.environment.get(EMULATED) is True

    @property
    def shown_device(self) -> str:
        """The device's name, or its id if that is unknown."""
        return self.device_name or self.device

    @property
    def imported_from(self) -> str:
        """Suite, round and division that published it; empty for what a farm measured."""
        return ""

    @property
    def device_label(self) -> str:
        """The device's name, with ` (virtual)`, ` (imported, MLPerf Mobile v4.0)` or the like."""
        kind = likeness(
            virtual=self.virtual, emulated=self.emulated, imported_from=self.imported_from
        )
        return f"{self.shown_device}{kind}"


class StoredResult(OutcomeOrigin):
    """A result with its origin; the format of `results list --json`, see docs/result-format.md."""

    validity: Validity
    reasons: tuple[str, ...]
    metrics: dict[str, Measurement]
    environment: Environment
    artefacts: dict[str, str]
    checksums: dict[str, str] = {}
    pairs: tuple[Pair, ...] = ()
    profile: ProfileSummary | None = None


class NewestResult(Contract):
    """A counted result with no more samples than its figure needs, where only the newest of its
    kind matters."""

    device: str
    sweep_id: str
    cell_key: str
    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    profiled: bool = False
    """Whether its run was profiled: then its speed is compared with nothing."""
    validity: Validity
    recorded_at: float
    metrics: dict[str, Measurement]
    """Without samples."""
    ranked: tuple[float, ...] = ()
    """Raw samples of the metric that ranks its scenario; its value if it has none."""
    profile: ProfileSummary | None = None

    @property
    def precision(self) -> str | None:
        """The number format, see `precision_of`."""
        return precision_of(self.knobs)


REPEATS_KEPT: Final = 100
"""Repeats of a newest result that its figures are made from, at most."""

PRECISION_KNOBS = ("precision", "numerics")
"""Knobs that name the number format: the first of stacks that train, the second of model files."""


def precision_of(knobs: Mapping[str, Scalar]) -> str | None:
    """Return the number format that a cell's knobs ask for, or None."""
    return next((str(knobs[name]) for name in PRECISION_KNOBS if name in knobs), None)


def scores_only(knobs: Mapping[str, Scalar]) -> bool:
    """Return whether a cell measures an accuracy alone, and no speed that would rank it."""
    return knobs.get("mode") == "accuracy"


class StoredFailure(OutcomeOrigin):
    """A failure with its origin; the format of `results list --failures --json`."""

    blame: Blame
    kind: str
    message: str
    output: str
    exit_code: int | None
    signal: int | None
