"""Commands are listed from a table that says what their modules define, and loaded when called."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_group

from controller.cli.commands import COMMANDS, Group, Verb
from tests.support.command_line import installed

ROOT = Path(__file__).parents[3]
CLI = ROOT / "controller/cli"
WIDTH = 80
MOST = 60
GROUPS = {name: said for name, said in COMMANDS.items() if isinstance(said, Group)}
VERBS = {name: said for name, said in COMMANDS.items() if isinstance(said, Verb)}
SUMMARIES = {
    **{name: said.summary for name, said in COMMANDS.items()},
    **{
        f"{name} {verb}": said
        for name, group in GROUPS.items()
        for verb, said in group.verbs.items()
    },
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_table_lists_the_verbs_that_a_module_defines(name: str) -> None:
    holder = typer.Typer()
    holder.add_typer(import_module(f"controller.cli.{name}").app, name=name)
    group = get_group(holder).commands[name]
    assert isinstance(group, TyperGroup)
    assert {*group.commands} == {*GROUPS[name].verbs}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verb_without_a_group_is_where_the_table_says(verb: Verb) -> None:
    module, _, function = verb.place.partition(":")
    assert callable(getattr(import_module(f"controller.cli.{module}"), function))


@pytest.mark.parametrize(("name", "summary"), SUMMARIES.items(), ids=SUMMARIES)
def test_a_summary_is_one_sentence_that_a_list_has_room_for(name: str, summary: str) -> None:
    assert len(summary) <= MOST
    assert summary.endswith(".")
    assert not summary.endswith("..")


@pytest.mark.parametrize("arguments", [[], *([name] for name in GROUPS)], ids=str)
def test_help_cuts_no_line_and_loads_no_command(tmp_path: Path, arguments: list[str]) -> None:
    script = (
        "import sys; from controller.cli.main import app\n"
        "app([*sys.argv[1:], '--help'], prog_name='benchfarm', standalone_mode=False)\n"
        "print('modules:', *sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(WIDTH), "BENCHFARM_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    said, _, modules = printed.rpartition("modules:")
    assert "..." not in said.replace("[ARGS]...", "")
    assert max(map(len, said.splitlines())) <= WIDTH
    group = GROUPS[arguments[0]].verbs if arguments else {n: s.summary for n, s in COMMANDS.items()}
    for name, summary in group.items():
        assert f"  {name}" in said
        assert summary in said
    allowed = {"main", "commands", "lazy"}
    loaded = {m.rpartition(".")[2] for m in modules.split() if m.startswith("controller.cli.")}
    assert loaded == allowed
    assert {"rich", "sqlalchemy", "httpx", "ray", "torch"}.isdisjoint(modules.split())


@pytest.mark.parametrize("arguments", [[], ["sweep"]], ids=str)
def test_a_call_without_a_verb_shows_help_as_an_error(tmp_path: Path, arguments: list[str]) -> None:
    ended = installed(tmp_path, *arguments)
    helped = installed(tmp_path, *arguments, "--help")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.strip() == helped.stdout.strip()
    assert (helped.returncode, helped.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["swep"], "No such command 'swep'. Did you mean 'sweep'?; see: benchfarm --help"),
        (["sweep", "sumbit"], "Did you mean 'submit'?; see: benchfarm sweep --help"),
        (["sweep", "submit"], "Missing argument 'file'; see: benchfarm sweep submit --help"),
        (["down", "--nonsense"], "No such option: --nonsense; see: benchfarm down --help"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = installed(tmp_path, *arguments)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.decode().endswith(f"{said}\n")
    assert ended.stderr.count(b"\n") == 1


def _late_imports() -> dict[str, bool]:
    """Return the places of imports inside functions, and whether each has its reason above it."""
    found = {}
    for path in sorted(CLI.glob("*.py")):
        lines = path.read_text().splitlines()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                inside = (n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))
                for one in inside:
                    above = lines[one.lineno - 2].strip()
                    found[f"{path.name}:{one.lineno}"] = above.startswith("# Late")
    return found


def test_imports_inside_functions_are_few_and_each_has_its_reason() -> None:
    found = _late_imports()
    assert len(found) < 20
    assert [place for place, reasoned in found.items() if not reasoned] == []


def test_nothing_private_of_typer_is_used() -> None:
    assert [p.name for p in CLI.glob("*.py") if "typer._" in p.read_text()] == []
