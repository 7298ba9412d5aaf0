"""The catalogue: everything that a sweep may name, and the knobs that cells are checked against."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from controller.contracts.added_manifests import (
    files_in,
    require_one_meaning,
    scenarios_of,
    with_added,
    writers_of,
)
from controller.contracts.base import Contract, Scalar
from controller.contracts.command import Command
from controller.contracts.documents import load_yaml, read_limited, short
from controller.contracts.errors import NotFound, SweepInvalid
from controller.contracts.facts import OwnFact
from controller.contracts.fitting import runs
from controller.contracts.folders import named_folder
from controller.contracts.knob_choices import with_choices
from controller.contracts.manifests import (
    Knob,
    LaunchManifest,
    ScenarioManifest,
    StackManifest,
    WorkloadManifest,
)
from controller.contracts.plugin_manifests import OWN, Manifests, plugin_states, plugins_beside
from controller.contracts.plugins import LeftOut, Plugin, installed_plugins
from controller.contracts.spelling import did_you_mean
from controller.contracts.suite_version import with_versions
from controller.contracts.unreadable import UNREADABLE, reason

MANIFEST_PACKAGES = ("models", "agents")
"""Packages with a `manifests/` folder, which is found on disk without importing the package."""

FOLDERS = ("workloads", "mobile", "suites", "stacks", "scenarios", "launch", "policies")
"""Folders of manifests."""

Manifest = TypeVar("Manifest", WorkloadManifest, StackManifest, ScenarioManifest, LaunchManifest)


class Catalog(Contract):
    """All manifests by name."""

    workloads: dict[str, WorkloadManifest]
    stacks: dict[str, StackManifest]
    scenarios: dict[str, ScenarioManifest]
    launch: dict[str, LaunchManifest]
    plugins: dict[str, dict[str, Plugin]] = {}
    """`workload`, `stack`, `scenario` → name → the plugin that brings it."""
    left_out: tuple[LeftOut, ...] = ()
    """Installed plugins, and tasks and programs of the user's, that are not used."""

    def plugin_of(self, noun: str, name: str) -> Plugin | None:
        """Return the plugin that brings a manifest; None for benchfarm's and the user's own.

        noun: `workload`, `stack` or `scenario`.
        """
        return self.plugins.get(noun, {}).get(name)

    @property
    def manifests(self) -> Manifests:
        """Its workloads, stacks and scenarios."""
        return Manifests(OWN, self.workloads, self.stacks, self.scenarios)

    def require_read(self, name: str) -> None:
        """Raise SweepInvalid if the manifest of a name that the catalogue lacks is left out."""
        for one in self.left_out:
            if (one.noun, one.name) == ("manifests", name):
                raise SweepInvalid(f"use {name}", one.said, one.remedy)

    @cached_property
    def own_facts(self) -> Mapping[str, OwnFact]:
        """The facts that stacks and scenarios declare, beside benchfarm's."""
        owners: tuple[StackManifest | ScenarioManifest, ...]
        owners = (*self.stacks.values(), *self.scenarios.values())
        return {name: fact for owner in owners for name, fact in owner.facts.items()}

    def knobs_of(self, workload: str, stack: str, scenario: str) -> dict[str, Knob]:
        """Return all knobs of a cell; each name belongs to one manifest only."""
        return {
            **self.launch_knobs(stack),
            **self.workloads[workload].knobs,
            **self.stacks[stack].knobs,
            **self.scenarios[scenario].knobs,
        }

    def with_omitted(
        self, workload: str, stack: str, scenario: str, knobs: Mapping[str, Scalar]
    ) -> dict[str, Scalar]:
        """Return a cell's knobs with those that it omits, since they have their default.

        A knob without `omit_default` that is missing stays so: the cell is older than it.
        """
        return {**self.omitted(workload, stack, scenario), **knobs}

    def omitted(self, workload: str, stack: str, scenario: str) -> dict[str, Scalar]:
        """Return the knobs that cells omit at their default, with that."""
        launch = self.launch_knobs(stack) if stack in self.stacks else {}
        owners = self.workloads.get(workload), self.stacks.get(stack), self.scenarios.get(scenario)
        declared = [launch, *(owner.knobs for owner in owners if owner)]
        return {n: k.default for each in declared for n, k in each.items() if k.omit_default}

    def ranked_by(self, scenario: str) -> str:
        """Return the metric that ranks a scenario's results; empty for an unknown scenario."""
        known = self.scenarios.get(scenario)
        return known.metric if known else ""

    def launch_knobs(self, stack: str) -> dict[str, Knob]:
        """Return the launch knobs of a stack's worker process; none for a stack with a bundle."""
        if self.stacks[stack].backend is None:
            return {}
        launches = [self.launch.get(kind) for kind in self.stacks[stack].device_kinds]
        return {name: knob for launch in launches if launch for name, knob in launch.knobs.items()}


def load_catalog(*, added: bool = True) -> Catalog:
    """Read every manifest of the installed packages and, if added, those that this user has added.

    Plugins and manifests of the user's with anything wrong are left out. Raises SweepInvalid if one
    of benchfarm's own is broken, and HomeUnusable if the user's folder of them can't be read.
    """
    launch = _by_name(LaunchManifest, "launch")
    known, left_out = _ours(), list[LeftOut]()
    if added:
        known, left_out = with_added(known, user_tasks(), user_programs())
    settings = {name: knob for one in launch.values() for name, knob in one.knobs.items()}
    plugins, refused = plugins_beside(known, settings)
    for plugin in plugins:
        known = known.joined(plugin)
    commands = {name: stack.command for name, stack in known.stacks.items() if stack.command}
    driving = {name: one for name, one in known.scenarios.items() if name not in commands}
    return Catalog(
        workloads={n: _driven_by(commands, driving, w) for n, w in known.workloads.items()},
        stacks=dict(known.stacks),
        scenarios=dict(known.scenarios),
        launch=launch,
        plugins=_origins(plugins),
        left_out=(*left_out, *refused),
    )


def _ours() -> Manifests:
    """Return benchfarm's own manifests, with a scenario for each program among its stacks."""
    stacks, scenarios = _by_name(StackManifest, "stacks"), _by_name(ScenarioManifest, "scenarios")
    workloads = _workloads()
    _require_known(scenarios, workloads)
    require_one_meaning((*stacks.values(), *scenarios.values()))
    programs = scenarios_of(stacks.values(), scenarios)
    return Manifests(OWN, workloads, stacks, {**scenarios, **programs})


def _origins(plugins: Iterable[Manifests]) -> dict[str, dict[str, Plugin]]:
    """Return the plugin of each manifest: kind → name → plugin."""
    found: dict[str, dict[str, Plugin]] = {}
    for one in plugins:
        for noun, named_ in one.kinds().items():
            if one.plugin and named_:
                found.setdefault(noun, {}).update(dict.fromkeys(named_, one.plugin))
    return found


def ranking_metrics(scenarios: Collection[str]) -> dict[str, str]:
    """Return the metric that ranks the results of each scenario.

    Reads the whole catalogue only for one that has no manifest, such as a user's own program.
    """
    ours = _by_name(ScenarioManifest, "scenarios")
    known = ours if ours.keys() >= set(scenarios) else load_catalog().scenarios
    return {name: scenario.metric for name, scenario in known.items()}


def manifests_digest() -> str:
    """Return a digest of all manifest files and of plugins, which changes with any of them."""
    digest = hashlib.sha256()
    for path in (path for folder in FOLDERS for path in _manifest_files(folder)):
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(hashlib.sha256(read_limited(path)).digest())
    for path in _added_files():
        digest.update(os.fsencode(f"{path.parent.name}/{path.name}\n"))
        digest.update(_state(path))
    for line in plugin_states():
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()[:16]


def _state(path: Path) -> bytes:
    """Return what changes with a manifest of the user's, or why it can't be read."""
    try:
        return hashlib.sha256(read_limited(path)).digest()
    except UNREADABLE as error:
        return reason(error).encode()


def all_left_out() -> tuple[LeftOut, ...]:
    """Return the plugins and the user's manifests that are not used; raises as `load_catalog`.

    Without plugins and manifests of the user's, no manifest is read.
    """
    installed, refused = installed_plugins()
    return load_catalog().left_out if installed or _added_files() else tuple(refused)


def named(noun: str, name: str, known: Mapping[str, Manifest]) -> Manifest:
    """Return the manifest of this name; raises NotFound. noun: what it is of, such as `stack`."""
    if name not in known:
        remedy = f"{did_you_mean(name, known)}Known: {', '.join(sorted(known)) or 'none'}."
        raise NotFound(f"find {noun} {short(name)}", f"there is no such {noun}", remedy)
    return known[name]


def _require_known(scenarios: Mapping[str, ScenarioManifest], workloads: Collection[str]) -> None:
    """Raise SweepInvalid if a scenario names an unknown workload."""
    for name, scenario in scenarios.items():
        if unknown := sorted(set(scenario.workloads) - set(workloads)):
            seen = f"key workloads: there is no workload {short(unknown[0])}"
            raise SweepInvalid(f"read scenario {name}", seen, f"Known: {', '.join(workloads)}.")


def _driven_by(
    commands: Mapping[str, Command],
    scenarios: Mapping[str, ScenarioManifest],
    workload: WorkloadManifest,
) -> WorkloadManifest:
    """Return the workload with the scenarios that name it and the programs that can run it."""
    naming = [name for name, scenario in scenarios.items() if workload.name in scenario.workloads]
    fitting = [name for name, command in commands.items() if runs(command, workload)]
    return workload.model_copy(update={"scenarios": (*workload.scenarios, *naming, *fitting)})


def user_tasks(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the tasks that this user has added with `benchfarm models add`.

    Raises HomeUnusable, as does `user_programs`.
    """
    home = environ.get("BENCHFARM_HOME") or "~/.benchfarm"
    return named_folder("BENCHFARM_MODELS", f"{home}/models", environ) / "tasks"


def user_programs(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the stacks that this user has added: programs only, never code."""
    return user_tasks(environ).with_name("programs")


def _added_files() -> list[Path]:
    """Return the manifests that this user has added; raises HomeUnusable."""
    return [path for folder in (user_tasks(), user_programs()) for path in files_in(folder)]


def _workloads() -> dict[str, WorkloadManifest]:
    """Return the project's workloads and mobile tasks; tasks of the suite with the knob for its
    version."""
    found: dict[str, WorkloadManifest] = {}
    for path in _workload_files():
        manifest = _read(WorkloadManifest, path)
        if manifest.name in found:
            raise SweepInvalid(
                f"read manifest {path}",
                f"a workload {manifest.name!r} exists already",
                "Give it another name.",
            )
        found[manifest.name] = with_versions(manifest)
    return found


@cache
def registered_writers() -> frozenset[str]:
    """Return the functions that tasks may name: those that the project's own manifests name."""
    return writers_of(_read(WorkloadManifest, path) for path in _workload_files())


def _workload_files() -> Iterator[Path]:
    yield from _manifest_files("workloads")
    yield from _manifest_files("mobile")


def _by_name(
    kind: type[Manifest], folder: str, packages: Sequence[str] = MANIFEST_PACKAGES
) -> dict[str, Manifest]:
    manifests = [_read(kind, path) for path in _manifest_files(folder, packages)]
    return {manifest.name: manifest for manifest in manifests}


def _manifest_files(folder: str, packages: Sequence[str] = MANIFEST_PACKAGES) -> Iterator[Path]:
    for package in packages:
        spec = find_spec(package)
        for location in spec.submodule_search_locations or () if spec else ():
            yield from sorted((Path(location) / "manifests" / folder).glob("*.yaml"))


@lru_cache(maxsize=256)
def _parsed(raw: bytes) -> object:
    """Return the document of the project's own manifest, parsed once for each content.

    That takes most of the time of `load_catalog`. A changed file has another content; users' and
    plugins' manifests are parsed each time.
    """
    return load_yaml(raw)


def _read(kind: type[Manifest], path: Path) -> Manifest:
    """Read a manifest of the project's, which may take a knob's choices from a folder."""
    try:
        return kind.model_validate(with_choices(_parsed(read_limited(path))))
    except UNREADABLE as error:
        raise SweepInvalid(
            f"read manifest {path}", reason(error), "Correct the file, or reinstall benchfarm."
        ) from error
