"""The catalogue: what a sweep may name, as data; its knobs are what cells are checked by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from controller.contracts.base import Contract, Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.errors import SweepInvalid

MANIFEST_PACKAGES = ("models", "agents")
"""Packages with a `manifests/` folder; found on disk, not imported."""

_TYPES: Mapping[str, type] = {"int": int, "float": float, "str": str, "bool": bool}


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
    value: float


class ModelFile(Contract):
    """A model as a file of the `models` package."""

    path: str
    """Relative to the package."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class DatasetFile(Contract):
    """A data set that code of the `models` package writes, the same one every time."""

    writer: str
    """`package.module:function`, called with the path to write; returns the checksum."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    samples: int


class OnDevice(Contract):
    """A workload that runs on a device's own runtime rather than in our process."""

    models: dict[str, ModelFile]
    """Numerics → file; the knob `numerics` chooses."""
    dataset: DatasetFile
    input_mean: float
    input_std: float


class WorkloadManifest(Contract):
    """What is run: a task, the code or the files that make it, and its knobs."""

    name: str
    title: str
    task: str
    reference: str
    builder: str | None = None
    """Of a workload that trains: `package.module:Class`, resolved in the worker only."""
    on_device: OnDevice | None = None
    scenarios: tuple[str, ...]
    quality_target: QualityTarget | None = None
    knobs: dict[str, Knob] = {}


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

    name: str
    title: str
    device_kinds: tuple[DeviceKind, ...]
    backend: str | None = None
    """Of a stack that trains: `package.module:Class`, resolved in the worker only."""
    bundle: str | None = None
    """Of a stack that runs on devices: the bundle that holds its runtime."""
    environment: StackEnvironment | None = None
    """Of a stack that does not run in benchfarm's own Python environment."""
    needs_compiler: bool = False
    """It compiles C++ while it runs."""
    baseline: bool = False
    """Other stacks on the same device are compared with this one, where it has a result."""
    knobs: dict[str, Knob] = {}


class ScenarioManifest(Contract):
    """What is issued to the system under test, and which number is the result."""

    name: str
    title: str
    metric: str
    """Name of the metric that ranks results of this scenario."""
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
    """Read every manifest of the installed packages; raises SweepInvalid on a broken one."""
    return Catalog(
        workloads=_by_name(WorkloadManifest, "workloads"),
        stacks=_by_name(StackManifest, "stacks"),
        scenarios=_by_name(ScenarioManifest, "scenarios"),
        launch=_by_name(LaunchManifest, "launch"),
    )


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
        return kind.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise SweepInvalid(
            f"reading manifest {path}", str(error), "mend the file or reinstall benchfarm"
        ) from error
