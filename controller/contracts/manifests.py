"""Manifests of workloads, stacks, scenarios and launch settings, with the knobs of each."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from controller.contracts.base import Contract, Name, Scalar, scalar_text
from controller.contracts.command import Command
from controller.contracts.device import DeviceKind
from controller.contracts.documents import shown
from controller.contracts.facts import OwnFacts
from controller.contracts.mobile import SURROGATE, OnDevice
from controller.contracts.truths import Truths
from controller.contracts.weights import KNOB, NO_WEIGHTS, Weights

_TYPES: Mapping[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
LARGEST = sys.float_info.max
"""The largest int that can become a float."""
FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*")
"""Names of a folder inside one of the host's, or of one further inside: none leads out of it."""
PROVENANCE_KNOBS: Mapping[str, str] = {
    "workload": "workload_package",
    "stack": "stack_package",
    "scenario": "scenario_package",
}
"""Kind of a plugin's manifest → the knob that benchfarm adds to it, which names the plugin."""


class Knob(Contract):
    """One setting of a cell: its type, default and bounds."""

    type: Literal["int", "float", "str", "bool"]
    default: Scalar
    description: str
    unit: str | None = None
    min: float | None = None
    max: float | None = None
    multiple_of: PositiveInt | None = None
    choices: tuple[Scalar, ...] | None = None
    work: bool | None = None
    """Whether another value is other work, never compared; None: as its manifest's kind has it."""
    omit_default: bool | None = None
    """Whether cells leave its default out, so that those of earlier releases keep their keys."""
    folder_name: bool | None = None
    """Whether a str names a folder inside one of the host's, see FOLDER_NAME."""
    only_under: str | None = None
    """The only scenario in which it may have another value than the default; None: any."""

    @model_validator(mode="after")
    def _default_is_allowed(self) -> Self:
        if objection := self.objection(self.default):
            said = objection.rstrip(".")
            raise ValueError(f"default: {shown(self.default)} is not allowed. {said}")
        return self

    @property
    def allowed(self) -> str:
        """The values that it may have, with their unit, as text; empty if any of its type."""
        if self.type == "bool":
            return "true, false"
        if self.choices is not None:
            return ", ".join(map(scalar_text, self.choices))
        bounds = [f"{at:.15g}" if at is not None else "" for at in (self.min, self.max)]
        words = {
            (True, True): " to ".join(bounds),
            (True, False): f"at least {bounds[0]}",
            (False, True): f"at most {bounds[1]}",
        }.get((self.min is not None, self.max is not None), "")
        words = f"{words} {self.unit}" if words and self.unit else words or self.unit or ""
        return f"{words}, a multiple of {self.multiple_of}" if self.multiple_of else words

    def objection(self, value: Scalar) -> str | None:
        """Return what to give instead, as a sentence, or None if the value is allowed."""
        if type(value) is not _TYPES[self.type] and not (self.type == "float" and _is_int(value)):
            return f"Give a value of type {self.type}."
        if self.choices is not None and value not in self.choices:
            return f"Give one of: {', '.join(map(str, self.choices))}."
        if isinstance(value, str):
            wrong = self.folder_name and not FOLDER_NAME.fullmatch(value)
            return "Give the name of a folder: no path that leads out of it." if wrong else None
        if self.type == "float" and abs(value) > LARGEST:
            return "Give a smaller number."
        if self.min is not None and value < self.min:
            return f"Give at least {self.min:g}."
        if self.max is not None and value > self.max:
            return f"Give at most {self.max:g}."
        if self.multiple_of is not None and value % self.multiple_of:
            return f"Give a multiple of {self.multiple_of}."
        return None


def _is_int(value: Scalar) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def defaults_of(knobs: Mapping[str, Knob]) -> dict[str, Scalar]:
    """Return the default of each knob."""
    return {name: knob.default for name, knob in knobs.items()}


class QualityTarget(Contract):
    """The quality a model must reach for its speed to count (MLPerf's quality target)."""

    metric: str
    fp32: float | None = None
    """Quality of the model in FP32."""
    fraction: float | None = Field(default=None, gt=0, le=1)
    """Share of the FP32 quality that is required."""
    value: float
    """The least quality required: `fraction` of `fp32`, or a value of its own."""

    @model_validator(mode="before")
    @classmethod
    def _worked_out(cls, given: object) -> object:
        if isinstance(given, Mapping) and "value" not in given:
            fp32, fraction = given.get("fp32"), given.get("fraction")
            if isinstance(fp32, int | float) and isinstance(fraction, int | float):
                return {**given, "value": round(fp32 * fraction, 6)}
        return given


class ConvergencePoint(Contract):
    """A published training that reached the quality target."""

    batch: int = Field(ge=1)
    """Samples in a step, of all processes together."""
    epochs: float = Field(gt=0, allow_inf_nan=False)
    """Passes over the training set."""
    missed: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Passes when it was looked at before, and had not reached it; 0 if it had not been looked at.
    None if that is not known, as of what is published."""


def _of_batches(points: tuple[ConvergencePoint, ...]) -> tuple[ConvergencePoint, ...]:
    """Return the points in the order of their batches; raises ValueError for fewer than two."""
    if len({point.batch for point in points}) < 2:
        raise ValueError("epochs are told of points at two batches or more")
    return tuple(sorted(points, key=lambda point: point.batch))


class Convergence(Contract):
    """How many epochs reach the quality target, as published; on every device the same."""

    source: str
    samples: int = Field(ge=1)
    """In the training set."""
    points: tuple[ConvergencePoint, ...]
    knobs: dict[str, Scalar] = {}
    """What was trained, as far as the workload's knobs say it; other values need other epochs."""

    @field_validator("points")
    @classmethod
    def _tell_of_batches(cls, points: tuple[ConvergencePoint, ...]) -> tuple[ConvergencePoint, ...]:
        if len({point.batch for point in points}) < len(points):
            raise ValueError("points tell the epochs of each batch once")
        return _of_batches(points)


class MeasuredConvergence(Convergence):
    """The same of trainings of one's own, of which a batch may have several."""

    @field_validator("points")
    @classmethod
    def _tell_of_batches(cls, points: tuple[ConvergencePoint, ...]) -> tuple[ConvergencePoint, ...]:
        return _of_batches(points)


class WorkloadManifest(Contract):
    """A workload: a task, its code or model files, and its knobs."""

    name: Name
    title: str
    task: str
    reference: str
    builder: str | None = None
    """`package.module:Class` of a workload that trains; resolved only in the worker."""
    on_device: OnDevice | None = None
    scenarios: tuple[str, ...]
    quality_target: QualityTarget | None = None
    convergence: Convergence | None = None
    """None: how many epochs it takes is not known."""
    truths: Truths | None = None
    """None: its samples are made up, so that its answers are not scored."""
    weights: dict[Name, Weights] | None = None
    """Published weights that its model can begin with, by the value of the knob `weights`; further
    ones may be added to a store. None: it takes none."""
    switches: tuple[str, ...] = ()
    """Knobs that change how a step is computed, and never what: with any value of these, training
    has to follow the one with their defaults."""
    knobs: dict[str, Knob] = {}

    @model_validator(mode="after")
    def _switches_are_knobs(self) -> Self:
        if unknown := sorted(set(self.switches) - self.knobs.keys()):
            raise ValueError(f"switches names unknown knobs: {', '.join(unknown)}")
        return self

    @model_validator(mode="after")
    def _is_told_of_its_knobs(self) -> Self:
        told: Mapping[str, Collection[str]] = {
            "convergence is": self.convergence.knobs if self.convergence else (),
            "truths are": self.truths.not_with if self.truths else (),
        }
        for what, knobs in told.items():
            if unknown := sorted(set(knobs) - self.knobs.keys()):
                raise ValueError(f"{what} told of unknown knobs: {', '.join(unknown)}")
        return self

    @model_validator(mode="after")
    def _weights_have_their_knob(self) -> Self:
        if self.weights is None:
            return self
        knob = self.knobs.get(KNOB)
        if knob is None or knob.default != NO_WEIGHTS or knob.choices is not None:
            raise ValueError(f"knobs.{KNOB} must be any name, with the default {NO_WEIGHTS}")
        told = {name for each in self.weights.values() for name in each.knobs}
        if unknown := sorted(told - self.knobs.keys()):
            raise ValueError(f"weights are told of unknown knobs: {', '.join(unknown)}")
        return self

    @model_validator(mode="after")
    def _surrogate_says_so(self) -> Self:
        if self.on_device and self.on_device.surrogate != self.name.endswith(SURROGATE):
            raise ValueError(f"the name of a surrogate, and no other name, ends in {SURROGATE}")
        return self

    @model_validator(mode="after")
    def _knobs_choose_what_is_there(self) -> Self:
        if device := self.on_device:
            self._require_choice("numerics", "models", device.models)
            if len(device.datasets) > 1 or "dataset" in self.knobs:  # a single one needs no knob
                self._require_choice("dataset", "datasets", device.datasets)
        return self

    def _require_choice(self, name: str, field: str, known: Collection[str]) -> None:
        """Raise ValueError unless a knob's default and choices are all in `known`."""
        knob = self.knobs.get(name)
        if knob is None or knob.choices is None or not {knob.default, *knob.choices} <= set(known):
            there = ", ".join(known) or "none"
            raise ValueError(f"knobs.{name} must choose among on_device.{field}: {there}")


class StackEnvironment(Contract):
    """A separate Python environment for a stack, made by `benchfarm stacks install`."""

    packages: tuple[str, ...]
    """Packages of the stack, each pinned: NAME==VERSION."""
    lock: str
    """File of the `agents` package with pins of these packages and all their dependencies."""
    torch_builds: tuple[str, ...] = ()
    """Those of `packages` that come from an index of CPU builds of torch."""
    download_gb: float
    """With the largest build of torch, like `disk_gb`; a GB is 10⁹ bytes."""
    disk_gb: float


class StackManifest(Contract):
    """A software stack that runs workloads."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    title: str
    device_kinds: tuple[DeviceKind, ...]
    backend: str | None = None
    """`package.module:Class` of a stack that trains; resolved only in the worker."""
    bundle: str | None = None
    """The bundle with the runtime of a stack that runs on devices."""
    command: Command | None = None
    """The program of a stack that is a user's own program; its scenario has the stack's name."""
    architectures: tuple[str, ...] = ()
    """What the bundle is built for: ABIs of phones, architectures of servers."""
    environment: StackEnvironment | None = None
    """The Python environment of a stack that doesn't run in benchfarm's own."""
    needs_compiler: bool = False
    """Whether it compiles C++ while it runs."""
    baseline: bool = False
    """Whether other stacks on the same device are compared with this one."""
    facts: OwnFacts = {}
    """Facts that only this stack writes."""
    knobs: dict[str, Knob] = {}

    @model_validator(mode="after")
    def _runs_one_thing(self) -> Self:
        if sum(way is not None for way in (self.backend, self.bundle, self.command)) != 1:
            raise ValueError("give exactly one of backend, bundle and command")
        if self.command and (unknown := sorted(self.command.knobs_named() - self.knobs.keys())):
            raise ValueError(f"command: {{{unknown[0]}}} is not a knob of the stack")
        return self

    @model_validator(mode="after")
    def _declares_what_its_program_writes(self) -> Self:
        written = self.command.own_facts() if self.command else self.facts.keys()
        if missing := sorted(written - self.facts.keys()):
            raise ValueError(
                f"command.facts.{missing[0]} is not declared. Declare it under facts, with kind "
                "and means."
            )
        if unread := sorted(self.facts.keys() - written):
            raise ValueError(f"facts.{unread[0]}: no pattern of command.facts has this name")
        return self


class ScenarioManifest(Contract):
    """A scenario: what is issued to the system under test, and which metric is the result."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    title: str
    metric: str
    """The metric that ranks results of this scenario."""
    compares_speed: bool = True
    """Whether a better value of it makes a device or a cell better; else no ratio is shown."""
    workloads: tuple[str, ...] = ()
    """Workloads that it drives besides those whose manifests name it."""
    module: str | None = None
    """`package.module` of its function `run`; None: the one of its name in `agents.scenarios`."""
    instead_of_pairing: str | None = None
    """What to do instead, as a sentence, if the scenario can't compare two sides."""
    beside_plain: bool = False
    """Whether the workload is also built with its switches at their defaults: the module then has a
    function `run_beside`."""
    facts: OwnFacts = {}
    """Facts that only this scenario writes."""
    knobs: dict[str, Knob] = {}


class LaunchManifest(Contract):
    """How to start a worker on one kind of device, for all stacks; `name` is the kind."""

    name: str
    title: str
    knobs: dict[str, Knob] = {}
