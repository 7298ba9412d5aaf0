"""A sweep and the cells it expands to. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from controller.contracts.base import Contract, Scalar, digest, scalar_text
from controller.contracts.documents import load_yaml
from controller.contracts.unreadable import UNREADABLE

Placement = Literal["any", "each"] | Annotated[int, Field(strict=True, ge=1, le=1000)]
"""Run a cell once on any matching device, once on each, or once on each of this many."""


def _as_tuple(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Yes = Annotated[Literal[True] | None, BeforeValidator(lambda value: value or None)]
"""True or None; a None is not written, so a cell without this key keeps its identity."""
Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class Side(Contract):
    """One side of a comparison: a stack and its knobs.

    Written as `torch`, `torch:precision=bf16,memory_format=channels_last`, or as a mapping.
    """

    stack: str = Field(min_length=1)
    knobs: dict[str, Scalar] = {}

    @model_validator(mode="before")
    @classmethod
    def _parsed(cls, value: object) -> object:
        return _side_of(value) if isinstance(value, str) else value


def _side_of(text: str) -> dict[str, object]:
    stack, colon, rest = text.partition(":")
    knobs: dict[str, Scalar] = {}
    if colon and not rest:
        raise ValueError(f"write `{stack}`, or `{stack}:KNOB=VALUE`")
    for given in rest.split(",") if colon else ():
        name, value = knob_of(given)
        if name in knobs:
            raise ValueError(f"knob {name} is given twice")
        knobs[name] = value
    return {"stack": stack, "knobs": knobs}


def knob_of(text: str) -> tuple[str, Scalar]:
    """Parse NAME=VALUE, the value as in a sweep file; raises ValueError."""
    name, equals, word = text.partition("=")
    if not (name and equals and word):
        raise ValueError(f"{text!r} is not KNOB=VALUE")
    try:
        value = load_yaml(word)
    except UNREADABLE:
        value = None
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"the value of {text!r} is neither a number, a word, true nor false")
    return name, value


class Stopping(Contract):
    """When to stop a paired comparison."""

    width: float = Field(default=0.03, gt=0, lt=10)
    """Stop when the interval is narrower than this fraction of the ratio."""
    time_limit_s: float = Field(default=600.0, gt=0, le=86400)
    """Or no further pair fits into so many seconds: both sides start and warm up in them, too."""


class PairedComparison(Stopping):
    """The comparison of each of `b` with `a`, in alternating batches on one device."""

    a: Side
    b: Annotated[tuple[Side, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class PairedCandidate(Side, Stopping):
    """Side B of a cell that is a paired comparison."""


class Sweep(Contract):
    """Axes × recipes × selectors × repeats, as a user writes them.

    A scalar stands for a list of one. `recipes` are named bundles of knobs that change together;
    one with a `stack` runs on that stack alone. `baseline` gives the knobs (or `workload`, `stack`,
    `device`) of the cell that all others are compared with. `paired` replaces `baseline`, `recipes`
    and `stack`. With `profile`, every run is also profiled after it has been timed.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    description: str = Field(default="", max_length=10_000)
    workload: Names
    stack: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    scenario: Names
    knobs: dict[str, Values] = {}
    recipes: dict[str, dict[str, Scalar]] = {}
    devices: Names = ("any",)
    run_on: Placement = "any"
    awaits: Yes = Field(default=None, alias="await")
    """Whether devices that match but are away get runs, too, which wait for them."""
    repeats: int = Field(default=1, ge=1, le=1000)
    deadline_s: float = Field(default=1800.0, gt=0, le=7 * 86400)
    baseline: dict[str, Scalar] = {}
    paired: PairedComparison | None = None
    profile: Yes = None
    priority: int | None = Field(default=None, ge=-100, le=100)
    """Runs of a higher priority go first; default 0. Above 0 is for the administrator only."""

    @property
    def stacks(self) -> tuple[str, ...]:
        """Its stacks; one without a name if there are none, as where every recipe has its own."""
        return self.stack or ("",)

    def sweep_id(self, generation: int) -> str:
        """Return the id of this sweep's n-th submission; equal content gives equal ids."""
        text = self.model_dump(mode="json", exclude_none=True)
        return f"{self.name}-{digest([text, generation], 8)}"


class Cell(Contract):
    """One point of a sweep; its `key` identifies its history across sweeps."""

    workload: str
    stack: str
    scenario: str
    knobs: dict[str, Scalar]
    """Every knob of the cell with its default written out, so that a changed default is a new cell.
    """
    selector: str
    versus: PairedCandidate | None = None
    """Side B of a paired comparison; `stack` and `knobs` are then side A's."""
    profiled: Yes = None
    """Whether its runs are also profiled."""

    @property
    def key(self) -> str:
        """First 16 hex digits of the SHA-256 of the cell's canonical JSON."""
        return digest(self.model_dump(mode="json", exclude_none=True))

    def sides(self) -> Iterator[Cell]:
        """Yield the cell of each measured side: both of a paired comparison, or the cell itself."""
        if self.versus is None:
            yield self
            return
        other = {"stack": self.versus.stack, "knobs": self.versus.knobs}
        yield self.model_copy(update={"versus": None})
        yield self.model_copy(update={"versus": None, **other})


Choice = tuple[str, str, str, dict[str, Scalar]]


def choices(sweep: Sweep) -> list[Choice]:
    """Return every (workload, stack, scenario, given knobs) of a sweep, in file order."""
    names = list(sweep.knobs)
    return [
        (workload, chosen, scenario, {**dict(zip(names, values, strict=True)), **knobs})
        for workload, stack, scenario in product(sweep.workload, sweep.stacks, sweep.scenario)
        for values in product(*sweep.knobs.values())
        for chosen, knobs in _recipes_on(stack, sweep)
    ]


def _recipes_on(stack: str, sweep: Sweep) -> list[tuple[str, dict[str, Scalar]]]:
    """Return the stack and the knobs of each recipe; a recipe with its own stack is returned only
    for the sweep's first stack."""
    found: list[tuple[str, dict[str, Scalar]]] = []
    for recipe in sweep.recipes.values() or [{}]:
        knobs = {name: value for name, value in recipe.items() if name != "stack"}
        if "stack" not in recipe:
            found.append((stack, knobs))
        elif stack == sweep.stacks[0]:
            found.append((str(recipe["stack"]), knobs))
    return found


def side_labels(a: Side, b: Side) -> tuple[str, str]:
    """Return a label for each side: its stack and what differs from the other side."""
    apart = sorted(
        name
        for name in a.knobs.keys() | b.knobs.keys()
        if (name in a.knobs, a.knobs.get(name)) != (name in b.knobs, b.knobs.get(name))
    )

    def label(side: Side) -> str:
        knobs = ",".join(f"{n}={scalar_text(side.knobs[n])}" for n in apart if n in side.knobs)
        return f"{side.stack}:{knobs}" if knobs else side.stack

    return label(a), label(b)
