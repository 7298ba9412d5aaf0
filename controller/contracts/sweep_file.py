"""Parsing of sweep files. Pure; every error names the source, the key and what to do."""

from __future__ import annotations

from pydantic import ValidationError

from controller.contracts.documents import MAX_BYTES, DocumentRefused, load_yaml, short
from controller.contracts.errors import SweepInvalid
from controller.contracts.spelling import did_you_mean
from controller.contracts.sweep import Sweep
from controller.contracts.unreadable import LONGEST, UNREADABLE, reason

_EXAMPLE = "A sweep needs at least name, workload, stack and scenario."


def parse_sweep(raw: bytes, source: str) -> Sweep:
    """Parse a sweep file; raises SweepInvalid."""
    document = _document(raw, source)
    try:
        return Sweep.model_validate(document)
    except ValidationError as error:
        raise _complaint(error, source) from error


def _document(raw: bytes, source: str) -> dict[object, object]:
    tried = f"read {source}"
    if len(raw) > MAX_BYTES:
        size = f"it has {len(raw)} bytes; the limit is {MAX_BYTES}"
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


def _complaint(error: ValidationError, source: str) -> SweepInvalid:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])[:LONGEST] or "the whole file"
    tried, known = f"read {source}", ", ".join(Sweep.model_fields)
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(key, Sweep.model_fields)
        return SweepInvalid(tried, f"key {key}: there is no such key", f"{hint}Known: {known}.")
    if first["type"] == "missing":
        return SweepInvalid(tried, f"key {key}: it is missing", _EXAMPLE)
    why = first["msg"].removeprefix("Value error, ")
    seen = f"key {key}: {short(first['input'])} is not allowed"
    return SweepInvalid(tried, seen, f"{why[:1].upper()}{why[1:]}.")
