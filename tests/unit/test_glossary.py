"""docs/glossary.md: one line a term, and no identifier by a word that a term has replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("controller", "agents", "kernels", "models")
CODE = re.compile(r"`([^`]+)`")


def rows() -> list[list[str]]:
    """Return the cells of the glossary's table, without its head."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def replaced() -> list[str]:
    """Return the identifiers and files that terms have replaced."""
    return [word for _, _, old in rows() for word in CODE.findall(old)]


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield what a module defines: classes, functions, fields, parameters, constants."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Module(body=body):
                yield from (
                    target.id
                    for assignment in body
                    if isinstance(assignment, ast.Assign)
                    for target in assignment.targets
                    if isinstance(target, ast.Name)
                )


def identifiers_in(package: str) -> dict[str, str]:
    """Return each identifier that a package's files define, and each file's name, with a place."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / package).rglob("*")):
        place = str(path.relative_to(ROOT))
        if path.suffix == ".py":
            found |= dict.fromkeys(defined(ast.parse(path.read_text())), place)
        elif path.suffix in (".h", ".cpp"):
            code = re.sub(r"//.*", "", path.read_text())
            found |= dict.fromkeys(re.findall(r"[A-Za-z_]\w*", code), place)
        found["/".join(path.parts[-2:])] = place
    return found


def test_a_term_has_one_line_which_says_what_it_means() -> None:
    terms = [term for term, _, _ in rows()]
    assert len(set(terms)) == len(terms) > 30
    assert terms == sorted(terms, key=str.casefold)
    assert all(meaning.endswith(".") for _, meaning, _ in rows())


def test_a_word_is_replaced_by_one_term() -> None:
    words = replaced()
    assert len(set(words)) == len(words) > 50


@pytest.mark.parametrize("package", PACKAGES)
def test_no_identifier_has_a_word_that_was_replaced(package: str) -> None:
    found = identifiers_in(package)
    assert len(found) > 50
    assert {word: found[word] for word in replaced() if word in found} == {}


def test_a_word_that_comes_back_is_seen() -> None:
    source = "class Voice:\n  rival: int\ndef speak_up(kept_for): ...\nTURN_S = 1\n"
    found = set(defined(ast.parse(source)))
    assert found == {"Voice", "rival", "speak_up", "kept_for", "TURN_S"} <= set(replaced())
