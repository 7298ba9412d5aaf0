"""What manifests declare: workloads, stacks, scenarios, launch settings, and the knobs of each."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from controller.contracts.base import Contract, Name, Scalar
from controller.contracts.command import Command
from controller.contracts.device import DeviceKind
from controller.contracts.mobile import OnDevice

_TYPES: Mapping[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
LARGEST = sys.float_info.max
"""An int beyond it can't become a float."""


class Knob(Contract):
    """One setting of a cell: its type, default and bounds."""

    type: Literal["int", "float", "str", "bool"]
    default: Scalar
    description: str
    unit: str | None = None
    min: float | None = None
    max: float | None = None
    multiple_of: int | None = None
    choices: tuple[Scalar, ...] | None = None
    work: bool | None = None
    """Whether another value is other work, never compared; None: as its manifest's kind has it."""

    def objection(self, value: Scalar) -> str | None:
        """Return what to give instead, as a sentence, or None if the value is allowed."""
        if type(value) is not _TYPES[self.type] and not (self.type == "float" and _is_int(value)):
            return f"Give a value of type {self.type}."
        if self.choices is not None and value not in self.choices:
            return f"Give one of: {', '.join(map(str, self.choices))}."
        if isinstance(value, str):
            return None
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


class QualityTarget(Contract):
    """The quality a model must reach for its speed to count (MLPerf's quality target)."""

    metric: str
    fp32: float | None = None
    """What the model reaches in FP32."""
    fraction: float | None = Field(default=None, gt=0, le=1)
    """How much of that it must reach."""
    value: float
    """The least that will do: `fraction` of `fp32`, or a value of its own."""

    @model_validator(mode="before")
    @classmethod
    def _worked_out(cls, given: object) -> object:
        if isinstance(given, Mapping) and "value" not in given:
            fp32, fraction = given.get("fp32"), given.get("fraction")
            if isinstance(fp32, int | float) and isinstance(fraction, int | float):
                return {**given, "value": round(fp32 * fraction, 6)}
        return given


class WorkloadManifest(Contract):
    """What is run: a task, the code or the files that make it, and its knobs."""

    name: Name
    title: str
    task: str
    reference: str
    builder: str | None = None
    """Of a workload that trains: `package.module:Class`, resolved in the worker only."""
    on_device: OnDevice | None = None
    scenarios: tuple[str, ...]
    quality_target: QualityTarget | None = None
    knobs: dict[str, Knob] = {}

    @model_validator(mode="after")
    def _surrogate_says_so(self) -> Self:
        if self.on_device and self.on_device.surrogate != self.name.endswith("_surrogate"):
            raise ValueError("the name of a surrogate, and no other name, ends in _surrogate")
        return self

    @model_validator(mode="after")
    def _knobs_choose_what_is_there(self) -> Self:
        if device := self.on_device:
            self._require_choice("numerics", "models", device.models)
            if len(device.datasets) > 1 or "dataset" in self.knobs:  # an only one is taken
                self._require_choice("dataset", "datasets", device.datasets)
        return self

    def _require_choice(self, name: str, field: str, known: Collection[str]) -> None:
        """Raise ValueError unless a knob's default and choices are among these."""
        knob = self.knobs.get(name)
        if knob is None or knob.choices is None or not {knob.default, *knob.choices} <= set(known):
            there = ", ".join(known) or "none"
            raise ValueError(f"knobs.{name} must choose among on_device.{field}: {there}")


class StackEnvironment(Contract):
    """A Python environment of a stack's own, made by `benchfarm stacks install`."""

    packages: tuple[str, ...]
    """What the stack is made of, each pinned: NAME==VERSION."""
    lock: str
    """Pins of these and of all they need, a file of the `agents` package."""
    torch_builds: tuple[str, ...] = ()
    """Those of `packages` that an index of CPU builds of torch has."""
    download_gb: float
    """With the largest build of torch, as `disk_gb`; a GB is 10⁹ bytes."""
    disk_gb: float


class StackManifest(Contract):
    """A software stack a workload can run on."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    title: str
    device_kinds: tuple[DeviceKind, ...]
    backend: str | None = None
    """Of a stack that trains: `package.module:Class`, resolved in the worker only."""
    bundle: str | None = None
    """Of a stack that runs on devices: the bundle that holds its runtime."""
    command: Command | None = None
    """Of a stack that is a user's own program; it is measured under the scenario of its name."""
    architectures: tuple[str, ...] = ()
    """What its bundle is built for: ABIs of phones, architectures of servers."""
    environment: StackEnvironment | None = None
    """Of a stack that does not run in benchfarm's own Python environment."""
    needs_compiler: bool = False
    """It compiles C++ while it runs."""
    baseline: bool = False
    """Other stacks on the same device are compared with this one, where it has a result."""
    knobs: dict[str, Knob] = {}

    @model_validator(mode="after")
    def _runs_one_thing(self) -> Self:
        if sum(way is not None for way in (self.backend, self.bundle, self.command)) != 1:
            raise ValueError("give exactly one of backend, bundle and command")
        if self.command and (unknown := sorted(self.command.knobs_named() - self.knobs.keys())):
            raise ValueError(f"command: {{{unknown[0]}}} is not a knob of the stack")
        return self


class ScenarioManifest(Contract):
    """What is issued to the system under test, and which number is the result."""

    name: str
    title: str
    metric: str
    """Name of the metric that ranks results of this scenario."""
    workloads: tuple[str, ...] = ()
    """Workloads that it drives, beside those whose own manifests name it."""
    instead_of_pairing: str | None = None
    """Of a scenario that can't compare two sides: what to do instead, as a sentence."""
    knobs: dict[str, Knob] = {}


class LaunchManifest(Contract):
    """How a worker is started on one kind of device, whatever the stack; `name` is the kind."""

    name: str
    title: str
    knobs: dict[str, Knob] = {}
