"""`benchfarm workload …`: the workloads that a sweep may name."""

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
from controller.contracts.manifests import QualityTarget, WorkloadManifest
from controller.scheduling.program import stacks_that_run

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Workload; see `benchfarm workload list`.")]


@app.command("list")
def list_workloads(json: Json = False) -> None:
    """List all workloads and their scenarios."""
    catalog = load_catalog()
    warn_of_left_out(catalog)
    workloads = list(catalog.workloads.values())
    if json:
        show_manifests_json(with_packages(catalog, "workload", workloads))
        return
    heading = package_heading(catalog, "workload")
    table = Table("workload", "title", "task", "scenarios", *heading)
    for workload in workloads:
        package = package_cell(catalog, "workload", workload.name)
        scenarios = " ".join(workload.scenarios)
        table.add_row(workload.name, workload.title, workload.task, scenarios, *package)
    show_table(table)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show a workload's stacks, scenarios, models and knobs."""
    catalog = load_catalog()
    warn_of_left_out(catalog)
    workload = named("workload", name, catalog.workloads)
    if json:
        show_manifests_json(with_packages(catalog, "workload", [workload])[0])
        return
    table = Table("what", "value", title=f"{name}: {workload.title}", title_justify="left")
    plugin = catalog.plugin_of("workload", name)
    facts = {
        "stacks": " ".join(stacks_that_run(workload, catalog)),
        **_facts(workload),
        "package": plugin.recorded if plugin else "",
    }
    for fact, value in facts.items():
        if value:
            table.add_row(fact, value)
    show_table(table)
    show_knobs(workload.knobs)


def _facts(workload: WorkloadManifest) -> dict[str, str]:
    device = workload.on_device
    return {
        "scenarios": " ".join(workload.scenarios),
        "task": workload.task,
        "reference": workload.reference,
        "quality target": _quality(workload.quality_target),
        "models": " ".join(device.models) if device else "",
        "data sets": " ".join(device.datasets) if device else "",
    }


def _quality(target: QualityTarget | None) -> str:
    return f"{target.metric} of at least {target.value:g}" if target else ""
