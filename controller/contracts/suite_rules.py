"""The rules of MLPerf Mobile as data: a file for each version of the suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from controller.contracts.base import Contract, Name, Scalar
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.mobile import ImageFit, RunLength

UNVERIFIED: Final = "unverified"
"""Stands beside each result that is called by MLPerf's name and that MLCommons has not reviewed."""
SUITE_RULES: Final = "suite_rules"
"""The fact of a result that says by which version's rules it ran."""
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
    optional: tuple[OfSuite, ...] = ()
    """Those of its scenarios without which a suite is whole."""
    fit: ImageFit | None = None
    """How images come to the model's size, where the task's manifest has it otherwise."""
    queries: PositiveInt | None = None
    """Fewest queries, where they are not the scenario's."""
    performance_samples: PositiveInt
    """Samples at least from which LoadGen draws in performance mode."""
    datasets: dict[Name, PositiveInt]
    """Data set whose accuracy counts → its number of samples."""
    targets: tuple[Target, ...] = ()
    """The first that fits counts; none: the version prints no target."""

    @property
    def required(self) -> tuple[OfSuite, ...]:
        """The scenarios that a whole suite has."""
        return tuple(name for name in self.scenarios if name not in self.optional)

    @model_validator(mode="after")
    def _optional_scenarios_exist(self) -> Self:
        if other := set(self.optional) - set(self.scenarios):
            raise ValueError(f"optional has {', '.join(sorted(other))}, which scenarios lacks")
        return self

    def target_of(self, knobs: Mapping[str, Scalar]) -> Target | None:
        """Return the target of a cell with these knobs."""
        said = (knobs.get("numerics"), knobs.get("dataset"))
        return next((t for t in self.targets if _fits(t.numerics, t.dataset, *said)), None)


class SuiteRules(Contract):
    """The rules of one version."""

    suite: str
    version: Annotated[str, Field(pattern=r"^v\d+\.\d+$")]
    rules: dict[str, str]
    """Figure → the rule that it comes from: by its field, or by the beginning of its field's path
    (`tasks.edsr.targets`; `tasks.*.targets` of all tasks). See `rule_of`."""
    seeds: Seeds | None = None
    """None: not known, so that nobody can check them."""
    scenarios: dict[OfSuite, RunLength]
    """How long LoadGen runs, at length `normal`."""
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

    @model_validator(mode="after")
    def _every_figure_has_a_rule(self) -> Self:
        figures = [*self._figures()]
        if bare := next((path for path in figures if self.rule_of(path) is None), None):
            raise ValueError(f"rules lacks what {bare} comes from")
        for named in self.rules:
            if not any(_begins(named, path) for path in figures):
                raise ValueError(f"rules.{named} is of no figure")
        return self

    def _figures(self) -> Iterator[str]:
        """Yield the path of each field with figures, by the names of this file."""
        yield from (name for name in ("seeds", "room_celsius", "known") if getattr(self, name))
        for scenario, length in self.scenarios.items():
            yield from (f"scenarios.{scenario}.{name}" for name in _set_in(length))
        for task, of_task in self.tasks.items():
            yield from (f"tasks.{task}.{name}" for name in _set_in(of_task))

    def rule_of(self, path: str) -> str | None:
        """Return the rule that a figure comes from: of several that fit, the longest path's."""
        fitting = (named for named in self.rules if _begins(named, path))
        found = max(fitting, key=lambda named: (named.count("."), "*" not in named), default=None)
        return self.rules[found] if found else None

    @property
    def title(self) -> str:
        """The suite and its version."""
        return f"{self.suite} {self.version}"

    @property
    def claim(self) -> str:
        """The title as a result is called by it, see UNVERIFIED."""
        return f"{self.title} ({UNVERIFIED})"

    @property
    def ends_runs(self) -> bool:
        """Whether a run ends after some time, however few queries it has had."""
        return any(length.most_seconds for length in self.scenarios.values())

    def seeds_missed(self, said: object) -> str | None:
        """Return what is wrong with LoadGen's seeds; None: they are the round's.

        said: those of a result, in the order of `Seeds.said`; None if its log has none.
        """
        if self.seeds is None:
            return f"LoadGen's seeds: those of {self.title} are not known"
        return None if said == self.seeds.said else f"LoadGen's seeds are not those of {self.title}"

    def target_missed(self, target: Target | None, measured: float | None) -> str | None:
        """Return by how much an accuracy misses its target; None: it doesn't, as far as known."""
        if target is None or measured is None or measured >= target.value:
            return None
        figures = f"{target.metric} {measured:.4f} is below {target.value:.4f}"
        return f"{figures}, the target of {self.title}"


def _set_in(rules: Contract) -> Iterator[str]:
    """Yield the names of the fields that are in the file."""
    return (name for name in type(rules).model_fields if name in rules.model_fields_set)


def _begins(named: str, path: str) -> bool:
    """Return whether a path begins with this one, part by part; `*` is any part."""
    parts = named.split(".")
    beginning = path.split(".")[: len(parts)]
    return len(beginning) == len(parts) and all(
        part in ("*", found) for part, found in zip(parts, beginning, strict=True)
    )


def _fits(
    numerics: str | None, dataset: str | None, chosen: Scalar | None, used: Scalar | None
) -> bool:
    return numerics in (None, chosen) and dataset in (None, used)


@cache
def load_suites(folder: Path = FOLDER) -> tuple[SuiteRules, ...]:
    """Read the rules of all versions, oldest first."""
    read = (SuiteRules.model_validate(load_yaml(read_limited(p))) for p in folder.glob("*.yaml"))
    return tuple(sorted(read, key=lambda rules: _number(rules.version)))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split("."))
