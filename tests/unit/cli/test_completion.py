"""Completion offers what a command would take, from manifests and the store, and imports little."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from typer.core import TyperOption

from controller.api.contexts import FarmContext, keep_context
from controller.cli import catalogue_names
from controller.cli.commands import COMMANDS, Group, commands
from controller.cli.lazy import LazyCommand, LazyGroup
from controller.cli.main import main
from controller.cli.outline import Parameter, outline, parameters_of, within
from controller.cli.signatures import COMPLETERS, SIGNATURES
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.records import Scope, Token
from controller.metrics.exporter import LOOPBACK
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.api import RUN, SECRETS, Served, prepared, served
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
SWEEP = store_examples.sweep_record().sweep_id


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store knows a server, a phone, a sweep and two users."""
    home = tmp_path_factory.mktemp("home")
    with closing(SqliteStore.open(home / "store.sqlite")) as store:
        store.save_agent(store_examples.AGENT, [store_examples.CPU, store_examples.PHONE])
        store.add_sweep(store_examples.sweep_record(), [])
        store.save_token(Token(name="ann", digest="0" * 64, created_at=1.0))
        store.save_token(Token(name="bob", digest="1" * 64, created_at=1.0, revoked_at=2.0))
    return home


@cache
def shipped() -> Catalog:
    return load_catalog()


def settings(home: Path, line: str) -> dict[str, str]:
    """Return the environment in which a shell asks for completions of a line."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": "-1", "_BENCHFARM_COMPLETE": "complete_bash"}
    return {"BENCHFARM_HOME": str(home), **asked}


def offered(home: Path, line: str, **environ: str) -> list[str]:
    """Return what is offered for a line that ends where the cursor is; '' is a new word."""
    said, complained = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.setattr(sys, "argv", ["benchfarm"])
        for name, value in {**settings(home, line), **environ}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code, complained.getvalue()) == (0, "")
    return said.getvalue().split()


def command_at(path: str) -> LazyCommand:
    """Return the command that a path such as `sweep submit` names."""
    first, _, verb = path.partition(" ")
    group = commands()[first]
    found = group.commands[verb] if isinstance(group, LazyGroup) else group
    assert isinstance(found, LazyCommand)
    return found


def test_every_verb_has_a_signature() -> None:
    paths = {
        f"{name} {verb}".rstrip()
        for name, said in COMMANDS.items()
        for verb in (said.verbs if isinstance(said, Group) else [""])
    }
    assert {*SIGNATURES} == paths


@pytest.mark.parametrize("path", SIGNATURES)
def test_a_signature_has_the_parameters_that_the_module_defines(path: str) -> None:
    found = []
    params: list[Any] = [*command_at(path).load().params]
    for param in params:
        is_option = isinstance(param, TyperOption)
        names = (*param.opts, *param.secondary_opts) if is_option else (param.name,)
        repeated = param.nargs == -1 or (is_option and param.multiple)
        found.append((names, is_option and param.is_flag, repeated))
    assert found == [(p.names, p.is_flag, p.is_repeated) for p in parameters_of(path)]


@pytest.mark.parametrize("path", SIGNATURES)
def test_choices_are_those_that_the_module_defines(path: str) -> None:
    kinds = {parameter.names[0]: parameter.kind for parameter in parameters_of(path)}
    params: list[Any] = [*command_at(path).load().params]
    for param in params:
        choices = "|".join(map(str, param.type_descriptor.choices or ()))
        kind = kinds[param.opts[0] if isinstance(param, TyperOption) else param.name]
        assert choices == (kind if "|" in kind else "")


def test_every_kind_is_used_and_has_its_values() -> None:
    kinds = {parameter.kind for path in SIGNATURES for parameter in parameters_of(path)}
    assert {kind for kind in kinds if kind and "|" not in kind} == {*COMPLETERS}


def test_an_outline_has_the_parameters_of_its_command() -> None:
    params = outline("results report").params
    named = [("subjects", -1), ("output", 1), ("imported", 1)]
    assert [(param.name, param.nargs) for param in params] == named


def test_a_word_of_a_signature_is_a_parameter() -> None:
    flag = Parameter(("--cpu", "--no-cpu"), is_flag=True, kind="", is_repeated=False)
    assert Parameter.parse("--cpu/--no-cpu") == flag
    option = Parameter(("--knob",), is_flag=False, kind="knob", is_repeated=True)
    assert Parameter.parse("--knob=knob*") == option


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("sw", ["sweep"]),
        ("sweep st", ["status"]),
        ("sweep cancel ''", [SWEEP]),
        ("sweep submit --", ["--wait", "--again", "--json", "--help"]),
        ("sweep submit ''", []),
        ("results list --sweep ''", [SWEEP]),
        ("results list --sweep=de", [SWEEP]),
        ("results report ''", [SWEEP, "host-1", "phone-1"]),
        (
            "results export x --format ''",
            ["json", "jsonl", "csv", "parquet", "mlperf-mobile", "app"],
        ),
        ("device show ''", ["host-1", "phone-1"]),
        ("compare a b --device ''", ["host-1", "phone-1"]),
        ("phone doctor ''", ["phone-1"]),
        ("phone doctor x --policy ''", ["ci", "lab", "mlperf"]),
        ("phone virtual --profile fl", ["flagship", "flagship-arm64"]),
        ("agent revoke ''", ["host-1"]),
        ("agent drain ''", ["host-1"]),
        ("token revoke ''", ["ann"]),
        ("stacks show torch", ["torch", "torch-compile"]),
        ("workload show resnet", ["resnet18", "resnet50"]),
        ("scenario show off", ["offline"]),
        ("compare torch:precision=", ["torch:precision=fp32", "torch:precision=bf16"]),
        ("compare torch:precision=bf16,memory", ["torch:precision=bf16,memory_format="]),
        ("compare torch:precision=bf16,prec", []),
        ("compare nothing:", []),
        ("compare torch ipex --workload resnet5", ["resnet50"]),
        ("compare torch ipex --workload resnet50 --scenario t", ["training", "training_accuracy"]),
        ("compare torch torch --workload resnet50 --knob opt", ["optimizer="]),
        ("compare torch torch --workload resnet50 --knob warmup_s", ["warmup_steps="]),
        ("compare torch torch --workload resnet50 --knob delegate", []),
        ("profile run resnet50 --stack torch --knob precision=b", ["precision=bf16"]),
        ("profile run shapes", []),
        ("kernels check nm", ["nms"]),
        ("kernels bench --dtype ''", ["bf16", "fp32"]),
        ("bench harness --workload shapes_classifier --numerics ''", ["fp32", "int8"]),
        ("models add x --as shapes_classifier/models/", None),
        ("completion ''", ["bash", "zsh", "fish"]),
        ("nonsense x", []),
        ("sweep nonsense ''", None),
        ("down ''", []),
        ("sweep cancel 'unclosed", []),
    ],
)
def test_a_line_is_completed(
    home: Path, line: str, values: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_names, "load_catalog", shipped)  # read once for all lines
    found = offered(home, f"benchfarm {line}")
    if values is None:
        assert found
    else:
        assert found == values


def test_what_the_user_has_added_is_offered(tmp_path: Path) -> None:
    own = tmp_path / "models/tasks"
    own.mkdir(parents=True)
    shipped = (ROOT / "models/manifests/mobile/mobilenet_v4.yaml").read_text()
    (own / "mine.yaml").write_text(shipped.replace("name: mobilenet_v4", "name: mine"))
    assert "mine" in load_catalog_of(tmp_path)
    assert offered(tmp_path, "benchfarm compare a b --workload mi") == ["mine"]


def load_catalog_of(home: Path) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHFARM_HOME", str(home))
        return [*load_catalog().workloads]


def test_a_home_that_is_not_there_stays_so(tmp_path: Path) -> None:
    home = tmp_path / "none"
    assert offered(home, "benchfarm sweep cancel ''") == []
    assert not home.exists()


def test_a_farm_elsewhere_has_no_store_here(home: Path) -> None:
    line = "benchfarm sweep cancel ''"
    assert offered(home, line, BENCHFARM_URL="http://127.0.0.1:9") == []


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_store_offers_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(content)
    assert offered(tmp_path, "benchfarm sweep cancel ''") == []
    assert [path.name for path in tmp_path.iterdir()] == ["store.sqlite"]


def test_a_damaged_manifest_of_a_user_hides_no_other(tmp_path: Path) -> None:
    for folder in ("tasks", "programs"):
        own = tmp_path / "models" / folder
        own.mkdir(parents=True)
        (own / "bad.yaml").write_text("name: [")
    assert offered(tmp_path, "benchfarm stacks show ''") == sorted(shipped().stacks)


def test_a_damaged_manifest_of_the_project_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Catalog:
        raise SweepInvalid("read manifest x.yaml", "not YAML", "Reinstall benchfarm.")

    monkeypatch.setattr(catalogue_names, "load_catalog", broken)
    assert offered(tmp_path, "benchfarm stacks show ''") == []


def test_reading_leaves_the_store_as_it_is(home: Path) -> None:
    def whole() -> list[str]:
        with closing(sqlite3.connect(f"file:{home / 'store.sqlite'}?mode=ro", uri=True)) as store:
            return list(store.iterdump())

    before = whole()
    assert offered(home, "benchfarm device show ''")
    assert whole() == before


def test_values_that_never_come_are_not_waited_for() -> None:
    never = Event()
    assert within(0.05, lambda: ["late"] if never.wait() else []) == []
    never.set()


def test_a_failure_offers_nothing() -> None:
    def fail() -> list[str]:
        raise OSError

    assert within(PATIENCE_S, fail) == []


def test_values_that_would_steer_a_terminal_are_left_out() -> None:
    hostile = ["a\nb", "\x1b[2J", "a\tb", "\u202eb", ""]
    assert within(PATIENCE_S, lambda: [*hostile, "$(x)", "a b"]) == ["$(x)", "a b"]


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("benchfarm sw", {"sqlalchemy", "yaml", "controller.contracts.catalog"}),
        ("benchfarm compare torch ipex --wor", {"sqlalchemy", "yaml", "rich"}),
        ("benchfarm stacks show ''", {"sqlalchemy", "rich", "httpx"}),
        ("benchfarm compare a b --knob ''", {"sqlalchemy", "rich", "httpx"}),
        ("benchfarm device show ''", {"rich", "httpx"}),
    ],
)
def test_completing_imports_little(home: Path, line: str, absent: set[str]) -> None:
    script = (
        "import atexit, sys; atexit.register(lambda: print('modules:', *sys.modules))\n"
        "from controller.cli.main import main; main()"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **settings(home, line)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    offers, _, modules = printed.stdout.rpartition("modules:")
    assert (bool(offers.strip()), printed.stderr) == (True, "")
    heavy = {"ray", "torch", "numpy", "agents", "models", "kernels"} | absent
    assert heavy.isdisjoint(modules.split())


# --- a farm elsewhere ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(prepared(tmp_path_factory.mktemp("farm") / "home")) as served_api:
        yield served_api


def logged_in(folder: Path, url: str, scope: Scope = Scope.VIEWER) -> dict[str, str]:
    """Return the environment of a host that has logged in to a farm."""
    environ = {"XDG_CONFIG_HOME": str(folder / "config")}
    keep_context("team", FarmContext(url=url, token=SECRETS[scope]), environ)
    return {**environ, "BENCHFARM_CONTEXT": "team"}


@pytest.mark.parametrize(
    "line",
    [
        *("sweep cancel ''", "device show ''", "phone doctor ''", "agent drain ''"),
        *("results list --tag ''", "results report ''", "suite show ''"),
    ],
)
def test_names_of_a_farm_elsewhere_are_those_of_its_head(
    api: Served, tmp_path: Path, line: str
) -> None:
    found = offered(tmp_path / "none", f"benchfarm {line}", **logged_in(tmp_path, api.url))
    assert sorted(found) == sorted(offered(api.home.path, f"benchfarm {line}"))
    assert found or line.startswith("suite")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("verb", ["results show", "results verify", "profile show"])
def test_runs_are_completed_on_any_host(api: Served, tmp_path: Path, verb: str) -> None:
    line = f"benchfarm {verb} {RUN[:8]}"
    here = offered(api.home.path, line)
    assert RUN in here
    assert all(one.startswith(RUN[:8]) for one in here)
    elsewhere = offered(tmp_path / "none", line, **logged_in(tmp_path, api.url))
    assert {*elsewhere} <= {*here}
    assert elsewhere
    with closing(SqliteStore.open_reader(api.home.store)) as store:
        measured = {one.run_id for one in store.results()}
    assert {*elsewhere} == {one for one in measured if one.startswith(RUN[:8])}


def test_users_are_an_administrator_s_to_see(tmp_path: Path, api: Served) -> None:
    line = "benchfarm token revoke ''"
    none = tmp_path / "none"
    assert offered(none, line, **logged_in(tmp_path / "v", api.url)) == []
    # No controller runs that could tell of them; nothing is printed, either.
    admin = logged_in(tmp_path / "a", api.url, Scope.ADMINISTRATOR)
    assert offered(none, line, **admin) == []


def test_a_farm_that_cannot_be_asked_offers_nothing_and_says_nothing(
    tmp_path: Path,
) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as silent:
        url = f"http://{LOOPBACK}:{silent.getsockname()[1]}"
        assert offered(tmp_path, "benchfarm sweep cancel ''", **logged_in(tmp_path, url)) == []
    assert offered(tmp_path, "benchfarm sweep cancel ''", **logged_in(tmp_path, url)) == []
    unknown = {**logged_in(tmp_path, url), "BENCHFARM_CONTEXT": "unknown"}
    assert offered(tmp_path, "benchfarm device show ''", **unknown) == []
