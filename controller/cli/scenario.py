"""`benchfarm scenario …`: the scenarios that a sweep may name."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, show_table
from controller.cli.knob_table import show_knobs
from controller.cli.plugins_view import (
    package_cell,
    package_heading,
    show_manifests_json,
    warn_of_left_out,
    with_packages,
)
from controller.contracts.catalog import load_catalog, named

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Scenario; see `benchfarm scenario list`.")]


@app.command("list")
def list_scenarios(json: Json = False) -> None:
    """List all scenarios and the metric that ranks their results."""
    catalog = load_catalog()
    warn_of_left_out(catalog)
    scenarios = list(catalog.scenarios.values())
    if json:
        show_manifests_json(with_packages(catalog, "scenario", scenarios))
        return
    table = Table("scenario", "title", "ranked by", *package_heading(catalog, "scenario"))
    for scenario in scenarios:
        package = package_cell(catalog, "scenario", scenario.name)
        table.add_row(scenario.name, scenario.title, scenario.metric, *package)
    show_table(table)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show a scenario's metric, workloads and knobs."""
    catalog = load_catalog()
    warn_of_left_out(catalog)
    scenario = named("scenario", name, catalog.scenarios)
    if json:
        show_manifests_json(with_packages(catalog, "scenario", [scenario])[0])
        return
    workloads = [w.name for w in catalog.workloads.values() if name in w.scenarios]
    table = Table("what", "value", title=f"{name}: {scenario.title}", title_justify="left")
    table.add_row("ranked by", scenario.metric)
    table.add_row("workloads", " ".join(workloads))
    table.add_row("paired comparison", scenario.instead_of_pairing or "yes")
    if plugin := catalog.plugin_of("scenario", name):
        table.add_row("package", plugin.recorded)
    show_table(table)
    show_knobs(scenario.knobs)
