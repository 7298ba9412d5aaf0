"""Clauses of selectors that no known device matches, such as a misspelt one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from controller.contracts.device import FIELDS, Device, DeviceKind, Fact
from controller.contracts.facts import identity_facts
from controller.contracts.spelling import did_you_mean
from controller.scheduling.selector import MAX_SHOWN, Comparison, Membership, clauses_of, shown

NAMED = 8
"""So many of the values that devices have are named."""

Clause = Comparison | Membership


def unmatched_clauses(selectors: Iterable[str], devices: Sequence[Device]) -> list[str]:
    """Return a sentence or two about each clause that none of the devices matches.

    devices: all that are known. Without any, only misspelt names and kinds are found.
    """
    clauses = dict.fromkeys(clause for text in selectors for clause in clauses_of(text))
    found = (_about(clause, devices) for clause in clauses)
    return [line.strip() for line in found if line]


def _about(clause: Clause, devices: Sequence[Device]) -> str | None:
    if not devices:
        return _without_devices(clause)
    if any(_asked(clause).objection(device) is None for device in devices):
        return None
    seen = [value for d in devices if (value := d.attribute(clause.name)) is not None]
    if not seen:
        names = {name for device in devices for name in (*device.labels, *device.facts)}
        names |= {*FIELDS, *identity_facts()}
        return f"no known device has {_cut(clause.name)}. {_hint(clause.name, names)}"
    words = f"no known device matches {_cut(str(clause))}. {_hint(clause.value, _texts(seen))}"
    if isinstance(clause, Comparison) and all(isinstance(value, tuple) for value in seen):
        return f"{words}Ask a list with `has`."
    values = sorted({shown(value) for value in seen})
    more = f" and {len(values) - NAMED} more" if len(values) > NAMED else ""
    return f"{words}Known: {', '.join(map(_cut, islice(values, NAMED)))}{more}."


def _without_devices(clause: Clause) -> str | None:
    name, kinds = clause.name, [*DeviceKind]
    if name == "kind" and clause.value not in kinds:
        said = f"{_hint(clause.value, kinds)}Known: {', '.join(kinds)}."
        return f"no device can match {_cut(str(clause))}. {said}"
    hint = _hint(name, {*FIELDS, *identity_facts()})
    return f"no fact of devices is called {_cut(name)}. {hint}" if hint else None


def _asked(clause: Clause) -> Clause:
    """Return the clause that a device with the value matches: what is excluded has to exist."""
    if isinstance(clause, Comparison) and clause.operator == "!=":
        return replace(clause, operator="==")
    return clause


def _texts(values: Iterable[Fact]) -> set[str]:
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return {str(text) for texts in each for text in texts if isinstance(text, str)}


def _hint(word: object, known: Iterable[str]) -> str:
    """Return `Did you mean WORD? ` unless the word is no text, known or near to none."""
    words = {*known}
    return did_you_mean(word, words) if isinstance(word, str) and word not in words else ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
