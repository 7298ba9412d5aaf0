"""Parsing of sweep files. Pure; every error names the source, the key and what to do."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from controller.contracts.base import Contract
from controller.contracts.documents import MAX_BYTES, DocumentRefused, load_yaml, shown
from controller.contracts.errors import SweepInvalid
from controller.contracts.spelling import did_you_mean
from controller.contracts.sweep import PairedComparison, Side, Sweep
from controller.contracts.unreadable import LONGEST, UNREADABLE, reason
from controller.contracts.wording import Fault, faults_of

_NUMBERS: Final = {"integer": "a whole number", "number": "a number"}
_LIMITS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
_EXAMPLE = "A sweep needs at least name, workload, stack and scenario."


def parse_sweep(raw: bytes, source: str) -> Sweep:
    """Parse a sweep file; raises SweepInvalid."""
    document = _document(raw, source)
    try:
        return Sweep.model_validate(document)
    except ValidationError as error:
        faults = faults_of(error)
        # A mistyped key first: it may be the one that is missing.
        first = next((fault for fault in faults if fault.kind == "extra_forbidden"), faults[0])
        raise _complaint(first, document, source) from error


def _document(raw: bytes, source: str) -> dict[object, object]:
    tried = f"read {source}"
    if len(raw) > MAX_BYTES:
        size = f"it has more than {MAX_BYTES} bytes"
        raise SweepInvalid(tried, size, "Split it into several.")
    try:
        document = load_yaml(raw)
    except DocumentRefused as error:
        raise SweepInvalid(tried, str(error), "Correct the file there.") from error
    except UNREADABLE as error:
        raise SweepInvalid(tried, reason(error), "Give a YAML text file.") from error
    if document is None:
        raise SweepInvalid(tried, "the file is empty", _EXAMPLE)
    if not isinstance(document, dict):
        seen = f"it holds a {type(document).__name__}, not a mapping"
        raise SweepInvalid(tried, seen, _EXAMPLE)
    return document


def _complaint(fault: Fault, document: dict[object, object], source: str) -> SweepInvalid:
    place = fault.place
    if place[1:] == (0,) and not isinstance(document.get(place[0]), list):
        place = place[:1]  # a scalar stands for a list of one
    key = ".".join(map(str, place))[:LONGEST] or "the whole file"
    tried = f"read {source}"
    if fault.kind == "extra_forbidden":
        return SweepInvalid(tried, f"key {key}: {fault.said}", _known(place))
    if fault.kind == "missing":
        remedy = (
            _EXAMPLE if len(place) == 1 else f"Write it below {'.'.join(map(str, place[:-1]))}."
        )
        return SweepInvalid(tried, f"key {key}: {fault.said}", remedy)
    seen = f"key {key}: {shown(fault.seen)} is not allowed"
    return SweepInvalid(tried, seen, f"{_range(place) or fault.remedy}.")


def _known(place: tuple[int | str, ...]) -> str:
    """Return the keys that there are where an unknown one was found."""
    names = keys_of(_kind_at(place))
    return f"{did_you_mean(str(place[-1]), names)}Known: {', '.join(names)}."


def keys_of(kind: type[Contract]) -> list[str]:
    """Return the keys that a mapping of a sweep file may have."""
    return [field.alias or name for name, field in kind.model_fields.items()]


def _kind_at(place: tuple[int | str, ...]) -> type[Contract]:
    if place[0] != "paired":
        return Sweep
    return PairedComparison if len(place) == 2 else Side


def _range(place: tuple[int | str, ...]) -> str:
    """Return what to give for a key that is one number: its kind, unit and limits."""
    key = str(place[-1])
    known = _kind_at(place).model_json_schema()["properties"].get(key, {})
    others = known.get("anyOf", [])
    words = "".join(f"{word}, " for one in others for word in one.get("enum", ()))
    known = next((one for one in others if one.get("type") in _NUMBERS), known)
    if known.get("type") not in _NUMBERS:
        return ""
    unit = " of seconds" if key.endswith("_s") else ""
    said = (f"{words} {known[limit]:g}" for limit, words in _LIMITS.items() if limit in known)
    return (
        f"Give {words}{'or ' if words else ''}{_NUMBERS[known['type']]}{unit}, {' and '.join(said)}"
    )
