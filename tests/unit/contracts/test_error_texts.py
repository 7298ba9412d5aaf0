"""Every error text has one form: cannot DO THIS: WHY. What to do.

`pytest -k error_texts -s` prints all of them as a table; {…} is what is known at run time only.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.contracts.errors import UserError

ROOT = Path(__file__).parents[3]
FOLDERS = ("controller", "agents", "models", "kernels")
PART = "{…}"
"""What a text takes from its arguments."""
NOUNS = frozenset(
    {"option", "argument", "key", "device", "sweep", "workload", "stack", "benchmark"}
)
"""First words that say what an error is about, and not what could not be done."""
ENDS = (".", "?", "`", PART)


@dataclass(frozen=True, slots=True)
class Text:
    """One place that makes an error, and its words."""

    place: str
    kind: str
    tried: str
    seen: str
    remedy: str

    def objections(self) -> Iterator[str]:
        """Yield what is not of the form."""
        first = self.tried.split()[0] if self.tried.split() else ""
        if first.endswith("ing") or first in NOUNS:
            yield f"it begins with {first!r}: say what could not be done, as in 'cannot read FILE'"
        if re.search(r"[.;!]$", self.seen):
            yield "the reason ends with a full stop, which is added"
        if self.remedy[:1].islower():
            yield f"the remedy begins with a small letter: {self.remedy!r}"
        if self.remedy and not self.remedy.endswith(ENDS):
            yield f"the remedy is no whole sentence: {self.remedy!r}"


def kinds(parsed: Iterable[tuple[Path, ast.Module]]) -> frozenset[str]:
    """Return the names of UserError and all that is derived from it, by the sources' classes."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for _, tree in parsed
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {UserError.__name__}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return frozenset(found)


def sources() -> list[tuple[Path, ast.Module]]:
    """Return every module of ours, parsed: millions of objects, which nobody may keep.

    None of them is garbage: looking for it meanwhile takes as long again.
    """
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    gc.disable()
    try:
        return [(path, ast.parse(path.read_text())) for path in paths]
    finally:
        gc.enable()


def texts() -> list[Text]:
    """Return every error that is made from three texts, in the order of files."""
    parsed, found = sources(), []
    known = kinds(parsed)
    for path, tree in parsed:
        constants = assigned(tree.body)
        for scope in (tree, *functions(tree)):
            nodes = own(scope)
            names = {**constants, **assigned(nodes)}
            for node in nodes:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    words = arguments(node)
                    if node.func.id in known and len(words) == 3:
                        place = f"{path.relative_to(ROOT)}:{node.lineno}"
                        said = [literal(word, names) for word in words]
                        found.append(Text(place, node.func.id, *said))
    return found


def functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every function of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def own(scope: ast.AST) -> list[ast.AST]:
    """Return the nodes of a scope, without those of functions in it."""
    found: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)
    return found


def arguments(call: ast.Call) -> list[ast.expr]:
    """Return the words of an error: its arguments, in the order of its fields."""
    named = {word.arg: word.value for word in call.keywords}
    if set(named) - {"tried", "seen", "remedy"} or any(
        isinstance(a, ast.Starred) for a in call.args
    ):
        return []
    return [*call.args, *(named[name] for name in ("tried", "seen", "remedy") if name in named)]


def assigned(body: list[ast.stmt] | list[ast.AST]) -> dict[str, ast.expr]:
    """Return the names that are given one text in a scope."""
    found: dict[str, ast.expr] = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                found[target.id] = node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
                found |= {name.id: text for name, text in pairs if isinstance(name, ast.Name)}
    return found


def literal(word: ast.expr, names: Mapping[str, ast.expr], depth: int = 3) -> str:
    """Return a text as far as the source tells it."""
    if isinstance(word, ast.Constant) and isinstance(word.value, str):
        return word.value
    if isinstance(word, ast.JoinedStr):
        return "".join(literal(value, {}, depth) for value in word.values)
    if isinstance(word, ast.BinOp) and isinstance(word.op, ast.Add):
        return literal(word.left, names, depth) + literal(word.right, names, depth)
    if isinstance(word, ast.Name) and word.id in names and depth:
        return literal(names[word.id], names, depth - 1)
    return PART


def test_error_texts_have_one_form() -> None:
    found = texts()
    assert len(found) > 200
    for text in found:
        print(f"{text.place}: cannot {text.tried}: {text.seen}. {text.remedy}")  # noqa: T201
    said = [f"{text.place}: {why}" for text in found for why in text.objections()]
    assert said == []


@pytest.mark.parametrize(
    ("tried", "seen", "remedy", "count"),
    [
        ("read FILE", "it is not text", "Save it as UTF-8.", 0),
        ("reading FILE", "it is not text", "Save it as UTF-8.", 1),
        ("option --for", "it is not text", "Save it as UTF-8.", 1),
        ("read FILE", "it is not text.", "Save it as UTF-8.", 1),
        ("read FILE", "it is not text", "save it as UTF-8", 2),
        (PART, PART, PART, 0),
    ],
)
def test_what_is_not_of_the_form_is_named(tried: str, seen: str, remedy: str, count: int) -> None:
    assert len(list(Text("here", "UserError", tried, seen, remedy).objections())) == count


def test_an_error_says_what_failed_why_and_what_to_do() -> None:
    error = UserError("read s.yaml", 'line 3: key "name" appears twice', "Remove one.")
    assert str(error) == 'cannot read s.yaml: line 3: key "name" appears twice. Remove one.'
