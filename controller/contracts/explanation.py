"""Why a result differs from earlier ones of its cell on its device."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from controller.contracts.base import Contract, Scalar
from controller.contracts.units import Unit

FactValue = Scalar | tuple[Scalar, ...] | None
FEWEST: Final = 2
"""Earlier runs from which an interval is known."""


class Cause(StrEnum):
    """What may make a result differ; of causes that rank alike, the first here goes first."""

    MODEL = "other model"
    DATA = "other data"
    DELEGATE = "other delegate"
    THREADS = "other threads"
    RUN = "another kind of run"
    HARDWARE = "other hardware"
    GOVERNOR = "governor"
    LOAD = "other load"
    HEAT = "heat"
    THROTTLING = "throttling"
    CLOCK = "clock frequency"
    MEMORY = "memory"
    BUNDLE = "other bundle"
    VERSIONS = "other versions"
    KERNEL = "other kernel"
    MICROCODE = "other microcode"
    SYSTEM = "other system"
    SETTINGS = "other settings"
    POWER = "power, screen and radio"


class Effect(StrEnum):
    """How much of a difference a cause may account for."""

    ENOUGH = "enough"
    """At least as much as was measured."""
    PART = "part"
    """Less than was measured."""
    UNKNOWN = "unknown"
    """Nothing recorded bounds it."""


class Speed(StrEnum):
    """What the interval of the ratio of times shows."""

    SLOWER = "slower"
    FASTER = "faster"
    NOT_SHOWN = "not_shown"
    """The interval contains 1."""
    NO_INTERVAL = "no_interval"
    """There are too few earlier runs for an interval."""


class FactChange(Contract):
    """A fact that differs from what it was before."""

    fact: str
    """Its name in the environment."""
    before: tuple[FactValue, ...]
    """Its different values, in the order of the runs; of a number, of each run."""
    now: FactValue
    unit: str | None = None


class PossibleCause(Contract):
    """A cause that the recorded facts speak for."""

    cause: Cause
    effect: Effect
    at_most: float | None = None
    """By how many times it may have made the run slower (or faster, if the run was); None: not
    known."""
    evidence: tuple[FactChange, ...]


class Explanation(Contract):
    """A result beside earlier ones of its cell and device, and the causes, likeliest first."""

    run_id: str
    attempt: int
    device: str
    device_name: str
    workload: str
    scenario: str
    metric: str
    unit: Unit
    value: float
    before: float
    """The geometric mean of the earlier runs."""
    earlier: tuple[str, ...]
    """Ids of the earlier runs, oldest first."""
    same_sweep: bool
    """Whether they are repeats of the same sweep, since no earlier sweep has any."""
    times_slower: float
    """Time now over time before, or rate before over rate now."""
    interval: tuple[float, float] | None = None
    """Of `times_slower`: 95 %, for one more run like the earlier ones."""
    speed: Speed
    causes: tuple[PossibleCause, ...]
    """Empty if no difference is shown, or nothing that was recorded explains it."""
    changed: tuple[FactChange, ...]
    """What else the device, its software and the run's settings differ in."""
    not_recorded: tuple[str, ...]
    """Facts that would tell a cause, but are missing now or before."""
