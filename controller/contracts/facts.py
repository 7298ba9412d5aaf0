"""The facts of an environment, each declared once: benchfarm's in `facts.yaml`, a stack's or a
scenario's own in its manifest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from controller.contracts.base import Contract, Name
from controller.contracts.documents import load_yaml, read_limited

TABLE: Final = Path(__file__).with_name("facts.yaml")
SIDES: Final = ("", "a.", "b.")
"""Prefixes of a fact's name in a paired result: none if its sides agree."""
_WHEN: Final = "{before,after}"


class FactKind(StrEnum):
    """What a fact is about."""

    IDENTITY = "identity"
    """What the device and the software are."""
    SETTING = "setting"
    """How a run was started, and what it was asked to do."""
    CONDITION = "condition"
    """Conditions and events before, during and after a run."""


class Equal(StrEnum):
    """Among which results a fact has to be equal for them to be compared."""

    RESULTS = "results"
    STACK = "stack"
    SIDE = "side"


class Fact(Contract):
    """What is declared of any fact."""

    kind: FactKind
    means: Annotated[str, Field(pattern=r"^[^\n|]{1,200}$")]
    unit: Annotated[str, Field(pattern=r"^[^\s|]{1,16}$")] | None = None


class FactDeclaration(Fact):
    """A fact of benchfarm's, or those that differ only in what a device calls its part."""

    name: str
    """`*` stands for a word, `{before,after}` for one of the two."""
    equal: Equal | None = None
    """None: results may be compared across it."""
    exempt: Annotated[str | None, Field(alias="except")] = None
    """A scenario whose results may be compared across it nevertheless."""
    programs: bool = False
    """Whether a user's own program may write it."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of its names as they are stored."""
        escaped = re.escape(self.name).replace(r"\*", ".+")
        return re.compile(escaped.replace(re.escape(_WHEN), "(?:before|after)"))


class OwnFact(Fact):
    """A fact that only one stack or scenario writes, declared in its manifest."""

    equal: Literal[Equal.STACK, Equal.SIDE] | None = None
    """Never all results: those of other stacks lack it."""


def _require_own(facts: dict[str, OwnFact]) -> dict[str, OwnFact]:
    for name in facts:
        if declaration_of(name) is not None:
            raise ValueError(f"{name}: benchfarm writes a fact of this name. Take another name.")
    return facts


OwnFacts = Annotated[dict[Name, OwnFact], AfterValidator(_require_own)]


@cache
def declared_facts() -> tuple[FactDeclaration, ...]:
    """Return benchfarm's declarations, in the order of the file."""
    kinds = load_yaml(read_limited(TABLE))
    return tuple(
        FactDeclaration.model_validate({"name": name, "kind": kind, **fields})
        for kind, facts in kinds.items()
        for name, fields in facts.items()
    )


@cache
def identity_facts() -> frozenset[str]:
    """Return the names of the facts that say what a device and its software are."""
    return frozenset(fact.name for fact in declared_facts() if fact.kind is FactKind.IDENTITY)


@cache
def _plain_names() -> dict[str, FactDeclaration]:
    return {fact.name: fact for fact in declared_facts()}


@cache
def _patterns() -> tuple[FactDeclaration, ...]:
    return tuple(fact for fact in declared_facts() if "*" in fact.name or _WHEN in fact.name)


def declaration_of(name: str) -> FactDeclaration | None:
    """Return what benchfarm declares of a stored fact; None if it does not write it."""
    bare = _without_side(name)
    plain = _plain_names().get(bare)
    return plain or next((f for f in _patterns() if f.pattern.fullmatch(bare)), None)


def unit_of(name: str, own: Mapping[str, OwnFact]) -> str | None:
    """Return the declared unit of a stored fact; None for a count, a text and an undeclared fact.

    own: what the catalogue's stacks and scenarios declare.
    """
    declared = declaration_of(name) or own.get(_without_side(name))
    return declared.unit if declared else None


def undeclared(names: Iterable[str], own: Mapping[str, OwnFact]) -> list[str]:
    """Return the stored facts that neither benchfarm nor a manifest declares."""
    return [n for n in names if declaration_of(n) is None and _without_side(n) not in own]


def compared_facts(equal: Equal, scenario: str, own: Mapping[str, OwnFact]) -> Iterator[str]:
    """Yield the names of the facts that results of a scenario have to agree in."""
    for fact in declared_facts():
        if fact.equal is equal and fact.exempt != scenario:
            yield fact.name
    yield from (name for name, fact in own.items() if fact.equal is equal)


def _without_side(name: str) -> str:
    return name[2:] if name.startswith(SIDES[1:]) else name
