"""The facts of an environment: what benchfarm writes there, declared once, in `facts.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from controller.contracts.base import Contract
from controller.contracts.documents import load_yaml, read_limited

TABLE: Final = Path(__file__).with_name("facts.yaml")
SIDES: Final = ("", "a.", "b.")
"""What stands before a fact's name in a paired result: nothing where its sides agree."""
_WHEN: Final = "{before,after}"


class FactKind(StrEnum):
    """What a fact is about."""

    IDENTITY = "identity"
    """What the device and the software are."""
    SETTING = "setting"
    """How a run was started, and what it was asked to do."""
    CONDITION = "condition"
    """What it was like, and what happened, before, during and after a run."""


class Equal(StrEnum):
    """Among which results a fact has to be equal for them to be compared."""

    RESULTS = "results"
    STACK = "stack"
    SIDE = "side"


class FactDeclaration(Contract):
    """One fact, or those that differ only in what a device calls its part."""

    name: str
    """`*` stands for a word, `{before,after}` for one of the two."""
    kind: FactKind
    means: str
    unit: str | None = None
    equal: Equal | None = None
    """None: results may be compared across it."""
    exempt: Annotated[str | None, Field(alias="except")] = None
    """A scenario whose results may be compared across it all the same."""
    programs: bool = False
    """Whether a user's own program may say it."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What matches its names as they are stored."""
        escaped = re.escape(self.name).replace(r"\*", ".+")
        return re.compile(escaped.replace(re.escape(_WHEN), "(?:before|after)"))


@cache
def declared_facts() -> tuple[FactDeclaration, ...]:
    """Return all declarations, in the order of the file."""
    kinds = load_yaml(read_limited(TABLE))
    return tuple(
        FactDeclaration.model_validate({"name": name, "kind": kind, **fields})
        for kind, facts in kinds.items()
        for name, fields in facts.items()
    )


@cache
def _plain_names() -> dict[str, FactDeclaration]:
    return {fact.name: fact for fact in declared_facts()}


def declaration_of(name: str) -> FactDeclaration | None:
    """Return what declares a stored fact; None for one that a user's own program has named."""
    own = name[2:] if name.startswith(SIDES[1:]) else name
    plain = _plain_names().get(own)
    return plain or next((f for f in declared_facts() if f.pattern.fullmatch(own)), None)


def compared_facts(equal: Equal, scenario: str) -> Iterator[str]:
    """Yield the names of the facts that results of a scenario have to agree in."""
    for fact in declared_facts():
        if fact.equal is equal and fact.exempt != scenario:
            yield fact.name
