"""No test patches a constant of a module: timings, limits and folders are handed in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
BY_NAME = frozenset({"setattr", "delattr", "patch", "object"})
"""Functions of pytest's monkeypatch, of unittest.mock and of Python, given a constant's name."""
BY_VALUE = frozenset({"setitem", "delitem", "dict"})
"""Methods of monkeypatch and of unittest.mock.patch, given a constant that is a dictionary."""
ALLOWED = {
    ("tests/support/cells.py", "KEPT"): "nobody may choose what a worker inherits",
}
"""(File, constant) → why it can't be handed in."""


def patched(source: str) -> Iterator[str]:
    """Yield the name of each constant that a source patches, or assigns to in another module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield from _patched_by(node)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name for target in targets if (name := _constant_of(target)))


def _patched_by(call: ast.Call) -> Iterator[str]:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    function = call.func.id if isinstance(call.func, ast.Name) else method
    if function in BY_NAME:
        texts = (argument.value for argument in call.args[:2] if isinstance(argument, ast.Constant))
        names = (text.rpartition(".")[2] for text in texts if isinstance(text, str))
        yield from filter(CONSTANT.fullmatch, names)
    elif method in BY_VALUE and call.args and (name := _constant_of(call.args[0])):
        yield name


def _constant_of(node: ast.expr) -> str:
    """Return the constant that an expression `module.NAME` names; "" for another expression."""
    is_constant = isinstance(node, ast.Attribute) and CONSTANT.fullmatch(node.attr)
    return node.attr if isinstance(node, ast.Attribute) and is_constant else ""


def test_no_test_patches_a_constant() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / "tests").rglob("*.py")
        for name in patched(path.read_text())
    }
    assert found - ALLOWED.keys() == set(), "make it a parameter with a default"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('monkeypatch.setattr(module, "RETRY_S", 0.0)', ["RETRY_S"]),
        ('patch.setattr("agents.agent.AWAY_PAUSE_S", 0.0)', ["AWAY_PAUSE_S"]),
        ('monkeypatch.delattr(module, "_LIMIT")', ["_LIMIT"]),
        ('setattr(module, "PORTS", [])', ["PORTS"]),
        ('mock.patch("a.b.LIMIT_2", 3)', ["LIMIT_2"]),
        ('mock.patch.object(module, "LIMIT", 3)', ["LIMIT"]),
        ("monkeypatch.setitem(module.TABLE, 'key', 1)", ["TABLE"]),
        ("mock.patch.dict(module.TABLE, {})", ["TABLE"]),
        ("module.LONGEST_S = 0.0", ["LONGEST_S"]),
        ("module.LONGEST_S: float = 0.0", ["LONGEST_S"]),
        ("module.LIMIT += 1", ["LIMIT"]),
        ('monkeypatch.setattr(module, "find_spec", None)', []),
        ('monkeypatch.setattr(module, "_Supervisor", None)', []),
        ('monkeypatch.setenv("BENCHFARM_HOME", "x")', []),
        ('monkeypatch.setitem(environ, "BENCHFARM_HOME", "x")', []),
        ("LIMIT = module.LIMIT", []),
    ],
)
def test_what_patches_a_constant(line: str, names: list[str]) -> None:
    assert list(patched(line)) == names
