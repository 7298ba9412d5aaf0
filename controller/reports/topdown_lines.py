"""Top-down shares, in lines and as rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.counters import Counters
from controller.contracts.topdown import LEVELS, TopDown

NOTHING = "perf counted nothing"
"""Of the whole step: earlier releases didn't tell why."""


def topdown_lines(found: TopDown) -> list[str]:
    """Return what a summary says: a line for the source and level 1, one for level 2."""
    first = ", ".join(f"{node_name(name)} {found.shares[name]:.1%}" for name in LEVELS)
    second = ", ".join(f"{node_name(n)} {found.shares[n]:.1%}" for n in _children(found))
    lines = [f"top-down, of all slots ({found.source}): {first}"]
    lines += [f"top-down, level 2: {second}"] if second else []
    return [*lines, *(f"top-down: {note}" for note in found.notes)]


def untold(counters: Counters | None) -> str | None:
    """Return what has no shares though others have, or that none has, and why; None of all else."""
    if counters is None:
        return None
    why = counters.no_topdown
    if counters.whole:
        return f"not of each phase: {why}" if why else None
    if any(found.topdown for found in counters.phases):
        return f"none of the whole step: {why or NOTHING}"
    return f"none: {why}" if why else None


def topdown_rows(found: TopDown) -> Iterator[tuple[str, str, str]]:
    """Yield level 1's name, level 2's name and the share; level 1's own row has no second name."""
    for parent, children in LEVELS.items():
        yield node_name(parent), "", f"{found.shares[parent]:.1%}"
        for child in children:
            if child in found.shares:
                yield node_name(parent), node_name(child), f"{found.shares[child]:.1%}"


def _children(found: TopDown) -> Iterator[str]:
    yield from (n for children in LEVELS.values() for n in children if n in found.shares)


def node_name(node: str) -> str:
    """Return a node's name for people."""
    return node.replace("_", " ")
