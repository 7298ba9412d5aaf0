"""Facts of an environment against their declarations."""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.facts import declaration_of


def undeclared(names: Iterable[str]) -> list[str]:
    """Return the names that contracts/facts.yaml declares nothing for."""
    return [name for name in names if declaration_of(name) is None]
