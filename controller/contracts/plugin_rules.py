"""What the manifest of a plugin may say; each function raises PluginRefused."""

from __future__ import annotations

from controller.contracts.device import DeviceKind
from controller.contracts.documents import short
from controller.contracts.manifests import ScenarioManifest, StackManifest, WorkloadManifest
from controller.contracts.plugins import OURS, Plugin, PluginRefused


def check_workload(workload: WorkloadManifest, plugin: Plugin) -> None:
    """Require a workload that trains, whose class is the plugin's or benchfarm's."""
    what = f"workload {workload.name}"
    if workload.builder is None or workload.on_device is not None:
        seen = "key builder: a plugin's workload trains; add a task for devices with `models add`"
        raise PluginRefused(f"{what}: {seen}")
    _require_class(what, "builder", workload.builder, plugin)


def check_stack(stack: StackManifest, plugin: Plugin) -> None:
    """Require a stack that trains in the environment of its package."""
    what = f"stack {stack.name}"
    if stack.backend is None:
        seen = "key backend: a plugin's stack trains; add a program with `models add`"
        raise PluginRefused(f"{what}: {seen}")
    _require_class(what, "backend", stack.backend, plugin)
    if stack.device_kinds != (DeviceKind.CPU_HOST,):
        raise PluginRefused(f"{what}: key device_kinds: a stack that trains runs on cpu_host")
    if stack.environment is not None:
        seen = "key environment: a plugin's stack runs in the environment that it is installed in"
        raise PluginRefused(f"{what}: {seen}")
    if stack.baseline:
        seen = "key baseline: only benchfarm's own stack is what metrics compare the others with"
        raise PluginRefused(f"{what}: {seen}")


def check_scenario(scenario: ScenarioManifest, plugin: Plugin) -> None:
    """Require a scenario whose module is the plugin's or benchfarm's."""
    what = f"scenario {scenario.name}"
    if scenario.module is None:
        raise PluginRefused(f"{what}: key module: name the module with its function run")
    _require_code(what, "module", scenario.module, plugin)


def _require_class(what: str, key: str, named: str, plugin: Plugin) -> None:
    module, _, name = named.partition(":")
    if not name.isidentifier():
        raise PluginRefused(f"{what}: key {key}: {short(named)} is not package.module:Class")
    _require_code(what, key, module, plugin, form="package.module:Class")


def _require_code(
    what: str, key: str, module: str, plugin: Plugin, form: str = "package.module"
) -> None:
    """Raise PluginRefused unless a module is the plugin's or benchfarm's.

    What is elsewhere has a version of its own, which no result would tell.
    """
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise PluginRefused(f"{what}: key {key}: {short(module)} is not {form}")
    if parts[0] not in (plugin.package, *OURS):
        seen = f"{parts[0]} is not {plugin.package}, and its version would not be known"
        raise PluginRefused(f"{what}: key {key}: {seen}")
