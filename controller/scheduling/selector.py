"""Device selectors: `kind == "cpu_host" and cores >= 32 and isa has amx_bf16`, or `any`.

A name is a field of the device (`device`, `kind`, `virtual`), else a label, else a hardware fact.
If a selector doesn't match, the objection names the clause and the device's value.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import LarkError, UnexpectedToken
from lark.tree import Meta

from controller.contracts.base import Scalar
from controller.contracts.device import Device, Fact
from controller.contracts.errors import SelectorInvalid

_GRAMMAR = r"""
?start: either
?either: both ("or" both)*
?both: negated ("and" negated)*
?negated: "not" negated -> negation | "(" either ")" | clause
?clause: "any" -> everything
       | NAME OPERATOR value -> comparison
       | NAME "has" value -> membership
OPERATOR: "==" | "!=" | ">=" | "<=" | ">" | "<"
?value: ESCAPED_STRING -> text | SIGNED_NUMBER -> number
      | "true" -> true | "false" -> false | NAME -> word
NAME: /(?!(and|or|not|has|any|true|false)(?![A-Za-z0-9_.-]))[A-Za-z_][A-Za-z0-9_.-]*/
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
"""

MAX_DEPTH = 50
"""Deepest nesting of clauses."""
MAX_CLAUSES = 64
"""Most clauses of a selector; all are evaluated for every device."""
MAX_SHOWN = 200
"""Characters of a selector that an error repeats."""

_EXAMPLE = 'Write clauses such as kind == "cpu_host" and cores >= 8, or write any.'
_CLAUSES = ("comparison", "membership", "everything")

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Selector(Protocol):
    """A parsed selector."""

    def objection(self, device: Device) -> str | None:
        """Return what excludes the device, or None if it matches; called at each placement."""
        ...


@dataclass(frozen=True, slots=True)
class _Everything:
    def objection(self, device: Device) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A clause such as `cores >= 8`."""

    name: str
    operator: str
    value: Scalar

    def __str__(self) -> str:
        return f"{self.name} {self.operator} {shown(self.value)}"

    def objection(self, device: Device) -> str | None:
        """See Selector."""
        seen = device.attribute(self.name)
        if seen is None:
            return f"{self} (it has no {self.name})"
        if isinstance(seen, tuple):
            return f"{self} (it has several, to be asked by `has`: {shown(seen)})"
        if _comparable(seen, self.value):
            if _OPERATORS[self.operator](seen, self.value):
                return None
        elif self.operator == "!=":
            return None
        return f"{self} (it has {shown(seen)})"


@dataclass(frozen=True, slots=True)
class Membership:
    """A clause such as `isa has amx_bf16`."""

    name: str
    value: Scalar

    def __str__(self) -> str:
        return f"{self.name} has {shown(self.value)}"

    def objection(self, device: Device) -> str | None:
        """See Selector."""
        seen = device.attribute(self.name)
        if isinstance(seen, tuple) and self.value in seen:
            return None
        return f"{self} (it has {shown(seen)})"


@dataclass(frozen=True, slots=True)
class _Both:
    parts: tuple[Selector, ...]

    def objection(self, device: Device) -> str | None:
        objections = [o for part in self.parts if (o := part.objection(device))]
        return ", ".join(objections) or None


@dataclass(frozen=True, slots=True)
class _Either:
    parts: tuple[Selector, ...]

    def objection(self, device: Device) -> str | None:
        objections = [part.objection(device) for part in self.parts]
        return None if None in objections else " and ".join(filter(None, objections))


@dataclass(frozen=True, slots=True)
class _Negation:
    part: Selector
    text: str

    def objection(self, device: Device) -> str | None:
        return None if self.part.objection(device) else self.text


class _Build(Transformer[Token, Selector]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def everything(self, _: list[object]) -> Selector:
        return _Everything()

    def comparison(self, items: list[Token | Scalar]) -> Selector:
        name, symbol, value = items
        return Comparison(str(name), str(symbol), value)

    def membership(self, items: list[Token | Scalar]) -> Selector:
        return Membership(str(items[0]), items[1])

    def both(self, parts: list[Selector]) -> Selector:
        return _Both(tuple(parts))

    def either(self, parts: list[Selector]) -> Selector:
        return _Either(tuple(parts))

    @v_args(meta=True)
    def negation(self, meta: Meta, parts: list[Selector]) -> Selector:
        return _Negation(parts[0], self._text[meta.start_pos : meta.end_pos])

    def text(self, items: list[Token]) -> Scalar:
        return str(items[0][1:-1]).replace('\\"', '"').replace("\\\\", "\\")

    def word(self, items: list[Token]) -> Scalar:
        return str(items[0])

    def number(self, items: list[Token]) -> Scalar:
        return float(items[0])

    def true(self, _: list[object]) -> Scalar:
        return True

    def false(self, _: list[object]) -> Scalar:
        return False


def _comparable(seen: Fact, value: Scalar) -> bool:
    numbers = isinstance(seen, int | float) and isinstance(value, int | float)
    same = isinstance(seen, bool) == isinstance(value, bool) and numbers
    texts = isinstance(seen, str) and isinstance(value, str)
    return same or texts


def shown(value: Fact | None) -> str:
    """Return a value as a selector has it."""
    if isinstance(value, tuple):
        return " ".join(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "nothing" if value is None else str(value).lower()


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", propagate_positions=True)


@lru_cache(maxsize=4096)
def parse_selector(text: str) -> Selector:
    """Parse a selector; raises SelectorInvalid with the place of the error."""
    try:
        tree = _parser().parse(text)
    except LarkError as error:
        raise _invalid(text, _complaint(error)) from error
    if _depth(tree) > MAX_DEPTH:
        raise _invalid(text, f"its clauses nest more than {MAX_DEPTH} deep")
    clauses = sum(part.data in _CLAUSES for part in tree.iter_subtrees())
    if clauses > MAX_CLAUSES:
        raise _invalid(
            text,
            f"it has {clauses} clauses; the limit is {MAX_CLAUSES}",
            "Label the devices, and select by the label.",
        )
    return _Build(text).transform(tree)


def clauses_of(text: str) -> list[Comparison | Membership]:
    """Return a selector's clauses but `any`, in order; raises SelectorInvalid."""
    parse_selector(text)
    found = _parser().parse(text).find_pred(lambda part: part.data in ("comparison", "membership"))
    build = _Build(text)
    clauses = [build.transform(part) for part in sorted(found, key=lambda p: p.meta.start_pos)]
    return [clause for clause in clauses if isinstance(clause, Comparison | Membership)]


def device_named(text: str) -> str | None:
    """Return the id of the device that a selector names and nothing else; None if it asks more."""
    found = parse_selector(text)
    if not isinstance(found, Comparison) or (found.name, found.operator) != ("device", "=="):
        return None
    return str(found.value)


def _invalid(text: str, seen: str, remedy: str = _EXAMPLE) -> SelectorInvalid:
    return SelectorInvalid(
        f"read device selector {text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '…'!r}",
        seen,
        remedy,
    )


def _complaint(error: LarkError) -> str:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return "it ends too early"
    return f"syntax error at column {getattr(error, 'column', 1)}"


def _depth(tree: Tree[Token]) -> int:
    """Return the nesting depth of a tree, without recursion."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for parent in level for child in parent.children if isinstance(child, Tree)]
    return depth
