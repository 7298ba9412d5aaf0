"""Programs of ours are started in one way, which keeps the current folder off Python's path."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THE_WAY = ROOT / "controller/platform/programs.py"
FOLDERS = ("agents", "controller", "deploy", "kernels", "models")
UNINSTALLED = {ROOT / "deploy/ray/submit_sweep.py"}
"""Runs where benchfarm may not be importable: it starts the console script, no module."""
IN_A_SHELL = frozenset({"getoutput", "getstatusoutput", "popen", "system"})


def other_ways(source: str) -> Iterator[str]:
    """Yield what starts a Python or a shell by itself, with its line."""
    for node in ast.walk(ast.parse(source)):
        for found in _told(node):
            yield f"{found} in line {getattr(node, 'lineno', 0)}"


def _told(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="executable" | "orig_argv" as name):
            yield f"sys.{name}"
        case ast.ImportFrom(module="sys", names=names):
            yield from (n.name for n in names if n.name in ("executable", "orig_argv"))
        case ast.Constant(value="-m" | "python3" as word):
            yield repr(word)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="os" | "subprocess"), attr=name)):
            if name in IN_A_SHELL:
                yield name
        case ast.keyword(arg="shell", value=value) if ast.unparse(value) != "False":
            yield "shell=…"
        case ast.Attribute(attr="create_subprocess_shell"):
            yield "create_subprocess_shell"


@pytest.mark.parametrize("folder", FOLDERS)
def test_there_is_no_other_way_to_start_a_program(folder: str) -> None:
    sources = [p for p in sorted((ROOT / folder).rglob("*.py")) if p != THE_WAY]
    assert sources
    found = {
        str(path.relative_to(ROOT)): ways
        for path in sources
        if path not in UNINSTALLED and (ways := list(other_ways(path.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "run([sys.executable, 'x.py'])",
        "from sys import executable",
        "run([python, '-m', 'models.mobile'])",
        "run(['python3', '-c', code])",
        "os.execv(python, sys.orig_argv)",
        "subprocess.run('python x.py', shell=True)",
        "os.system('python x.py')",
        "asyncio.create_subprocess_shell('python x.py')",
    ],
)
def test_other_ways_are_recognised(source: str) -> None:
    assert len(list(other_ways(source))) == 1


NO_HELPERS = {
    "controller/runtime/api_beside.py": "starts the API and the page, which answer over HTTP",
    "controller/runtime/api_bench.py": "serves HTTP",
    "controller/runtime/head_supervisor.py": "starts the standby and `up` again",
    "controller/runtime/joining.py": "starts the agent of a joined host",
    "controller/runtime/lifetime.py": "starts supervisors and an agent, which outlive the command",
    "controller/store/second_reader.py": "is answered by thousands of rows, which are no JSON",
}
"""Modules of the controller whose programs answer no request of a helper's protocol."""


def test_what_the_controller_has_done_by_other_sides_is_done_by_helpers() -> None:
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in sorted((ROOT / "controller").rglob("*.py"))
        if path != THE_WAY
    }
    starting = {name: text for name, text in texts.items() if "python_module(" in text}
    assert {name for name, text in starting.items() if "Helper(" not in text} == NO_HELPERS.keys()
    asked = set(re.findall(r"python_module\(\"([^\"]+)", "".join(starting.values())))
    serving = {name for name in asked if re.search(r"\b(serve|Replies)\(", _main_of(name))}
    assert len(asked) > 9
    others = {"agents", "agents.joined", "controller.runtime.api_bench"}
    assert asked - serving == others | {"controller.store.second_reader_main"}


def _main_of(module: str) -> str:
    path = ROOT / module.replace(".", "/")
    return (path / "__main__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


@pytest.mark.parametrize(
    "script", ["Makefile", "deploy/setup.sh", "agents/inference/bundle/run.sh"]
)
def test_scripts_start_python_without_the_current_folder(script: str) -> None:
    lines = [
        line
        for line in (ROOT / script).read_text().splitlines()
        if " -m " in line and "python" in line and not line.lstrip().startswith("#")
    ]
    assert lines
    assert [line for line in lines if " -P " not in line and " -I " not in line] == []
