"""YAML and JSON of a user, a device or a worker; limits are checked before anything is built.

An error never repeats the whole input, which may be as large as a file can be. What a contract
reads by itself (`model_validate_json`) is checked by `checked_json` first.
"""

from __future__ import annotations

import json
import re
import reprlib
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter

MAX_BYTES = 2**20
"""Of what a person writes."""
MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Of a YAML document; the target of an alias counts each time."""
MAX_DIGITS = 1000
"""Of a number: the largest float has 309, and Python prints 4300."""
SHOWN = 60
"""Most characters of a text that an error repeats."""

_BRIEF = reprlib.Repr()
_BRIEF.maxlevel = 2
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+("|\Z)', re.DOTALL)
_NUMBER = re.compile(rb"[\d.]{%d}" % (MAX_DIGITS + 1))
_MERGE = "tag:yaml.org,2002:merge"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


Read = TypeVar("Read")


class DocumentRefused(ValueError):
    """A document that is malformed or beyond the limits; its text is one line."""


def short(word: object) -> str:
    """Return a document's value, quoted and shortened; the rest of it is not read."""
    text = word if isinstance(word, str) else _BRIEF.repr(word)
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def shown_json(value: object, most: int) -> str:
    """Return the beginning of a value's JSON; no more of it is made."""
    text = ""
    for part in json.JSONEncoder().iterencode(value):
        text += part[:most]
        if len(text) >= most:
            break
    return text[:most]


def read_limited(path: Path, most: int = MAX_BYTES) -> bytes:
    """Return a file's content; raises OSError, and DocumentRefused if it has more."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    _require_size(content, most)
    return content


def load_json(raw: bytes | str, most: int = MAX_BYTES) -> Any:  # noqa: ANN401 - any JSON
    """Parse a JSON document; raises DocumentRefused. most: its largest size in bytes."""
    content = raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw
    _require_size(content, most)
    JsonGuard().feed(content)
    try:
        return json.loads(content, object_pairs_hook=_unique)
    except DocumentRefused:
        raise
    except ValueError as error:
        raise DocumentRefused(f"it is not JSON: {error}") from error


def checked_json(raw: bytes | str, most: int = MAX_BYTES) -> bytes | str:
    """Return a JSON document that a contract can read; raises DocumentRefused."""
    load_json(raw, most)
    return raw


def read_json(kind: type[Read] | TypeAdapter[Read], path: Path, most: int = MAX_BYTES) -> Read:
    """Return a contract read from a JSON file; raises one of `unreadable.UNREADABLE`."""
    content = checked_json(read_limited(path, most).decode(), most)
    adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
    return adapter.validate_json(content)


class JsonGuard:
    """A check of JSON, cut into any pieces, for nesting, numbers and records beyond the limits."""

    def __init__(self, most_a_record: int | None = None, records_at: int = 0) -> None:
        """most_a_record: bytes between two places that are `records_at` deep."""
        self._most, self._records_at = most_a_record, records_at
        self._depth = self._since = 0
        self._in_string = False
        self._before = b""

    def feed(self, piece: bytes) -> None:
        """Look at the next piece, which doesn't end in a backslash; raises DocumentRefused."""
        outside = self._outside_strings(piece)
        self._before += outside
        if _NUMBER.search(self._before):
            raise DocumentRefused(f"a number has more than {MAX_DIGITS} digits")
        self._before = self._before[-MAX_DIGITS:]
        steps = map(_STEPS.__getitem__, outside.translate(None, _NO_BRACKETS))
        depths = list(accumulate(steps, initial=self._depth))
        if max(depths) > MAX_DEPTH:
            raise DocumentRefused(f"it is nested too deeply, beyond {MAX_DEPTH} levels")
        self._depth = depths[-1]
        self._since = 0 if min(depths) <= self._records_at else self._since + len(piece)
        if self._most is not None and self._since > self._most:
            raise DocumentRefused(f"one of its values has more than {self._most} bytes")

    def _outside_strings(self, piece: bytes) -> bytes:
        start = 0
        if self._in_string and (rest := _REST_OF_STRING.match(piece)):
            if not rest[1]:
                return b""
            start = rest.end()
        piece = piece[start:]
        # A backslash outside a string is not JSON: whoever reads this piece next refuses it.
        escaped = piece.replace(b"\\\\", b"").count(b'\\"')
        self._in_string = (piece.count(b'"') - escaped) % 2 == 1
        return _STRING.sub(b"", piece)


def load_yaml(raw: bytes | str, most: int = MAX_BYTES) -> Any:  # noqa: ANN401 - any YAML
    """Parse a YAML document; raises yaml.YAMLError, UnicodeDecodeError and DocumentRefused.

    most: its largest size in bytes.
    """
    _require_size(raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw, most)
    text = raw.decode() if isinstance(raw, bytes) else raw
    try:
        return yaml.load(text, Loader=_Loader)
    except (DocumentRefused, UnicodeDecodeError):
        raise
    except ValueError as error:  # a date that there is not, say
        raise DocumentRefused(f"not YAML: {str(error)[:200]}") from error


class _Loader(yaml.SafeLoader):
    """A SafeLoader with limits; a key given twice is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._values = 0
        self._weights: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        """Count what each value stands for, before it is made."""
        is_alias = self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        before, self._depth = self._values, self._depth + 1
        if self._depth > MAX_DEPTH:
            raise _refusal(f"it is nested too deeply, beyond {MAX_DEPTH} levels", mark)
        self._count(1, mark)
        node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[arg-type]
        if is_alias:
            if id(node) not in self._weights:
                raise _refusal("an alias refers to a value that contains it", mark)
            self._count(self._weights[id(node)], mark)
        else:
            self._weights[id(node)] = self._values - before
            if isinstance(node, yaml.MappingNode):
                self._require_unique_keys(node)
        self._depth -= 1
        return node

    def _count(self, more: int, mark: yaml.Mark) -> None:
        self._values += more
        if self._values > MAX_VALUES:
            raise _refusal(f"it has more than {MAX_VALUES} values", mark)

    def _require_unique_keys(self, node: yaml.MappingNode) -> None:
        """Raise DocumentRefused for a key given twice; before merging, which adds keys to it."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                merges = key_node.tag == _MERGE
                key = key_node.value if merges else self.construct_object(key_node, deep=True)
                if key in seen:
                    said = short(key) if isinstance(key, str) else str(key)
                    raise _refusal(f"key {said} is given twice", key_node.start_mark)
                seen.add(key)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        """Make a number of one that isn't too long."""
        if len(node.value) > MAX_DIGITS:
            raise _refusal(f"a number has more than {MAX_DIGITS} digits", node.start_mark)
        is_int = node.tag.endswith(":int")
        number: float = (self.construct_yaml_int if is_int else self.construct_yaml_float)(node)
        return number


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_number)


def _refusal(problem: str, mark: yaml.Mark) -> DocumentRefused:
    return DocumentRefused(f"line {mark.line + 1}, column {mark.column + 1}: {problem}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DocumentRefused(f"key {short(key)} is given twice")
            seen.add(key)
    return found


def _require_size(content: bytes, most: int) -> None:
    if len(content) > most:
        raise DocumentRefused(f"it has more than {most} bytes")
