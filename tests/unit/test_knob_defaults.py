"""Defaults of knobs are in the manifests only: code reads a cell's knobs, which all have values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog

ROOT = Path(__file__).parents[2]
FOLDERS = ("agents", "controller", "kernels", "models")
ALLOWED: Mapping[tuple[str, str], str] = {
    ("controller/cli/bench.py", "numerics"): "of a benchmark's own model; its task's is int8",
    ("controller/cli/bench.py", "seed"): "of the load that a benchmark makes",
}
"""File and knob → why a default may stand there."""


def _defaults() -> dict[str, set[Scalar]]:
    """Return every default that a manifest gives a knob of each name."""
    catalog = load_catalog()
    owners = (catalog.workloads, catalog.stacks, catalog.scenarios, catalog.launch)
    found: dict[str, set[Scalar]] = {}
    for manifests in owners:
        for manifest in manifests.values():
            for name, knob in manifest.knobs.items():
                found.setdefault(name, set()).add(knob.default)
    return found


DEFAULTS = _defaults()


def _knob(node: ast.expr | None) -> str | None:
    """Return the knob that a literal names."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) and value in DEFAULTS else None


def _of_knobs(node: ast.expr) -> bool:
    """Tell whether an expression is a mapping of knobs, by its name."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.endswith(("knobs", "given", "settings", "arguments"))


def _read_with_default(node: ast.AST) -> str | None:
    """Return the knob of `knobs.get("policy", "ci")`, or of `knobs.get("policy") or "ci"`."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        inner = [part for value in node.values[:-1] for part in ast.walk(value)]
        return next((knob for part in inner if (knob := _got(part, ("get",), 1))), None)
    return _got(node, ("get", "pop", "setdefault"), 2)


def _got(node: ast.AST, methods: tuple[str, ...], arguments: int) -> str | None:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    if node.func.attr not in methods or len(node.args) != arguments:
        return None
    return _knob(node.args[0]) if _of_knobs(node.func.value) else None


def _laid_under(node: ast.AST) -> str | None:
    """Return the knob of `{"policy": "ci", **knobs}` and of `{"policy": "ci"} | knobs`."""
    if isinstance(node, ast.Dict):
        last = max((n for n, key in enumerate(node.keys) if key is None), default=0)
        if last and _of_knobs(node.values[last]):
            return next((knob for key in node.keys[:last] if (knob := _knob(key))), None)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _of_knobs(node.right):
        keys = node.left.keys if isinstance(node.left, ast.Dict) else ()
        return next((knob for key in keys if (knob := _knob(key))), None)
    return None


def _repeated(node: ast.AST, constants: Mapping[str, ast.expr]) -> Iterator[str]:
    """Yield each parameter and field that is named as a knob and has its default."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        positional = [*node.args.posonlyargs, *node.args.args]
        pairs: list[tuple[str, ast.expr | None]] = [
            (arg.arg, default)
            for arg, default in zip(
                [*positional[len(positional) - len(node.args.defaults) :], *node.args.kwonlyargs],
                [*node.args.defaults, *node.args.kw_defaults],
                strict=True,
            )
        ]
    elif isinstance(node, ast.ClassDef):
        pairs = [
            (each.target.id, each.value)
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        ]
    else:
        return
    for name, default in pairs:
        known = constants.get(default.id) if isinstance(default, ast.Name) else default
        value = known.value if isinstance(known, ast.Constant) else None
        if any(value == d and type(value) is type(d) for d in DEFAULTS.get(name, ())):
            yield name


def violations(text: str) -> list[tuple[int, str]]:
    """Return the line and the knob of each default that is not a manifest's."""
    found, tree = [], ast.parse(text)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        read = filter(None, (_read_with_default(node), _laid_under(node)))
        knobs = {*read, *_repeated(node, constants)}
        found += [(getattr(node, "lineno", 0), knob) for knob in knobs]
    return sorted(found)


@pytest.mark.parametrize(
    "planted",
    [
        'load_policy(str(job.knobs.get("policy", "ci")))',
        'knobs.pop("policy", "ci")',
        'knobs.setdefault("policy", "ci")',
        'knobs.get("policy") or "ci"',
        'str(knobs.get("policy")) or "ci"',
        '{"policy": "ci", **job.knobs}',
        '{"policy": "ci"} | knobs',
        "def f(policy='ci'): pass",
        "def f(*, policy: str = 'ci'): pass",
        "CI = 'ci'\ndef f(policy: str = CI): pass",
        "class A:\n    policy: str = 'ci'",
    ],
)
def test_a_planted_default_is_found(planted: str) -> None:
    assert [knob for _, knob in violations(planted)] == ["policy"]


@pytest.mark.parametrize(
    "fine",
    [
        'knobs["policy"]',
        'knobs.get("policy")',
        "knobs.get(name, knob.default)",
        'environment.get("delegate", "")',
        '{**knobs, "policy": "lab"}',
        'knobs | {"policy": "lab"}',
        "def f(policy): pass",
        "def f(runs=7): pass",
        "class A:\n    policy: str",
    ],
)
def test_what_is_no_default_is_not_found(fine: str) -> None:
    assert violations(fine) == []


def test_defaults_are_in_manifests_only() -> None:
    found = [
        (str(path.relative_to(ROOT)), line, knob)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, knob in violations(path.read_text())
    ]
    assert [each for each in found if (each[0], each[2]) not in ALLOWED] == []
    assert set(ALLOWED) <= {(path, knob) for path, _, knob in found}, "an exception is in use"
