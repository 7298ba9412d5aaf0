"""The plugins of a job: whether this host has them, and what a result says of them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from controller.contracts.errors import WorkerFault
from controller.contracts.manifests import PROVENANCE_KNOBS
from controller.contracts.plugins import Plugin, files_digest, installed_plugins, recorded
from controller.contracts.result import Blame, Environment, Failure
from controller.contracts.wire import TrainingProgram


def plugin_folders(needed: Iterable[Plugin]) -> dict[str, list[str]]:
    """Return the folders of the packages of a job's plugins, by name.

    Raises WorkerFault, blame user, if this host has not the same version and files as the farm had
    when it came up: they may have changed since the agent announced them.
    """
    wanted = {plugin.package: plugin for plugin in needed}
    if not wanted:
        return {}
    found, left_out = installed_plugins()
    there = {one.plugin.package: one for one in found}
    for package, plugin in wanted.items():
        one = there.get(package)
        if one is None or one.plugin.recorded != plugin.recorded:
            unused = [o.said for o in left_out if o.name == plugin.distribution]
            seen = " ".join(unused) or "it is not installed"
            if one:
                seen = f"it has {one.plugin.recorded}"
            raise plugin_missing(
                f"this host does not have package {plugin.recorded}: {seen}. Install what the head "
                "has, then restart the farm, or this host's agent."
            )
    return {package: [str(there[package].folder)] for package in wanted}


def plugin_missing(message: str) -> WorkerFault:
    """Return the fault of a run whose plugin can't be used on this host."""
    return WorkerFault(Failure(blame=Blame.USER, kind="plugin_missing", message=message))


def plugin_facts(program: TrainingProgram) -> Environment:
    """Return what a result says of its plugins, from the files that this process imports."""
    return {
        PROVENANCE_KNOBS[noun]: recorded(plugin.named, files_digest(_folder(plugin.package)))
        for noun, plugin in program.plugins.items()
    }


def _folder(package: str) -> Path:
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise plugin_missing(f"package {package} is not importable in the stack's environment")
    return Path(folders[0])
