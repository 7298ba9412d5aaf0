"""Reading YAML and JSON of a user, a device or a worker; limits are checked before parsing.

Errors never repeat the whole input, which may be as large as a file can be. Call `checked_json`
before pydantic parses JSON itself (`model_validate_json`).
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter

MAX_BYTES = 2**20
"""Largest size of a file that a person writes, in bytes."""
MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Values in a YAML document; the target of an alias counts at each use."""
MAX_DIGITS = 1000
"""Digits of a number: the largest float has 309, and Python prints 4300."""
SHOWN = 60
"""Characters of a text that an error repeats."""

_BRIEF = reprlib.Repr()
_BRIEF.maxlevel = 2
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+("|\Z)', re.DOTALL)
_NUMBER = re.compile(rb"[\d.]{%d}" % (MAX_DIGITS + 1))
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+\Z", re.ASCII)
_MERGE = "tag:yaml.org,2002:merge"
_UNFIT = (LookupError, AttributeError, TypeError, ArithmeticError)
"""What PyYAML's constructors raise for a value that its tag doesn't allow, beside ValueError."""
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ODD = re.compile(r"\t|.\ufeff|(?:^\ufeff?|[\s,\[{:-])!|[|>][^\s#]{0,2}#", re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


Read = TypeVar("Read")


class DocumentRefused(ValueError):
    """A document that is malformed or beyond the limits; the message is one line."""


def short(word: object) -> str:
    """Return a document's value, quoted and shortened without reading all of it."""
    text = word if isinstance(word, str) else _BRIEF.repr(word)
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def shown(value: object) -> str:
    """Return a value as a user would write it in YAML, shortened; only texts are quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return short(value)
    return short(value if isinstance(value, int | float | list | dict) else str(value))[1:-1]


def shown_json(value: object, most: int) -> str:
    """Return the first characters of a value's JSON without encoding all of it."""
    text = ""
    for part in json.JSONEncoder().iterencode(value):
        text += part[:most]
        if len(text) >= most:
            break
    return text[:most]


def read_limited(path: Path, most: int = MAX_BYTES) -> bytes:
    """Return a file's content; raises OSError, and DocumentRefused if it is larger than `most`
    bytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    _require_size(content, most)
    return content


def load_json(raw: bytes | str, most: int = MAX_BYTES) -> Any:  # noqa: ANN401 - any JSON
    """Parse a JSON document of at most `most` bytes; raises DocumentRefused."""
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
    """Return the document if it is within the limits; raises DocumentRefused."""
    load_json(raw, most)
    return raw


def read_json(kind: type[Read] | TypeAdapter[Read], path: Path, most: int = MAX_BYTES) -> Read:
    """Read a contract from a JSON file; raises one of `unreadable.UNREADABLE`."""
    content = checked_json(read_limited(path, most).decode(), most)
    adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
    return adapter.validate_json(content)


class JsonGuard:
    """A streaming check of JSON for too deep nesting, too long numbers and too large records."""

    def __init__(self, most_a_record: int | None = None, records_at: int = 0) -> None:
        """most_a_record: most bytes of a record; records_at: nesting depth of the records."""
        self._most, self._records_at = most_a_record, records_at
        self._depth = self._since = 0
        self._in_string = False
        self._before = b""

    def feed(self, piece: bytes) -> None:
        """Check the next piece, which must not end in a backslash; raises DocumentRefused."""
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
        # A backslash outside a string is not JSON; the parser of this piece refuses it.
        escaped = piece.replace(b"\\\\", b"").count(b'\\"')
        self._in_string = (piece.count(b'"') - escaped) % 2 == 1
        return _STRING.sub(b"", piece)


def load_yaml(raw: bytes | str, most: int = MAX_BYTES) -> Any:  # noqa: ANN401 - any YAML
    """Parse a YAML document of at most `most` bytes.

    Raises yaml.YAMLError, UnicodeDecodeError and DocumentRefused.
    """
    _require_size(raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw, most)
    text = raw.decode() if isinstance(raw, bytes) else raw
    try:
        if yaml.__with_libyaml__ and not _is_odd(text):
            with suppress(yaml.YAMLError):  # then PyYAML's own parser says better what is wrong
                return yaml.load(text, Loader=_FastLoader)
        return yaml.load(text, Loader=_Loader)
    except (DocumentRefused, UnicodeDecodeError):
        raise
    # PyYAML lets Python's own errors through: of a date that doesn't exist, or of an escape that is
    # no character.
    except (ValueError, *_UNFIT) as error:
        raise DocumentRefused(f"not YAML: {str(error)[:200]}") from error


def _is_odd(text: str) -> bool:
    """Return whether libyaml may read a text otherwise than PyYAML's own parser.

    Only that one is on every machine. They differ in tabs, byte order marks inside a text, tags
    without a name, comments behind `|` and `>`, and question marks inside brackets.
    """
    _, _, after = min(text.partition("["), text.partition("{"), key=lambda parts: len(parts[0]))
    return "?" in after or _ODD.search(text) is not None


class _Loader(yaml.SafeLoader):
    """A SafeLoader with limits; a key given twice is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._values = 0
        self._weights: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        """Count the values of a node, aliases included, before it is constructed."""
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
        """Raise DocumentRefused for a duplicate key; called before merge keys add to the node."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                merges = key_node.tag == _MERGE
                key = key_node.value if merges else self.construct_object(key_node, deep=True)
                if key in seen:
                    said = short(key) if isinstance(key, str) else str(key)
                    raise _refusal(f"key {said} is given twice", key_node.start_mark)
                seen.add(key)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401
        """Construct the value of a node; raises DocumentRefused if its tag doesn't allow it."""
        try:
            return super().construct_object(node, deep)
        except _UNFIT as error:
            kind = node.tag.rpartition(":")[2]
            raise _refusal(f"a value is not a valid {kind}", node.start_mark) from error

    def construct_text(self, node: yaml.ScalarNode) -> str:
        """Construct a text; two escapes that are a surrogate pair are a character, as in JSON."""
        text = str(self.construct_scalar(node))
        return _PAIR.sub(_joined, text)

    def construct_number(self, node: yaml.ScalarNode) -> float | str:
        """Construct a number, unless it has too many digits; a text if it is beyond floats."""
        if len(node.value) > MAX_DIGITS:
            raise _refusal(f"a number has more than {MAX_DIGITS} digits", node.start_mark)
        is_int = node.tag.endswith(":int")
        number: float = (self.construct_yaml_int if is_int else self.construct_yaml_float)(node)
        if not is_int and math.isinf(number) and _EXPONENT.match(node.value):
            return str(node.value)  # such as a commit's hash
        return number


class _FastLoader(_Loader):
    """The same on the events of libyaml's parser, which takes a fraction of the time."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        parser = yaml.CSafeLoader(text)
        self.check_event = parser.check_event  # type: ignore[method-assign]
        self.peek_event = parser.peek_event  # type: ignore[method-assign]
        self.get_event = parser.get_event  # type: ignore[method-assign]


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.construct_text)
# In YAML 1.1, which PyYAML follows, 1e-05 is a text. In YAML 1.2 it is a number, and Python prints
# one so.
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


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
