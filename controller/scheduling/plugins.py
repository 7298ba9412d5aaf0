"""Whether a host has the plugins that a cell needs. Pure."""

from __future__ import annotations

from typing import Final

from controller.contracts.catalog import Catalog
from controller.contracts.device import PLUGINS, Device
from controller.contracts.manifests import PROVENANCE_KNOBS
from controller.contracts.plugins import Plugin
from controller.contracts.sweep import Cell

REMEDY: Final = "install the head's there, then restart its agent"


def plugins_of(cell: Cell, catalog: Catalog) -> dict[str, Plugin]:
    """Return the plugins of a cell's parts: `workload`, `stack` and `scenario`, as far as each
    comes from one."""
    found = {noun: catalog.plugin_of(noun, name) for noun, name in _parts(cell).items()}
    return {noun: plugin for noun, plugin in found.items() if plugin}


def plugin_objections(cell: Cell, device: Device, catalog: Catalog) -> list[str]:
    """Return the reasons why the plugins of a cell exclude a device."""
    found = dict[str, None]()
    for side in cell.sides():
        found |= dict.fromkeys(_of_other_versions(side, catalog))
    told = device.facts.get(PLUGINS)
    there = told if isinstance(told, tuple) else ()
    for side in cell.sides():
        for plugin in plugins_of(side, catalog).values():
            if plugin.recorded not in there:
                found[f"package {plugin.named} ({_lacking(plugin, there)}; {REMEDY})"] = None
    return [*found]


def _parts(cell: Cell) -> dict[str, str]:
    return {"workload": cell.workload, "stack": cell.stack, "scenario": cell.scenario}


def _lacking(plugin: Plugin, there: tuple[str, ...]) -> str:
    others = [text for text in there if text.startswith(f"{plugin.distribution} ")]
    if not others:
        return "the host does not have it"
    if others[0].startswith(f"{plugin.named} "):
        return f"the host's has other files: {others[0]}, not {plugin.recorded}"
    return f"the host has {others[0]}"


def _of_other_versions(cell: Cell, catalog: Catalog) -> list[str]:
    """Return a reason for each part of a cell that was submitted with another version."""
    found = []
    for noun, name in _parts(cell).items():
        plugin, asked = catalog.plugin_of(noun, name), cell.knobs.get(PROVENANCE_KNOBS[noun])
        now = plugin.recorded if plugin else "benchfarm"
        if asked is not None and asked != now:
            found.append(f"{noun} {name}: the run is of {asked}, the farm has {now}")
    return found
