"""The manifests of plugins: what they may say, and that no name has two meanings.

A plugin with anything wrong is left out as a whole. A name that two of them have is neither's: if
one went first, its order alone would decide what a sweep measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Final, TypeVar

from controller.contracts.base import Contract
from controller.contracts.documents import load_yaml, read_limited, short
from controller.contracts.manifests import (
    PROVENANCE_KNOBS,
    Knob,
    ScenarioManifest,
    StackManifest,
    WorkloadManifest,
)
from controller.contracts.plugin_rules import check_scenario, check_stack, check_workload
from controller.contracts.plugins import (
    InstalledPlugin,
    LeftOut,
    Plugin,
    PluginRefused,
    installed_plugins,
    plugin_left_out,
)
from controller.contracts.unreadable import UNREADABLE, reason

MANIFESTS: Final = "manifests"
"""The folder of a package that holds its manifests."""
FOLDERS: Final = ("workloads", "stacks", "scenarios")
"""Its folders, one for each kind that a plugin may bring."""
OWN: Final = "benchfarm"

Manifest = TypeVar("Manifest", WorkloadManifest, StackManifest, ScenarioManifest)
Knobs = Mapping[str, Mapping[str, Knob]]
"""Owner, such as `stack torch` → its knobs."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The manifests of benchfarm and its user, or of one plugin, by name."""

    owner: str
    workloads: Mapping[str, WorkloadManifest]
    stacks: Mapping[str, StackManifest]
    scenarios: Mapping[str, ScenarioManifest]
    plugin: Plugin | None = None

    def kinds(self) -> dict[str, Mapping[str, Contract]]:
        """Return the manifests of each kind: `workload`, `stack`, `scenario`."""
        return {"workload": self.workloads, "stack": self.stacks, "scenario": self.scenarios}

    def joined(self, other: Manifests) -> Manifests:
        """Return both together."""
        return replace(
            self,
            workloads={**self.workloads, **other.workloads},
            stacks={**self.stacks, **other.stacks},
            scenarios={**self.scenarios, **other.scenarios},
        )


def plugins_beside(
    own: Manifests, launch: Mapping[str, Knob]
) -> tuple[list[Manifests], list[LeftOut]]:
    """Return the manifests of each plugin that fits to the others, and the plugins left out.

    own: all other manifests; launch: the knobs of launch settings.
    """
    installed, left_out = installed_plugins()
    read: list[Manifests] = []
    for one in installed:
        try:
            manifests = _read_plugin(one)
            _require_known(manifests, own)
            _require_one_meaning(manifests, own)
            _require_one_knob(own.joined(manifests), launch)
            read.append(manifests)
        except PluginRefused as refused:
            left_out.append(plugin_left_out(one.plugin.named, str(refused)))
    clashing: dict[str, str] = {}
    for pair in combinations(read, 2):
        for one_, other in (pair, pair[::-1]):
            try:
                _require_one_meaning(one_, other)
                _require_one_knob(own.joined(one_).joined(other), launch)
            except PluginRefused as refused:
                clashing[one_.owner] = str(refused)
    left_out += [plugin_left_out(owner, seen) for owner, seen in clashing.items()]
    return [one for one in read if one.owner not in clashing], left_out


def plugin_states() -> Iterator[str]:
    """Yield lines that change with each manifest of a plugin, its version, files and faults."""
    installed, left_out = installed_plugins()
    for one in installed:
        yield one.plugin.recorded
        try:
            for path in _manifest_files(one):
                yield f"{path.parent.name}/{path.name} {sha256(read_limited(path)).hexdigest()}"
        except (PluginRefused, *UNREADABLE) as error:
            yield str(error)
    yield from (one_.said for one_ in left_out)


def _manifest_files(installed: InstalledPlugin) -> Iterator[Path]:
    """Yield a plugin's manifests; raises PluginRefused for any other file."""
    top = installed.folder / MANIFESTS
    for folder in _sorted(top):
        if _is_pythons(folder):
            continue
        if folder.name not in FOLDERS:
            raise PluginRefused(
                f"{MANIFESTS}/{folder.name} is none of the folders {', '.join(FOLDERS)}"
            )
        for path in _sorted(folder):
            if _is_pythons(path):
                continue
            place = path.relative_to(installed.folder)
            if not path.resolve().is_relative_to(installed.folder.resolve()):
                raise PluginRefused(f"{place} is a link to a place outside the package")
            if path.suffix != ".yaml":
                raise PluginRefused(f"{place} does not end in .yaml")
            yield path


def _sorted(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PluginRefused(f"{folder.name}: {reason(error)}") from error


def _is_pythons(path: Path) -> bool:
    """Return whether a build tool or Python itself may have put a file among manifests."""
    return path.suffix in (".py", ".pyc") or path.name.startswith(("__pycache__", "."))


def _read_plugin(installed: InstalledPlugin) -> Manifests:
    """Return a plugin's manifests; raises PluginRefused."""
    plugin, folders = installed.plugin, dict[str, list[Path]]()
    for path in _manifest_files(installed):
        folders.setdefault(path.parent.name, []).append(path)
    if not folders:
        raise PluginRefused(f"there are no manifests in {plugin.package}/{MANIFESTS}")
    workloads = _by_name(WorkloadManifest, folders.get("workloads", ()))
    stacks = _by_name(StackManifest, folders.get("stacks", ()))
    scenarios = _by_name(ScenarioManifest, folders.get("scenarios", ()))
    for workload in workloads.values():
        check_workload(workload, plugin)
    for stack in stacks.values():
        check_stack(stack, plugin)
    for scenario in scenarios.values():
        check_scenario(scenario, plugin)
    return Manifests(
        owner=plugin.named,
        workloads={n: _with_origin(w, "workload", plugin) for n, w in workloads.items()},
        stacks={n: _with_origin(s, "stack", plugin) for n, s in stacks.items()},
        scenarios={n: _with_origin(s, "scenario", plugin) for n, s in scenarios.items()},
        plugin=plugin,
    )


def _by_name(kind: type[Manifest], paths: Iterable[Path]) -> dict[str, Manifest]:
    found: dict[str, Manifest] = {}
    for path in paths:
        place = f"{MANIFESTS}/{path.parent.name}/{path.name}"
        try:
            manifest = kind.model_validate(load_yaml(read_limited(path)))
        except UNREADABLE as error:
            raise PluginRefused(f"{place}: {reason(error)}") from error
        if manifest.name in found:
            raise PluginRefused(f"{place}: the name {manifest.name!r} is given twice")
        if reserved := sorted({*PROVENANCE_KNOBS.values()} & manifest.knobs.keys()):
            raise PluginRefused(f"{place}: benchfarm has the knob {reserved[0]} itself")
        found[manifest.name] = manifest
    return found


def _with_origin(manifest: Manifest, noun: str, plugin: Plugin) -> Manifest:
    """Return a manifest with the knob whose only value is the plugin.

    So what another version, or changed code, measured is of other cells, with a history of their
    own; of workloads and scenarios, it is other work, too.
    """
    origin = Knob(
        type="str",
        default=plugin.recorded,
        choices=(plugin.recorded,),
        work=True,
        description="The package that it comes from: version, and digest of its files.",
    )
    return manifest.model_copy(update={"knobs": {**manifest.knobs, PROVENANCE_KNOBS[noun]: origin}})


def _require_known(plugin: Manifests, own: Manifests) -> None:
    """Raise PluginRefused if a workload or a scenario names one that there is not."""
    known = own.joined(plugin)
    for workload in plugin.workloads.values():
        if lost := sorted(set(workload.scenarios) - known.scenarios.keys()):
            raise PluginRefused(
                f"workload {workload.name}: key scenarios: there is no scenario {short(lost[0])}"
            )
    for scenario in plugin.scenarios.values():
        if lost := sorted(set(scenario.workloads) - known.workloads.keys()):
            raise PluginRefused(
                f"scenario {scenario.name}: key workloads: there is no workload {short(lost[0])}"
            )


def _require_one_meaning(one: Manifests, other: Manifests) -> None:
    """Raise PluginRefused if a name of a manifest or of a fact has a meaning in both."""
    theirs = other.kinds()
    for kind, named in one.kinds().items():
        if both := sorted(named.keys() & theirs[kind].keys()):
            raise PluginRefused(f"{kind} {both[0]!r} is one of {other.owner}, too")
    declared = {n: f for o in _with_facts(other) for n, f in o.facts.items()}
    for owner in _with_facts(one):
        for name, fact in owner.facts.items():
            if declared.get(name, fact) != fact:
                seen = f"{other.owner} declares the fact {name} in another way"
                raise PluginRefused(f"{owner.name}: {seen}")


def _require_one_knob(known: Manifests, launch: Mapping[str, Knob]) -> None:
    """Raise PluginRefused if a knob of a cell could be that of two manifests."""
    for knobs in _cells(known, launch):
        owners: dict[str, str] = {}
        for owner, named in knobs.items():
            for name in named:
                if (first := owners.setdefault(name, owner)) != owner:
                    raise PluginRefused(f"{owner} and {first} both declare the knob {name}")


def _with_facts(manifests: Manifests) -> list[StackManifest | ScenarioManifest]:
    return [*manifests.stacks.values(), *manifests.scenarios.values()]


def _cells(known: Manifests, launch: Mapping[str, Knob]) -> Iterator[Knobs]:
    """Yield the knobs of each workload, stack and scenario that can meet in a training cell."""
    for workload in known.workloads.values():
        for stack in known.stacks.values():
            for scenario in known.scenarios.values():
                drives = scenario.name in workload.scenarios or workload.name in scenario.workloads
                if workload.builder and stack.backend and drives:
                    yield {
                        "launch settings": launch,
                        f"stack {stack.name}": stack.knobs,
                        f"scenario {scenario.name}": scenario.knobs,
                        f"workload {workload.name}": workload.knobs,
                    }
