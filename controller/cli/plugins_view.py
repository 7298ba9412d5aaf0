"""How the plugins of manifests are shown, and what is left out of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterable

from controller.contracts.catalog import Catalog
from controller.contracts.manifests import ScenarioManifest, WorkloadManifest
from controller.platform.terminal import say


def warn_of_left_out(catalog: Catalog) -> None:
    """Say on standard error, in a line each, which plugins and manifests are left out and why."""
    for one in catalog.left_out:
        say(f"benchfarm: {one.said}. {one.remedy}", err=True)


def package_heading(catalog: Catalog, noun: str) -> tuple[str, ...]:
    """Return the heading of the column of packages; none if no plugin brings such manifests."""
    return ("package",) if catalog.plugins.get(noun) else ()


def package_cell(catalog: Catalog, noun: str, name: str) -> tuple[str, ...]:
    """Return what that column has for a manifest: its plugin, or nothing for one of benchfarm."""
    plugin = catalog.plugin_of(noun, name)
    return (plugin.named if plugin else "",) if package_heading(catalog, noun) else ()


def with_packages(
    catalog: Catalog, noun: str, manifests: Iterable[WorkloadManifest | ScenarioManifest]
) -> list[dict[str, object]]:
    """Return manifests as JSON values, each with the package that brings it or null."""
    found = []
    for manifest in manifests:
        plugin = catalog.plugin_of(noun, manifest.name)
        known = plugin.model_dump(mode="json") if plugin else None
        found.append({**manifest.model_dump(mode="json"), "plugin": known})
    return found


def show_manifests_json(value: object) -> None:
    """Print what `with_packages` returned, or one of it."""
    say(json.dumps(value, indent=2), lines=True)
