"""What pydantic finds wrong with a value, in words that a user can act on. Pure.

No message of pydantic's and no regular expression is shown: both are for who writes the contracts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from controller.contracts.documents import shown

_LETTERS, _CAPITALS = "lower-case letters, digits", "letters, digits"
PATTERNS: Final[Mapping[str, str]] = {
    r"^[a-z0-9][a-z0-9._-]{0,63}$": f"1 to 64 {_LETTERS}, `.`, `_` and `-`,"
    " the first a letter or a digit",
    r"^[a-z0-9][a-z0-9_-]{0,63}$": f"1 to 64 {_LETTERS}, `_` and `-`,"
    " the first a letter or a digit",
    r"^[a-z0-9][a-z0-9_]*$": f"{_LETTERS} and `_`, the first a letter or a digit",
    r"^[a-z][a-z0-9_]{0,31}$": f"1 to 32 {_LETTERS} and `_`, the first a letter",
    r"^[a-z0-9_]+$": f"{_LETTERS} and `_`",
    r"^[a-z0-9_.-]{1,64}$": f"1 to 64 {_LETTERS}, `_`, `.` and `-`",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": f"1 to 64 {_CAPITALS}, `.`, `_` and `-`,"
    " the first a letter or a digit",
    r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$": f"1 to 128 {_CAPITALS}, `.`, `_`, `:` and `-`,"
    " the first a letter or a digit",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$": f"1 to 255 {_CAPITALS}, `.`, `_` and `-`,"
    " the first a letter or a digit",
    r"^[0-9A-Fa-f.:]{2,45}$": "an IPv4 or IPv6 address",
    r"^[A-Za-z0-9._-]{1,64}$": f"1 to 64 {_CAPITALS}, `.`, `_` and `-`",
    r"^[A-Za-z0-9_.-]{1,64}$": f"1 to 64 {_CAPITALS}, `_`, `.` and `-`",
    r"^[A-Za-z0-9.+!_-]{1,64}$": f"1 to 64 {_CAPITALS}, `.`, `+`, `!`, `_` and `-`",
    r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$": f"1 to 100 {_CAPITALS}, `.`, `_` and `-`,"
    " the first not a dot",
    r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}$": f"1 to 100 {_CAPITALS}, `.`, `_`, `+` and `-`,"
    " the first a letter, a digit or `_`",
    r"^[A-Za-z_][A-Za-z0-9_]*$": f"{_CAPITALS} and `_`, the first not a digit",
    r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$": f"1 to 64 {_CAPITALS}, `_`, `.` and `-`,"
    " the first a letter or `_`",
    r"^[^\n|]{1,200}$": "one line of 1 to 200 characters without `|`",
    r"^[^\s|]{1,16}$": "1 to 16 characters without spaces and `|`",
    r"^[^\x00-\x1f\x7f]*$": "one line without control characters",
    r"^[!-~](?:[ -~]{0,198}[!-~])?$": "one line of 1 to 200 printable ASCII characters that"
    " neither begins nor ends with a space",
    r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$": "`sha256:` and 64 hex digits, or `md5:` and 32",
    r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$": "a host and a port, such as `10.0.0.5:9500`",
    r"^http://[^/:\s]+:[0-9]{1,5}$": "an address such as `http://127.0.0.1:9464`",
}
"""Texts that a pattern of a contract matches; a test requires that none is left out."""
_ALTERNATIVES: Final = re.compile(r"\^\(([\w/|]+)\)\$")
_BRANCH: Final = re.compile(r"bool|int|float|str|none|literal\[.*\]|(constrained|function)-.*")
"""Parts of a fault's place that pydantic adds for the branches of a union."""

NOUNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    "int_parsing_size": "a whole number of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("string_type", "string_unicode"), "a text"),
    "string_too_long": "a text of at most {max_length} characters",
    "string_too_short": "a text of at least {min_length} characters",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "union_tag_invalid": "one of {expected_tags}",
    "union_tag_not_found": "a mapping with the key {discriminator}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "none_required": "null",
    "bytes_type": "a text",
    "bytes_invalid_encoding": "a text in {encoding}",
    "set_item_not_hashable": "a list of single values",
    "invalid_key": "a mapping whose keys are texts",
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type"),
        "a mapping of keys to values",
    ),
    **dict.fromkeys(
        ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), "a list"
    ),
}
"""What a value of the wrong kind should have been."""
STATEMENTS: Final[Mapping[str, str]] = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such key",
    "json_invalid": "it is not JSON: {error}",
    "json_type": "it is not JSON",
    "value_error": "{error}",
    "assertion_error": "{error}",
    "recursion_loop": "it contains itself",
}
"""What is wrong where it is not a value's kind."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one value."""

    place: tuple[int | str, ...]
    """The keys that lead to it."""
    kind: str
    """pydantic's name of it."""
    seen: object
    """The value; of a missing one, what it is missing in."""
    expected: str
    """What it should be: "a number above 0"; empty if `said` tells."""
    said: str
    """What is wrong, as a sentence without its full stop."""

    @property
    def key(self) -> str:
        """The keys that lead to it: `paired.b.0`."""
        return ".".join(map(str, self.place))

    @property
    def remedy(self) -> str:
        """What to do, as a sentence without its full stop."""
        return (
            f"Give {self.expected}" if self.expected else f"{self.said[:1].upper()}{self.said[1:]}"
        )


def faults_of(error: ValidationError) -> list[Fault]:
    """Return what is wrong, in the order of pydantic; alternatives of one value are one fault."""
    places: dict[tuple[int | str, ...], list[Mapping[str, Any]]] = {}
    for details in error.errors(include_url=False):
        places.setdefault(tuple(_place(details["loc"])), []).append(details)
    return [_fault(place, found) for place, found in places.items()]


def complaint_about(error: BaseException) -> str:
    """Return what is wrong with a single value, with the value; empty for no ValidationError."""
    if not isinstance(error, ValidationError):
        return ""
    fault = faults_of(error)[0]
    return f"{shown(fault.seen)} is not {fault.expected}" if fault.expected else fault.said


def _place(loc: tuple[int | str, ...]) -> Iterator[int | str]:
    for part in loc:
        if not (isinstance(part, str) and (_BRANCH.fullmatch(part) or part == "[key]")):
            yield part


def _fault(place: tuple[int | str, ...], found: Sequence[Mapping[str, Any]]) -> Fault:
    first = found[0]
    nouns = list(dict.fromkeys(noun for details in found if (noun := _noun(details))))
    if "a number" in nouns and "a whole number" in nouns:
        nouns.remove("a whole number")
    expected = " or ".join(filter(None, (", ".join(nouns[:-1]), *nouns[-1:])))
    said = f"it is not {expected}" if expected else _statement(first)
    return Fault(place, first["type"], first["input"], expected, said)


def _noun(details: Mapping[str, Any]) -> str:
    context = details.get("ctx", {})
    if details["type"] == "string_pattern_mismatch":
        return _matching(str(context["pattern"]))
    if details["type"] == "string_too_short" and context["min_length"] == 1:
        return "a text that is not empty"
    if details["type"] == "too_short" and context["min_length"] == 1:
        return "at least one value"
    words = {name: _bare(value) for name, value in context.items()}
    return NOUNS.get(details["type"], "").format_map(words)


def _matching(pattern: str) -> str:
    if alternatives := _ALTERNATIVES.fullmatch(pattern):
        return f"one of {alternatives[1].replace('|', ', ')}"
    return PATTERNS.get(pattern, "a text of another form")


def _statement(details: Mapping[str, Any]) -> str:
    words = {name: str(value) for name, value in details.get("ctx", {}).items()}
    said = STATEMENTS.get(details["type"])
    return said.format_map(words) if said else str(details["msg"])


def _bare(value: object) -> str:
    """Return names as a user writes them; pydantic quotes each."""
    if isinstance(value, float):
        return f"{value:g}"
    return {"True": "true", "False": "false"}.get(str(value), str(value).replace("'", ""))
