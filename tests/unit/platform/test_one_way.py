"""Files are replaced, and locks taken and looked for, in one module each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("agents", "controller", "deploy", "kernels", "models")
LOCKS = "controller/platform/locks.py"
ATOMIC = "controller/platform/atomic.py"
EXCEPTIONS = {
    "agents/inference/bundle/build.py": "moves a whole folder",
    "agents/inference/bundle/fetch.py": "moves a whole folder",
    "agents/inference/bundle/from_source.py": "moves a whole folder",
    "agents/remotes/local.py": "moves a whole folder",
    "controller/store/artefacts/contents.py": "waits for the disk before what came counts as there",
    "controller/store/artefacts/places.py": "moves a file that is there whole into the store",
    "agents/outbox.py": "renames a file that is kept, and writes none",
    "models/mobile/fetching/download.py": "waits for the disk before what came counts as there",
    "models/mobile/store.py": "moves a file that is there whole into the store",
    "kernels/build.py": "a linker writes the file; kernels import nothing of the controller",
}
"""Modules that move files themselves, and why."""
FLOCKS = frozenset({"flock", "lockf"})
TABLE = "/proc/locks"
MOVES = frozenset({"replace", "rename"})


def locking(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that take a lock of the kernel's."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="fcntl"), attr=name) if name in FLOCKS:
                yield node.lineno
            case ast.ImportFrom(module="fcntl", names=names):
                yield from (node.lineno for n in names if n.name in FLOCKS)


def looking_for_locks(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that name the kernel's table of locks, but for what is said of it."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text == TABLE:
                yield node.lineno


def moving(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that put one file in the place of another, or wait for the disk."""
    for node in ast.walk(tree):
        match node:
            # `replace` of a text has two arguments, and that of a date or a dataclass has names.
            case ast.Call(func=ast.Attribute(attr=name), args=[_], keywords=[]) if name in MOVES:
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="os"), attr="replace" | "rename" | "fsync"):
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="shutil"), attr="move"):
                yield node.lineno
            case ast.ImportFrom(module="os" | "shutil", names=names):
                found = (n.name for n in names if n.name in {*MOVES, "fsync", "move"})
                yield from (node.lineno for _ in found)


def sources() -> Iterator[tuple[str, ast.AST]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_locks_are_taken_in_one_module() -> None:
    assert {name for name, tree in sources() if list(locking(tree))} == {LOCKS}


def test_locks_are_looked_for_in_one_module() -> None:
    assert {name for name, tree in sources() if list(looking_for_locks(tree))} == {LOCKS}


def test_files_are_replaced_in_one_module() -> None:
    found = {name for name, tree in sources() if list(moving(tree))}
    assert found == {ATOMIC, *EXCEPTIONS}


@pytest.mark.parametrize(
    "source",
    [
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "fcntl.lockf(file, 2)",
        "from fcntl import flock",
    ],
)
def test_other_locks_are_recognised(source: str) -> None:
    assert len(list(locking(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "new.replace(path)",
        "path.with_suffix('.new').rename(path)",
        "os.replace(new, path)",
        "os.fsync(file)",
        "shutil.move(new, path)",
        "from os import replace",
    ],
)
def test_other_moves_are_recognised(source: str) -> None:
    assert len(list(moving(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source", ["text.replace('a', 'b')", "moment.replace(year=1)", "replace(setup, port=1)"]
)
def test_what_moves_no_file_is_none(source: str) -> None:
    assert list(moving(ast.parse(source))) == []
