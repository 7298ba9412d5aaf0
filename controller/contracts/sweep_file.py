"""Text → Sweep. Pure; every complaint names the source, the key and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Hashable
from typing import Any

import yaml
from pydantic import ValidationError

from controller.contracts.errors import SweepInvalid
from controller.contracts.sweep import Sweep
from controller.contracts.unreadable import UNREADABLE, reason

MAX_BYTES = 2**20
_EXAMPLE = "a sweep needs at least name, workload, stack and scenario"


class _StrictLoader(yaml.SafeLoader):
    """Like SafeLoader, but a key given twice is an error, not the last one's win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_printable_int(self, node: yaml.ScalarNode) -> int:
        """Raise ValueError for one too long to be said back, which as hexadecimal can be read."""
        number: int = self.construct_yaml_int(node)
        str(number)
        return number


_StrictLoader.add_constructor("tag:yaml.org,2002:int", _StrictLoader.construct_printable_int)


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
        document = yaml.load(raw.decode(), Loader=_StrictLoader)
    except UNREADABLE as error:
        raise SweepInvalid(source, reason(error), "give a YAML text file") from error
    except ValueError as error:  # a date that there is not, say
        raise SweepInvalid(source, f"not YAML: {error}", "mend the file there") from error
    if document is None:
        raise SweepInvalid(source, "the file is empty", _EXAMPLE)
    if not isinstance(document, dict):
        raise SweepInvalid(source, f"it holds a {type(document).__name__}, no mapping", _EXAMPLE)
    return document


def _complaint(error: ValidationError, source: str) -> SweepInvalid:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "the whole file"
    known = ", ".join(Sweep.model_fields)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, Sweep.model_fields, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return SweepInvalid(f"{source}: key {key}", "there is no such key", f"{hint}keys: {known}")
    if first["type"] == "missing":
        return SweepInvalid(f"{source}: key {key}", "it is missing", _EXAMPLE)
    seen = f"{str(first['input'])[:60]!r} is not allowed"
    return SweepInvalid(f"{source}: key {key}", seen, first["msg"])
