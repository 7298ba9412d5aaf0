"""`benchfarm workload …`: the workloads that a sweep may name."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from controller.cli.common import Json, show_json, show_table
from controller.cli.knob_table import show_knobs
from controller.contracts.catalog import load_catalog, named
from controller.contracts.manifests import QualityTarget, WorkloadManifest
from controller.scheduling.program import stacks_that_run

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Workload; see `benchfarm workload list`.")]


@app.command("list")
def list_workloads(json: Json = False) -> None:
    """List all workloads and their scenarios."""
    workloads = list(load_catalog().workloads.values())
    if json:
        show_json(workloads)
        return
    table = Table("workload", "title", "task", "scenarios")
    for workload in workloads:
        table.add_row(workload.name, workload.title, workload.task, " ".join(workload.scenarios))
    show_table(table)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show a workload's stacks, scenarios, models and knobs."""
    catalog = load_catalog()
    workload = named("workload", name, catalog.workloads)
    if json:
        show_json(workload)
        return
    table = Table("what", "value", title=f"{name}: {workload.title}", title_justify="left")
    facts = {"stacks": " ".join(stacks_that_run(workload, catalog)), **_facts(workload)}
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
