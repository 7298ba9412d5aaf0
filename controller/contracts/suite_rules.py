"""The rules of MLPerf Mobile as data: a file for each version of the suite."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from controller.contracts.base import Contract, Name, Scalar
from controller.contracts.documents import load_yaml, read_limited

FOLDER: Final = Path(__file__).parents[2] / "models" / "manifests" / "suites"

OfSuite = Literal["single_stream", "offline"]
"""The scenarios of the suite."""
Condition = Literal[
    "battery_percent",
    "charging",
    "battery_celsius",
    "thermal_status",
    "screen_brightness",
    "root",
    "selinux",
]
"""A condition of the phone, as a result names it before `_before` and `_after`."""


class Seeds(Contract):
    """The seeds of a round, from which LoadGen draws samples and times."""

    qsl: NonNegativeInt
    sample_index: NonNegativeInt
    schedule: NonNegativeInt

    @property
    def said(self) -> tuple[str, str, str]:
        """The seeds in this order, as text: they may exceed the 63 bits of other readers."""
        return str(self.qsl), str(self.sample_index), str(self.schedule)


class ScenarioRules(Contract):
    """How long LoadGen runs in a scenario."""

    queries: PositiveInt
    """Least number of queries; of offline, samples of its only one."""
    seconds: Annotated[float, Field(ge=0)] = 0.0
    """Least duration."""
    most_seconds: PositiveFloat | None = None
    """Duration after which a run ends, however few queries it has had; None: it has no end."""

    @property
    def least_ms(self) -> float:
        """Least duration in milliseconds, as LoadGen takes it."""
        return self.seconds * 1000

    @property
    def most_ms(self) -> float:
        """Longest duration in milliseconds, as LoadGen takes it: 0 if there is none."""
        return (self.most_seconds or 0.0) * 1000


class Target(Contract):
    """The least accuracy of a task."""

    metric: str
    value: float
    numerics: Name | None = None
    """Of models with these numerics alone; None: of all others."""
    dataset: Name | None = None
    """On this data set alone; None: on all others."""


class TaskRules(Contract):
    """What a version asks of one of its tasks."""

    scenarios: tuple[OfSuite, ...]
    performance_samples: PositiveInt
    """Samples at least from which LoadGen draws in performance mode."""
    datasets: tuple[Name, ...]
    """Data sets whose accuracy counts."""
    targets: tuple[Target, ...] = ()
    """The first that fits counts; none: the version prints no target."""

    def target_of(self, knobs: Mapping[str, Scalar]) -> Target | None:
        """Return the target of a cell with these knobs."""
        said = (knobs.get("numerics"), knobs.get("dataset"))
        return next((t for t in self.targets if _fits(t.numerics, t.dataset, *said)), None)


class SuiteRules(Contract):
    """The rules of one version."""

    suite: str
    version: Annotated[str, Field(pattern=r"^v\d+\.\d+$")]
    source: str
    """Where the figures of this file come from."""
    seeds: Seeds | None = None
    """None: not known, so that nobody can check them."""
    scenarios: dict[OfSuite, ScenarioRules]
    room_celsius: tuple[float, float]
    """Lowest and highest temperature of the room."""
    known: tuple[Condition, ...]
    """Conditions that have rules; one that a phone doesn't tell isn't met."""
    tasks: dict[Name, TaskRules]
    """Workload → what is asked of it."""

    @model_validator(mode="after")
    def _scenarios_have_lengths(self) -> Self:
        asked = {name for task in self.tasks.values() for name in task.scenarios}
        if missing := asked - set(self.scenarios):
            raise ValueError(f"scenarios lacks {', '.join(sorted(missing))}")
        return self

    @property
    def title(self) -> str:
        """The suite and its version."""
        return f"{self.suite} {self.version}"


def _fits(
    numerics: str | None, dataset: str | None, chosen: Scalar | None, used: Scalar | None
) -> bool:
    return numerics in (None, chosen) and dataset in (None, used)


def rules_of(workload: str) -> SuiteRules | None:
    """Return the rules of the newest version that has a workload as a task; None: it is of none."""
    return _newest().get(workload)


@cache
def load_suites(folder: Path = FOLDER) -> tuple[SuiteRules, ...]:
    """Read the rules of all versions, oldest first."""
    read = (SuiteRules.model_validate(load_yaml(read_limited(p))) for p in folder.glob("*.yaml"))
    return tuple(sorted(read, key=lambda rules: _number(rules.version)))


@cache
def _newest() -> Mapping[str, SuiteRules]:
    return {name: rules for rules in load_suites() for name in rules.tasks}


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split("."))
