"""There is one way to print: controller/platform/terminal.py, and the console built on it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from controller.platform.terminal import errors_appended_to

ROOT = Path(__file__).parents[2]
ALLOWED = {"controller/platform/terminal.py", "controller/cli/visible_console.py"}
CALLS = frozenset({"print", "echo", "secho", "echo_via_pager", "print_exc", "basicConfig"})
"""However they are reached: `typer.echo`, `click.echo`, `rich.print`, `traceback.print_exc`."""
STREAMS = frozenset({"stdout", "stderr", "__stdout__", "__stderr__"})


def other_ways(source: str) -> Iterator[str]:
    """Yield what a module does to print by itself."""
    for node in ast.walk(ast.parse(source)):
        for other in (*_called(node), *_imported(node), *_named(node)):
            yield f"{getattr(node, 'lineno', 0)}: {other}"


def _called(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="Console") | ast.Attribute(attr="Console")):
            yield "Console"
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield name
        case ast.Call(func=ast.Attribute(attr=name, value=of)) if name in CALLS:
            # A VisibleConsole's own `print` is what prints tables.
            if not (name == "print" and _is_console(of)):
                yield name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write")):
            yield "os.write"


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module="sys", names=names):
            yield from (n.name for n in names if n.name in STREAMS)
        case ast.ImportFrom(module="rich" | "typer" | "click", names=names):
            yield from (n.name for n in names if n.name in CALLS)


def _named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr=name) if name in STREAMS:
            yield f"sys.{name}"
        case ast.Constant(value="/dev/tty" | "/dev/stdout" | "/dev/stderr" as file):
            yield file


def _is_console(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="console")) | ast.Name(id="console" | "shown_on"):
            return True
    return False


@pytest.mark.parametrize(
    "path", sorted((ROOT / "controller").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_controllers_side_prints_in_one_way(path: Path) -> None:
    if str(path.relative_to(ROOT)) not in ALLOWED:
        assert list(other_ways(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "print('x')",
        "import typer\ntyper.echo('x')",
        "from typer import echo as say",
        "import sys\nsys.stderr.write('x')",
        "from sys import stdout",
        "from rich import print",
        "from rich.console import Console\nConsole().print('x')",
        "import rich.console\nrich.console.Console()",
        "import os\nos.write(1, b'x')",
        "import rich\nrich.print('x')",
        "open('/dev/tty', 'w')",
        "progress.console.print('x')",
        "import logging\nlogging.basicConfig()",
    ],
)
def test_each_other_way_is_found(source: str) -> None:
    assert list(other_ways(source))


def test_agents_programs_complain_in_that_way_too() -> None:
    """Their standard output is a protocol; what they write to standard error, people see."""
    ways = {
        str(path.relative_to(ROOT)): [
            way for way in other_ways(path.read_text()) if "sys.stderr" in way
        ]
        for path in (ROOT / "agents").rglob("*.py")
    }
    assert {path: found for path, found in ways.items() if found} == {
        "agents/host/arithmetic.py": ["24: sys.stderr"]  # needs nothing of ours; says a number
    }


def test_errors_of_any_code_of_this_process_go_to_a_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "x.log"
    for word in ("one", "two"):
        with suppress(ZeroDivisionError), errors_appended_to(log):
            os.write(2, f"{word} from C++\n".encode())
            raise ZeroDivisionError
    os.write(2, b"after\n")
    assert log.read_text() == "one from C++\ntwo from C++\n"
    assert capfd.readouterr().err == "after\n"
