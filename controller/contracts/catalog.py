"""The catalogue: everything that a sweep may name, and the knobs that cells are checked against."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from controller.contracts.base import Contract
from controller.contracts.command import Command
from controller.contracts.documents import load_yaml, read_limited, short
from controller.contracts.errors import NotFound, SweepInvalid
from controller.contracts.facts import OwnFact
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

PROGRAM = "program"
"""The workload of a program that takes no model."""
FOLDERS = ("workloads", "mobile", "suites", "stacks", "scenarios", "launch", "policies")
"""Folders of manifests."""
POLICY, WITH_POLICY = "policy", "single_stream"
"""The knob for run conditions, and a scenario that has it."""

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
    """Installed plugins that are not used."""

    def plugin_of(self, noun: str, name: str) -> Plugin | None:
        """Return the plugin that brings a manifest; None for benchfarm's and the user's own.

        noun: `workload`, `stack` or `scenario`.
        """
        return self.plugins.get(noun, {}).get(name)

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


def load_catalog() -> Catalog:
    """Read every manifest of the installed packages and those that this user has added.

    Raises SweepInvalid if one is broken.
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
    workloads, launch = _workloads(), _by_name(LaunchManifest, "launch")
    _require_known(scenarios, workloads)
    _require_one_meaning((*stacks.values(), *scenarios.values()))
    known = Manifests(OWN, workloads, stacks, {**scenarios, **own})
    settings = {name: knob for one in launch.values() for name, knob in one.knobs.items()}
    plugins, left_out = plugins_beside(known, settings)
    for plugin in plugins:
        known = known.joined(plugin)
    driving = {name: one for name, one in known.scenarios.items() if name not in own}
    return Catalog(
        workloads={n: _driven_by(commands, driving, w) for n, w in known.workloads.items()},
        stacks=dict(known.stacks),
        scenarios=dict(known.scenarios),
        launch=launch,
        plugins=_origins(plugins),
        left_out=tuple(left_out),
    )


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
    own = (path for folder in FOLDERS for path in _manifest_files(folder))
    added = (path for folder in (user_tasks(), user_programs()) for path in folder.glob("*.yaml"))
    digest = hashlib.sha256()
    for path in (*own, *sorted(added)):
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(hashlib.sha256(read_limited(path)).digest())
    for line in plugin_states():
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()[:16]


def plugins_left_out() -> tuple[LeftOut, ...]:
    """Return the installed plugins that are not used; raises as `load_catalog`.

    Without plugins, no manifest is read.
    """
    installed, left_out = installed_plugins()
    return load_catalog().left_out if installed else tuple(left_out)


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


def _require_one_meaning(owners: Iterable[StackManifest | ScenarioManifest]) -> None:
    """Raise SweepInvalid if two manifests declare one fact in different ways."""
    known: dict[str, tuple[str, OwnFact]] = {}
    for owner in owners:
        for name, fact in owner.facts.items():
            first, declared = known.setdefault(name, (owner.name, fact))
            if declared != fact:
                seen = f"{first} declares the fact {name} in another way"
                remedy = "Rename the fact, or declare it in the same way."
                raise SweepInvalid(f"read the manifest of {owner.name}", seen, remedy)


def _driven_by(
    commands: Mapping[str, Command],
    scenarios: Mapping[str, ScenarioManifest],
    workload: WorkloadManifest,
) -> WorkloadManifest:
    """Return the workload with the scenarios that name it and the programs that can run it."""
    naming = [name for name, scenario in scenarios.items() if workload.name in scenario.workloads]
    fitting = [name for name, command in commands.items() if runs(command, workload)]
    return workload.model_copy(update={"scenarios": (*workload.scenarios, *naming, *fitting)})


def runs(command: Command, workload: WorkloadManifest) -> bool:
    """Return whether a program runs a workload: it takes its model, or the workload is
    `program`."""
    if command.takes_model:
        return workload.on_device is not None
    return workload.name == PROGRAM


def _stacks() -> dict[str, StackManifest]:
    """Return the project's stacks and the programs that the user has added."""
    found = _by_name(StackManifest, "stacks")
    for path in sorted(user_programs().glob("*.yaml")):
        manifest = _read(StackManifest, path, ours=False)
        require_program(manifest, found, path)
        found[manifest.name] = manifest
    return found


def require_program(stack: StackManifest, known: Collection[str], path: Path) -> None:
    """Raise SweepInvalid if a user's stack is not a program, or its name is taken."""
    tried, remedy = f"read stack {path}", "See docs/adding.md, A program of your own."
    if stack.command is None or stack.environment is not None:
        raise SweepInvalid(tried, "it names code, which a user's stack must not do", remedy)
    if stack.name in known or stack.name in _by_name(ScenarioManifest, "scenarios"):
        seen = f"a stack or a scenario {stack.name!r} exists already"
        raise SweepInvalid(tried, seen, "Give it another name.")


def user_tasks(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the tasks that this user has added with `benchfarm models add`."""
    home = environ.get("BENCHFARM_HOME") or "~/.benchfarm"
    folder = environ.get("BENCHFARM_MODELS") or f"{home}/models"
    return Path(folder).expanduser().absolute() / "tasks"


def user_programs(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the stacks that this user has added: programs only, never code."""
    return user_tasks(environ).with_name("programs")


def _workloads() -> dict[str, WorkloadManifest]:
    """Return the project's workloads, its mobile tasks, and the user's tasks.

    Tasks of the suite with the knob for its version.
    """
    found: dict[str, WorkloadManifest] = {}
    users = sorted(user_tasks().glob("*.yaml"))
    for path in (*_workload_files(), *users):
        manifest = _read(WorkloadManifest, path, ours=path not in users)
        if path in users:
            require_no_code(manifest, writers_of(found.values()), path)
        if manifest.name in found:
            raise SweepInvalid(
                f"read manifest {path}",
                f"a workload {manifest.name!r} exists already",
                "Give it another name.",
            )
        found[manifest.name] = with_versions(manifest)
    return found


def writers_of(workloads: Iterable[WorkloadManifest]) -> frozenset[str]:
    """Return the functions that write the data sets of tasks, as `package.module:function`."""
    devices = (w.on_device for w in workloads if w.on_device)
    return frozenset(d.writer for o in devices for d in o.datasets.values() if d.writer)


@cache
def registered_writers() -> frozenset[str]:
    """Return the functions that tasks may name: those that the project's own manifests name."""
    return writers_of(_read(WorkloadManifest, path) for path in _workload_files())


def require_no_code(task: WorkloadManifest, allowed: Collection[str], path: Path) -> None:
    """Raise SweepInvalid if a user's task names code, which would be imported and called.

    allowed: functions that the task may name, as `package.module:function`.
    """
    tried = f"read task {path}"
    if task.builder is not None:
        seen = f"key builder: {short(task.builder)} is code, which a user's task must not name"
        raise SweepInvalid(tried, seen, "Describe it with on_device, as in docs/adding.md.")
    if others := sorted(writers_of([task]) - set(allowed)):
        seen = f"writer {short(others[0])} is not one that the project's own tasks name"
        raise SweepInvalid(tried, seen, f"Known: {', '.join(sorted(allowed))}.")


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


def _read(kind: type[Manifest], path: Path, *, ours: bool = True) -> Manifest:
    """Read a manifest; only the project's own (`ours`) may take a knob's choices from a folder."""
    try:
        raw = read_limited(path)
        document = with_choices(_parsed(raw)) if ours else load_yaml(raw)
        return kind.model_validate(document)
    except UNREADABLE as error:
        raise SweepInvalid(
            f"read manifest {path}", reason(error), "Correct the file, or reinstall benchfarm."
        ) from error
