"""Imports go down only: cli → reports, runtime → scheduling, store → contracts; agents → models →
kernels; the controller knows nothing of agents, models, kernels and torch."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from agents.stacks.interpreter import NEEDED_IN_A_STACK
from controller.contracts.catalog import load_catalog

ROOT = Path(__file__).parents[2]
OURS = frozenset({"controller", "agents", "kernels", "models"})


@dataclass(frozen=True)
class Import:
    """One import: who imports what, where, and whether a function does it, when it is called."""

    module: str
    target: str
    place: str
    late: bool

    @property
    def is_ours(self) -> bool:
        return self.target.partition(".")[0] in OURS

    @property
    def library(self) -> str | None:
        """The library it comes from, unless it is ours or Python's own."""
        top = self.target.partition(".")[0]
        return None if top in OURS or top in sys.stdlib_module_names else top


def _imports_in(path: Path) -> Iterator[Import]:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    yield from _walk(ast.parse(path.read_text()), module, path, late=False)


def _walk(tree: ast.AST, module: str, path: Path, *, late: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        for target in _targets(node):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)} imports {target}"
            yield Import(module, target, place, late)
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(node, module, path, late=late or is_function)


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        source = "." * node.level + (node.module or "")
        # `from package import module` reaches further than it says.
        return [f"{source}.{alias.name}" for alias in node.names]
    return []


def _is_in(name: str, packages: frozenset[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@cache
def imports() -> tuple[Import, ...]:
    """Return all imports of all modules; not before a test asks: each process collects this."""
    paths = (path for package in sorted(OURS) for path in sorted((ROOT / package).rglob("*.py")))
    return tuple(found for path in paths for found in _imports_in(path))


def of(package: str) -> list[Import]:
    """Return the imports of a package's modules; there are some."""
    found = [i for i in imports() if _is_in(i.module, frozenset({package}))]
    assert found
    return found


def test_no_import_is_relative() -> None:
    assert [i.place for i in imports() if i.target.startswith(".")] == []


CONTRACTS = frozenset({"controller.contracts"})
PLATFORM = CONTRACTS | {"controller.platform"}
STATS = CONTRACTS | {"controller.stats"}
SCHEDULING = CONTRACTS | {"controller.scheduling"}
STORE = PLATFORM | {"controller.store"}
IMPORTED = PLATFORM | {"controller.loadgen", "controller.imported"}
METRICS = PLATFORM | STATS | {"controller.metrics"}
PROFILES = STATS | {"controller.profiles"}
LOADGEN = STATS | {"controller.loadgen"}
REPORTS = PROFILES | PLATFORM | STATS | {"controller.reports"}
DASHBOARDS = METRICS | {"controller.dashboards", "controller.runtime.prometheus"}
RUNTIME = SCHEDULING | STORE | {"controller.runtime", "controller.metrics"}
API = RUNTIME | REPORTS | {"controller.api"}
PAGE = API | {"controller.page"}
MODELS = PLATFORM | {"models", "kernels"}


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("controller", frozenset({"controller"})),
        ("controller.contracts", CONTRACTS),
        ("controller.platform", PLATFORM),
        ("controller.stats", STATS),
        ("controller.scheduling", SCHEDULING),
        ("controller.store", STORE),
        ("controller.imported", IMPORTED),
        ("controller.metrics", METRICS),
        ("controller.dashboards", DASHBOARDS),
        ("controller.profiles", PROFILES),
        ("controller.loadgen", LOADGEN),
        ("controller.reports", REPORTS),
        ("controller.runtime", RUNTIME),
        ("controller.api", API),
        ("controller.page", PAGE),
        ("agents", MODELS | METRICS | PROFILES | LOADGEN | {"agents"}),
        ("models", MODELS),
        ("kernels", frozenset({"kernels"})),
    ],
)
def test_imports_of_ours_go_down_only(package: str, allowed: frozenset[str]) -> None:
    assert [i.place for i in of(package) if i.is_ours and not _is_in(i.target, allowed)] == []


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("controller.contracts", {"pydantic", "yaml"}),
        ("controller.platform", {"psutil", "pyarrow"}),
        ("controller.stats", {"numpy", "scipy"}),
        ("controller.scheduling", {"lark"}),
        ("controller.store", {"sqlalchemy", "alembic", "fsspec"}),
        ("controller.metrics", {"prometheus_client", "aiohttp"}),
        (
            "controller.dashboards",
            {"grafana_client", "grafana_foundation_sdk", "promql_parser", "yaml"},
        ),
        ("controller.profiles", {"ijson", "numpy", "pyarrow", "pydantic"}),
        ("controller.loadgen", set()),
        ("controller.api", {"aiohttp", "cryptography", "httpx", "pydantic"}),
        ("controller.page", {"aiohttp", "pydantic"}),
        ("controller.reports.views", {"numpy"}),
        ("controller.reports.html", {"jinja2", "markupsafe"}),
        ("kernels", {"torch"}),
    ],
)
def test_libraries_stay_where_they_belong(package: str, allowed: set[str]) -> None:
    assert [i.place for i in of(package) if i.library and i.library not in allowed] == []


def test_the_controller_never_imports_torch() -> None:
    assert [i.place for i in of("controller") if i.library == "torch"] == []


def test_scipy_is_imported_where_a_quantile_is_worked_out_or_a_matlab_file_is_read() -> None:
    """It takes 0.5 s and 28 MB, which neither an agent nor a worker shall spend at its start."""
    found = [i for i in imports() if i.library == "scipy"]
    assert {i.module for i in found} == {
        "controller.stats.order_statistics",
        "controller.stats.pairs",
        "models.mobile.preparing.imagenet",
    }
    assert all(i.late for i in found), found


def test_models_reach_kernels_only_inside_functions() -> None:
    early = [
        i.place for i in of("models") if _is_in(i.target, frozenset({"kernels"})) and not i.late
    ]
    assert early == []


def _modules_behind(start: Iterable[str]) -> set[str]:
    """Return all of our modules that these import, at once or when their functions are called."""
    modules = {i.module for i in imports()}
    reached, waiting = set[str](), set(start)
    while waiting:
        module = waiting.pop()
        reached.add(module)
        targets = {i.target for i in imports() if i.module == module and i.is_ours}
        named = {t if t in modules else t.rpartition(".")[0] for t in targets}
        waiting |= (named & modules) - reached
    return reached


@pytest.mark.parametrize("package", ["kernels", "models"])
def test_no_imports_go_round_in_a_circle(package: str) -> None:
    """Neither those at once nor those of functions and of type checkers."""
    found = of(package)
    modules = {i.module for i in imports()}
    sorter = TopologicalSorter[str]()
    for each in found:
        target = each.target if each.target in modules else each.target.rpartition(".")[0]
        if target in modules and target != each.module:
            sorter.add(each.module, target)
    sorter.prepare()  # raises CycleError, which names the modules


def test_a_worker_needs_no_more_than_a_stack_s_environment_has() -> None:
    catalog = load_catalog()
    named = [w.builder for w in catalog.workloads.values()]
    named += [s.backend for s in catalog.stacks.values()]
    start = {"agents.worker", "agents.scenarios.training", "agents.profiling.profile_pass"}
    start |= {"agents.ranks.team", "agents.ranks.member"}
    start |= {"agents.profiling.replay", "agents.profiling.peaks", "agents.inference.worker_run"}
    start |= {name.partition(":")[0] for name in named if name}
    behind = _modules_behind(start)
    assert "models.retinanet.frozen_norm" in behind
    needed = {i.library: i.place for i in imports() if i.module in behind and i.library}
    # What only stack ipex has is imported only there, the library of a decoder or of mAP only where
    # it was found; torchmetrics scores classes, by which no model of a worker is scored;
    # torchvision brings Pillow.
    found_first = {"intel_extension_for_pytorch", "torchvision", "PIL", "cv2", "simplejpeg"}
    found_first |= {"pycocotools", "torchmetrics"}
    assert set(needed) - found_first <= NEEDED_IN_A_STACK, needed
    for stack in catalog.stacks.values():
        if stack.environment:
            pinned = {pin.partition("==")[0] for pin in stack.environment.packages}
            names = {"yaml": "pyyaml", "mlperf_loadgen": "mlcommons-loadgen"}
            assert {names.get(n, n) for n in NEEDED_IN_A_STACK} <= pinned


def test_the_command_line_loads_neither_ray_nor_torch() -> None:
    script = (
        "import sys, controller.cli.main as cli; cli.app(['--help'], standalone_mode=False); "
        "print('modules:', *sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    loaded = printed.rpartition("modules:")[2].split()
    assert "controller.cli.main" in loaded
    assert OURS.isdisjoint(set(loaded) - {"controller"})
    heavy = {"ray", "torch", "alembic", "sqlalchemy", "plotly", "jinja2", "pyarrow"}
    heavy |= {"rich", "grafana_client", "grafana_foundation_sdk", "promql_parser", "numpy", "scipy"}
    heavy |= {"aiohttp", "cryptography", "httpx"}
    assert heavy.isdisjoint(loaded)


ROOMS = (
    "host",
    "remotes",
    "virtual_phone",
    "energy",
    "phones",
    "stacks",
    "backends",
    "ranks",
    "pairing",
    "kernel_bench",
    "scenarios",
    "profiling",
    "log_replay",
    "programs",
    "inference",
    "attempts",
    "health",
)
"""The folders of the agents' half, from the ground up. The processes stand on top, in no folder."""
OF_THE_PROCESSES = len(ROOMS)


def _floor(module: str) -> int:
    """Return how high a module of the agents' half stands."""
    _, room, *_ = (*module.split("."), "")
    return ROOMS.index(room) if room in ROOMS else OF_THE_PROCESSES


def _module_named(target: str, modules: Collection[str]) -> str:
    return target if target in modules else target.rpartition(".")[0]


def test_every_folder_of_the_agents_is_a_room() -> None:
    folders = {path.parent.name for path in (ROOT / "agents").glob("*/__init__.py")}
    assert folders == set(ROOMS)


def test_no_import_of_the_agents_runs_upwards() -> None:
    of_ours = [i for i in of("agents") if i.target.startswith("agents.")]
    assert [i.place for i in of_ours if _floor(i.target) > _floor(i.module)] == []


@pytest.mark.parametrize("room", ["host", "virtual_phone"])
def test_a_room_that_stands_apart_imports_no_other_one(room: str) -> None:
    allowed = PLATFORM | {f"agents.{room}"}
    found = [i.place for i in of(f"agents.{room}") if i.is_ours and not _is_in(i.target, allowed)]
    assert found == []


def test_no_room_has_a_third_of_the_agents_lines() -> None:
    lines = Counter[int]()
    for path in (ROOT / "agents").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        lines[_floor(module)] += len(path.read_text().splitlines())
    assert max(lines.values()) * 3 < lines.total(), lines


def test_no_imports_run_in_a_circle() -> None:
    modules = {i.module for i in imports()}
    needs: dict[str, set[str]] = {module: set() for module in modules}
    for found in imports():
        if found.is_ours:
            needs[found.module].add(_module_named(found.target, modules))
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError, which names a circle


def test_the_page_on_architecture_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `agents/")]
    assert rows == [f"agents/{room}" for room in ROOMS]
