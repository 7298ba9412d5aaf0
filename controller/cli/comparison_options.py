"""Options that say which two sides to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from pydantic import ValidationError

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.errors import UserError
from controller.contracts.sweep import Side, knob_of
from controller.contracts.wording import faults_of
from controller.reports.result_selection import Wanted

TRAINING: Final = "training"
"""The scenario that is compared unless another is asked for, of a workload that has it."""

SideA = Annotated[
    str, typer.Argument(metavar="A", help="Side A: STACK, or STACK:KNOB=VALUE,KNOB=VALUE.")
]
SideB = Annotated[str, typer.Argument(metavar="B", help="Side B, in the same form.")]
Workload = Annotated[str, typer.Option("--workload", help="Workload that both sides run.")]
Scenario = Annotated[
    str | None,
    typer.Option(
        "--scenario", help="Scenario; training by default, else required if there are several."
    ),
]
Knobs = Annotated[
    list[str] | None,
    typer.Option(
        "--knob", metavar="NAME=VALUE", help="Knob of everything that is run; repeatable."
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit",
        min=1,
        max=86400,
        metavar="SECONDS",
        help="Seconds for the whole comparison once a device is free: start, compilation,"
        " warm-up and pairs.",
    ),
]


def wanted_of(
    catalog: Catalog,
    a: str,
    b: str,
    workload: str,
    scenario: str | None,
    knob: Sequence[str] | None,
    device: str | None,
) -> Wanted:
    """Return what the options mean; raises UserError."""
    return Wanted(
        a=_side("A", a),
        b=_side("B", b),
        workload=workload,
        scenario=_scenario(catalog, workload, scenario),
        knobs=knobs_of(knob or ()),
        device=device,
    )


def _side(name: str, text: str) -> Side:
    try:
        return Side.model_validate(text)
    except ValidationError as error:
        seen = faults_of(error)[0].said
        remedy = "Write it as `torch:precision=bf16,memory_format=channels_last`."
        raise UserError(f"use side {name} {text!r}", seen, remedy) from error


def knobs_of(given: Sequence[str]) -> dict[str, Scalar]:
    """Return what options --knob say; raises UserError."""
    try:
        return dict(knob_of(text) for text in given)
    except ValueError as error:
        remedy = "Write it as `--knob image_size=256`."
        raise UserError("use --knob", str(error), remedy) from error


def _scenario(catalog: Catalog, workload: str, scenario: str | None) -> str:
    known = catalog.workloads.get(workload)
    if known is None:
        catalog.require_read(workload)
        names = ", ".join(sorted(catalog.workloads))
        none = "there is no such workload"
        raise UserError(f"use --workload {workload!r}", none, f"Known: {names}.")
    if scenario is None and TRAINING in known.scenarios:
        return TRAINING
    if scenario is None and len(known.scenarios) > 1:
        names = ", ".join(known.scenarios)
        tried, seen = f"choose a scenario of {workload}", "it has several"
        raise UserError(tried, seen, f"Add `--scenario` with one of these: {names}.")
    if scenario is not None and scenario not in known.scenarios:
        seen = f"workload {workload} does not run under it"
        remedy = f"Choose one of {', '.join(known.scenarios)}."
        raise UserError(f"use --scenario {scenario!r}", seen, remedy)
    return known.scenarios[0] if scenario is None else scenario
