"""Text → Sweep. Pure; every complaint names the source, the key and the remedy."""

from __future__ import annotations

import difflib

from pydantic import ValidationError

from controller.contracts.documents import MAX_BYTES, DocumentRefused, load_yaml, short
from controller.contracts.errors import SweepInvalid
from controller.contracts.sweep import Sweep
from controller.contracts.unreadable import LONGEST, UNREADABLE, reason

_EXAMPLE = "a sweep needs at least name, workload, stack and scenario"


def parse_sweep(raw: bytes, source: str) -> Sweep:
    """Return the sweep a file holds; raises SweepInvalid."""
    document = _document(raw, source)
    try:
        return Sweep.model_validate(document)
    except ValidationError as error:
        raise _complaint(error, source) from error


def _document(raw: bytes, source: str) -> dict[object, object]:
    if len(raw) > MAX_BYTES:
        raise SweepInvalid(source, f"it has {len(raw)} bytes", f"a sweep has at most {MAX_BYTES}")
    try:
        document = load_yaml(raw)
    except DocumentRefused as error:
        raise SweepInvalid(source, str(error), "correct the file there") from error
    except UNREADABLE as error:
        raise SweepInvalid(source, reason(error), "give a YAML text file") from error
    if document is None:
        raise SweepInvalid(source, "the file is empty", _EXAMPLE)
    if not isinstance(document, dict):
        raise SweepInvalid(source, f"it holds a {type(document).__name__}, no mapping", _EXAMPLE)
    return document


def _complaint(error: ValidationError, source: str) -> SweepInvalid:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])[:LONGEST] or "the whole file"
    known = ", ".join(Sweep.model_fields)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, Sweep.model_fields, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return SweepInvalid(f"{source}: key {key}", "there is no such key", f"{hint}keys: {known}")
    if first["type"] == "missing":
        return SweepInvalid(f"{source}: key {key}", "it is missing", _EXAMPLE)
    seen = f"{short(first['input'])} is not allowed"
    return SweepInvalid(f"{source}: key {key}", seen, first["msg"])
