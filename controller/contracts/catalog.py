"""The catalogue: what a sweep may name, as data; its knobs are what cells are checked by."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from controller.contracts.base import Contract, Name, Scalar
from controller.contracts.command import Command
from controller.contracts.device import DeviceKind
from controller.contracts.documents import load_yaml, read_limited, short
from controller.contracts.errors import SweepInvalid
from controller.contracts.mobile import OnDevice
from controller.contracts.unreadable import UNREADABLE, reason

MANIFEST_PACKAGES = ("models", "agents")
"""Packages with a `manifests/` folder; found on disk, not imported."""

PROGRAM = "program"
"""The workload of a program that takes no model of a task."""
POLICY, WITH_POLICY = "policy", "single_stream"
"""The knob of run conditions, and a scenario that has it."""

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

    def objection(self, value: Scalar) -> str | None:
        """Return why a value is not allowed, or None if it is."""
        if type(value) is not _TYPES[self.type] and not (self.type == "float" and _is_int(value)):
            return f"expected {self.type}"
        if self.choices is not None and value not in self.choices:
            return f"allowed: {', '.join(map(str, self.choices))}"
        if isinstance(value, str):
            return None
        if self.type == "float" and abs(value) > LARGEST:
            return "it is too large"
        if self.min is not None and value < self.min:
            return f"the least is {self.min:g}"
        if self.max is not None and value > self.max:
            return f"the most is {self.max:g}"
        if self.multiple_of is not None and value % self.multiple_of:
            return f"must be a multiple of {self.multiple_of}"
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
            raise ValueError("surrogates, and only they, have names that end in _surrogate")
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
            raise ValueError(f"knobs.{name} has to choose among on_device.{field}: {there}")


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
            raise ValueError("give one of backend, bundle and command")
        if self.command and (unknown := sorted(self.command.knobs_named() - self.knobs.keys())):
            raise ValueError(f"command: {{{unknown[0]}}} is none of its knobs")
        return self


class ScenarioManifest(Contract):
    """What is issued to the system under test, and which number is the result."""

    name: str
    title: str
    metric: str
    """Name of the metric that ranks results of this scenario."""
    instead_of_pairing: str | None = None
    """Of a scenario that can't measure two sides in turns: what to do rather."""
    knobs: dict[str, Knob] = {}


class LaunchManifest(Contract):
    """How a worker is started on one kind of device, whatever the stack; `name` is the kind."""

    name: str
    title: str
    knobs: dict[str, Knob] = {}


Manifest = TypeVar("Manifest", WorkloadManifest, StackManifest, ScenarioManifest, LaunchManifest)


class Catalog(Contract):
    """All manifests by name."""

    workloads: dict[str, WorkloadManifest]
    stacks: dict[str, StackManifest]
    scenarios: dict[str, ScenarioManifest]
    launch: dict[str, LaunchManifest]

    def knobs_of(self, workload: str, stack: str, scenario: str) -> dict[str, Knob]:
        """Return all knobs a cell of these three has; every name belongs to one manifest only."""
        return {
            **self.launch_knobs(stack),
            **self.workloads[workload].knobs,
            **self.stacks[stack].knobs,
            **self.scenarios[scenario].knobs,
        }

    def launch_knobs(self, stack: str) -> dict[str, Knob]:
        """Return how a stack's worker process can be started; a bundle starts by itself."""
        if self.stacks[stack].backend is None:
            return {}
        launches = [self.launch.get(kind) for kind in self.stacks[stack].device_kinds]
        return {name: knob for launch in launches if launch for name, knob in launch.knobs.items()}


def load_catalog() -> Catalog:
    """Read every manifest of the installed packages, and what this user has added.

    Raises SweepInvalid on a broken one.
    """
    stacks = _stacks()
    commands = {name: stack.command for name, stack in stacks.items() if stack.command}
    scenarios = _by_name(ScenarioManifest, "scenarios")
    policy = {POLICY: scenarios[WITH_POLICY].knobs[POLICY]}
    own = {
        name: ScenarioManifest(
            name=name, title=stacks[name].title, metric=command.result, knobs=policy
        )
        for name, command in commands.items()
    }
    return Catalog(
        workloads={name: _driven_by(commands, w) for name, w in _workloads().items()},
        stacks=stacks,
        scenarios={**scenarios, **own},
        launch=_by_name(LaunchManifest, "launch"),
    )


def _driven_by(commands: Mapping[str, Command], workload: WorkloadManifest) -> WorkloadManifest:
    """Return a workload that knows the scenarios of the programs that can run it."""
    fitting = tuple(name for name, command in commands.items() if runs(command, workload))
    return workload.model_copy(update={"scenarios": (*workload.scenarios, *fitting)})


def runs(command: Command, workload: WorkloadManifest) -> bool:
    """Tell whether a program runs a workload: a model that it takes, or the workload `program`."""
    if command.takes_model:
        return workload.on_device is not None
    return workload.name == PROGRAM


def _stacks() -> dict[str, StackManifest]:
    """Return the project's stacks, and the programs that the user has added."""
    found = _by_name(StackManifest, "stacks")
    for path in sorted(user_programs().glob("*.yaml")):
        manifest = _read(StackManifest, path)
        require_program(manifest, found, path)
        found[manifest.name] = manifest
    return found


def require_program(stack: StackManifest, known: Collection[str], path: Path) -> None:
    """Raise SweepInvalid if a user's stack is no program, or its name is taken."""
    tried, remedy = f"reading stack {path}", "see docs/adding.md, A program of your own"
    if stack.command is None or stack.environment is not None:
        raise SweepInvalid(tried, "it names code, which a stack of a user can't", remedy)
    if stack.name in known or stack.name in _by_name(ScenarioManifest, "scenarios"):
        seen = f"there is a stack or a scenario {stack.name!r} already"
        raise SweepInvalid(tried, seen, "give it another name")


def user_tasks(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the tasks that this user has added: see `benchfarm models add`."""
    home = environ.get("BENCHFARM_HOME") or "~/.benchfarm"
    folder = environ.get("BENCHFARM_MODELS") or f"{home}/models"
    return Path(folder).expanduser().absolute() / "tasks"


def user_programs(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the stacks that this user has added: programs, never code."""
    return user_tasks(environ).with_name("programs")


def _workloads() -> dict[str, WorkloadManifest]:
    """Return the project's workloads, its mobile tasks, and those the user has added."""
    found: dict[str, WorkloadManifest] = {}
    users = sorted(user_tasks().glob("*.yaml"))
    for path in (*_workload_files(), *users):
        manifest = _read(WorkloadManifest, path)
        if path in users:
            require_no_code(manifest, writers_of(found.values()), path)
        if manifest.name in found:
            raise SweepInvalid(
                f"reading manifest {path}",
                f"there is a workload {manifest.name!r} already",
                "give it another name",
            )
        found[manifest.name] = manifest
    return found


def writers_of(workloads: Iterable[WorkloadManifest]) -> frozenset[str]:
    """Return the functions that write these tasks' data sets, as `package.module:function`."""
    devices = (w.on_device for w in workloads if w.on_device)
    return frozenset(d.writer for o in devices for d in o.datasets.values() if d.writer)


@cache
def registered_writers() -> frozenset[str]:
    """Return the functions that tasks may name: those that the project's own manifests do."""
    return writers_of(_read(WorkloadManifest, path) for path in _workload_files())


def require_no_code(task: WorkloadManifest, allowed: Collection[str], path: Path) -> None:
    """Raise SweepInvalid if a user's task names code: it would be imported and called.

    allowed: functions that it may name, as `package.module:function`.
    """
    tried = f"reading task {path}"
    if task.builder is not None:
        seen = f"key builder: {short(task.builder)} is code, which a task of a user can't name"
        raise SweepInvalid(tried, seen, "describe it with on_device, see docs/adding.md")
    if others := sorted(writers_of([task]) - set(allowed)):
        seen = f"writer {short(others[0])} is none that the project's own tasks name"
        raise SweepInvalid(tried, seen, f"there are: {', '.join(sorted(allowed))}")


def _workload_files() -> Iterator[Path]:
    yield from _manifest_files("workloads")
    yield from _manifest_files("mobile")


def _by_name(kind: type[Manifest], folder: str) -> dict[str, Manifest]:
    manifests = [_read(kind, path) for path in _manifest_files(folder)]
    return {manifest.name: manifest for manifest in manifests}


def _manifest_files(folder: str) -> Iterator[Path]:
    for package in MANIFEST_PACKAGES:
        spec = find_spec(package)
        for location in spec.submodule_search_locations or () if spec else ():
            yield from sorted((Path(location) / "manifests" / folder).glob("*.yaml"))


def _read(kind: type[Manifest], path: Path) -> Manifest:
    try:
        return kind.model_validate(load_yaml(read_limited(path)))
    except UNREADABLE as error:
        raise SweepInvalid(
            f"reading manifest {path}", reason(error), "mend the file or reinstall benchfarm"
        ) from error
