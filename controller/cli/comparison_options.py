"""Options that say which two sides to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import ValidationError

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.errors import UserError
from controller.contracts.sweep import Side, knob_of
from controller.reports.result_selection import Wanted

SideA = Annotated[str, typer.Argument(metavar="A", help="STACK, or STACK:KNOB=VALUE,KNOB=VALUE")]
SideB = Annotated[str, typer.Argument(metavar="B", help="The same of the other side.")]
Workload = Annotated[str, typer.Option("--workload", help="What both run.")]
Scenario = Annotated[
    str | None, typer.Option("--scenario", help="Needed where the workload has several.")
]
Knobs = Annotated[
    list[str] | None,
    typer.Option(
        "--knob", metavar="NAME=VALUE", help="A knob of all that is run; may be repeated."
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
        seen = error.errors()[0]["msg"].removeprefix("Value error, ")
        example = "such as torch:precision=bf16,memory_format=channels_last"
        raise UserError(
            f"side {name} {text!r}", seen, f"name a stack and its knobs, {example}"
        ) from error


def knobs_of(given: Sequence[str]) -> dict[str, Scalar]:
    """Return what options --knob say; raises UserError."""
    try:
        return dict(knob_of(text) for text in given)
    except ValueError as error:
        example = "write one such as --knob image_size=256"
        raise UserError("option --knob", str(error), example) from error


def _scenario(catalog: Catalog, workload: str, scenario: str | None) -> str:
    known = catalog.workloads.get(workload)
    if known is None:
        names = ", ".join(sorted(catalog.workloads))
        raise UserError(f"option --workload {workload}", "there is none", f"known: {names}")
    if scenario is None and len(known.scenarios) > 1:
        names = ", ".join(known.scenarios)
        raise UserError(f"workload {workload}", "it has several scenarios", f"--scenario: {names}")
    return scenario or known.scenarios[0]
