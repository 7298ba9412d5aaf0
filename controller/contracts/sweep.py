"""A sweep and the cells it expands to. Pure: text in, values or typed errors out."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from controller.contracts.base import Contract, Scalar, digest

Placement = Literal["any", "each"]
"""Run a cell once on any matching device, or once on each."""


def _as_tuple(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class Sweep(Contract):
    """Axes × recipes × selectors × repeats, as a user writes them.

    A scalar may stand for a list of one. `recipes` are named bundles of knobs that change
    together; one that also names a `stack` runs on that one alone. `baseline` is the part of the
    knobs (or `workload`, `stack`, `device`) that marks the cell all others are compared with.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    description: str = ""
    workload: Names
    stack: Names
    scenario: Names
    knobs: dict[str, Values] = {}
    recipes: dict[str, dict[str, Scalar]] = {}
    devices: Names = ("any",)
    run_on: Placement = "any"
    repeats: int = Field(default=1, ge=1, le=1000)
    deadline_s: float = Field(default=1800.0, gt=0, le=7 * 86400)
    baseline: dict[str, Scalar] = {}

    def sweep_id(self, generation: int) -> str:
        """Return the id of this sweep's n-th submission; equal text gives equal ids."""
        return f"{self.name}-{digest([self.model_dump(mode='json'), generation], 8)}"


class Cell(Contract):
    """One point of a sweep; `key` is the identity of its history across sweeps."""

    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    """Every knob the cell has, defaults written out, so that a changed default is a new cell."""
    selector: str

    @property
    def key(self) -> str:
        """First 16 hex digits of the SHA-256 of the cell's canonical JSON."""
        return digest(self.model_dump(mode="json"))


Choice = tuple[str, str, str, dict[str, Scalar]]


def choices(sweep: Sweep) -> list[Choice]:
    """Return every (workload, stack, scenario, given knobs) of a sweep, in reading order."""
    names = list(sweep.knobs)
    return [
        (workload, chosen, scenario, {**dict(zip(names, values, strict=True)), **knobs})
        for workload, stack, scenario in product(sweep.workload, sweep.stack, sweep.scenario)
        for values in product(*sweep.knobs.values())
        for chosen, knobs in _recipes_on(stack, sweep)
    ]


def _recipes_on(stack: str, sweep: Sweep) -> list[tuple[str, dict[str, Scalar]]]:
    """Return the stack and the knobs of each recipe; one that names its stack comes with the first
    of the sweep's only, whatever that is."""
    found: list[tuple[str, dict[str, Scalar]]] = []
    for recipe in sweep.recipes.values() or [{}]:
        knobs = {name: value for name, value in recipe.items() if name != "stack"}
        if "stack" not in recipe:
            found.append((stack, knobs))
        elif stack == sweep.stack[0]:
            found.append((str(recipe["stack"]), knobs))
    return found
