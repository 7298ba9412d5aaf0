"""`benchfarm plan-training`: how long training to the quality target takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import Json, reading, show_json, show_table, write_file
from controller.cli.references import device_of, record_of
from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.errors import UserError
from controller.contracts.manifests import Convergence, Knob, defaults_of
from controller.contracts.training_plan import TrainingPlan
from controller.platform.terminal import say
from controller.reports.own_convergence import measured_convergence, own_notes, own_trainings
from controller.reports.training_plan import BATCH, SCENARIO, Asked, training_plan
from controller.reports.training_plan_table import curve_lines, plan_table, remark_lines
from controller.stats.power_law import LEAST_POINTS
from controller.store.protocol import FarmReader


def plan_training(
    workload: Annotated[
        str, typer.Argument(help="Workload whose convergence is published.")
    ] = "retinanet_resnext50",
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, help="Samples in a device's step. [default: all measured]"),
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="Device; repeatable. [default: all]")
    ] = None,
    epochs_of: Annotated[
        str | None,
        typer.Option(
            metavar="SWEEP",
            help="Sweep of trainings to the target: their epochs. [default: published ones]",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="HTML page to write, with a chart."),
    ] = None,
    json: Json = False,
) -> None:
    """Plan training to the quality target: published epochs times measured epochs' time.

    Uses VALID results only. Shortest first, with 95 % intervals. With --epochs-of, the epochs are
    those of own trainings, and are shown even where no time of a step is known.
    """
    catalog = load_catalog()
    convergence = _convergence(catalog, workload)
    if batch:
        _require_batch(catalog.workloads[workload].knobs[BATCH], batch)
    with reading() as store:
        chosen = (
            frozenset(device_of(store, name, or_forgotten=True).device.id for name in device)
            if device
            else None
        )
        target = catalog.workloads[workload].quality_target
        goal = target.value if target else None
        settings = _defaults(catalog, workload)
        asked = Asked(workload, batch, chosen, goal, settings, catalog.own_facts)
        own = _own(store, epochs_of, convergence, asked) if epochs_of else None
        plan = training_plan(own.convergence if own else convergence, store.results(), asked)
    if not own:
        _require_measured(plan, convergence, batch, device)
    if output:
        # Late: Jinja and its templates take time to load, and only a page needs them.
        from controller.reports.html.training_plan import training_plan_html

        write_file(output, training_plan_html(plan))
    if json:
        show_json(plan)
        return
    for line in curve_lines(plan):
        say(line)
    for line in own.notes if own else ():
        say(line)
    if plan.planned:
        show_table(plan_table(plan))
    else:
        say("no VALID result of training is stored: no times are planned")
    for line in remark_lines(plan):
        say(line)
    if output:
        say(f"page written to {output}")


def _defaults(catalog: Catalog, workload: str) -> dict[str, dict[str, Scalar]]:
    """Return the defaults of the knobs of a workload's training on each stack."""
    return {
        stack: defaults_of(catalog.knobs_of(workload, stack, SCENARIO)) for stack in catalog.stacks
    }


def _convergence(catalog: Catalog, workload: str) -> Convergence:
    known = {
        name: manifest.convergence
        for name, manifest in catalog.workloads.items()
        if manifest.convergence
    }
    if found := known.get(workload):
        return found
    seen = (
        "its manifest has no convergence" if workload in catalog.workloads else "no such workload"
    )
    remedy = f"Workloads with one: {', '.join(known)}."
    raise UserError(f"plan training of {workload}", seen, remedy)


@dataclass(frozen=True, slots=True)
class _Own:
    convergence: Convergence
    notes: Sequence[str]


def _own(store: FarmReader, sweep: str, convergence: Convergence, asked: Asked) -> _Own:
    """Return the epochs of a sweep's trainings; raises NotFound, UserError."""
    record = record_of(store, sweep)
    found = own_trainings(convergence, store.results(record.sweep_id), asked)
    if len(found.batches) < LEAST_POINTS:
        reached = ", ".join(map(str, found.batches)) or "none"
        why = " ".join((f"batches at which its trainings reached it: {reached}", *own_notes(found)))
        raise UserError(
            f"plan training of {asked.workload} by the epochs of {sweep}",
            f"the target has to be reached at two batches or more; {why}",
            "Submit a sweep of scenario training_quality over batch_size, such as "
            "sweeps/retinanet-epochs.yaml.",
        )
    return _Own(measured_convergence(convergence, found, record.sweep.name), own_notes(found))


def _require_batch(knob: Knob, batch: int) -> None:
    """Raise UserError for a batch that no run can have."""
    if fault := knob.objection(batch):
        seen = "no device's step can have that many samples"
        raise UserError(f"plan training with --batch {batch}", seen, fault)


def _require_measured(
    plan: TrainingPlan, convergence: Convergence, batch: int | None, devices: list[str] | None
) -> None:
    """Raise UserError, with what to run, where nothing was measured."""
    if plan.planned:
        return
    where = f" on {', '.join(devices)}" if devices else ""
    of_batch = f" with {BATCH}={batch}" if batch else ""
    knobs = {**convergence.knobs, **({BATCH: batch} if batch else {})}
    said = {"name": "to-plan", "workload": plan.workload, "stack": "torch", "scenario": SCENARIO}
    file = dumps({**said, "knobs": knobs, "repeats": 3})
    raise UserError(
        f"plan training of {plan.workload}",
        f"no VALID result of training{of_batch} is stored{where}",
        f"Measure it with `echo '{file}' | benchfarm sweep submit - --wait`.",
    )
