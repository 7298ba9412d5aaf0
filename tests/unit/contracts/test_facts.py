"""Facts of an environment are declared once, and what is declared is what is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.energy.account import Used, account
from agents.energy.readings import Reading
from agents.energy.trace import EnergyUnknownError, Joules
from agents.host import conditions as host_conditions
from agents.host import disturbance
from agents.host.facts import host_facts
from agents.inference.throttling import summary
from agents.phones.conditions import battery_facts, environment_of, other_facts, thermal_facts
from agents.remotes.adb.facts import device_of
from controller.contracts.catalog import load_catalog
from controller.contracts.facts import (
    Equal,
    FactDeclaration,
    FactKind,
    OwnFact,
    compared_facts,
    declaration_of,
    declared_facts,
    undeclared,
    unit_of,
)
from controller.contracts.units import Unit

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "result-format.md"
SOURCES = [
    path for room in ("agents", "controller", "models") for path in (ROOT / room).rglob("*.py")
]
HOLDERS = frozenset({"facts", "environment"})
"""What a variable is called that becomes part of an environment."""
WRITERS = ("agents", "controller/scheduling")
"""Who writes facts; the controller's other rooms only read them."""
PROCESSES = ("agents/virtual_phone", "agents/inference/bundle")
"""Where an `environment` is a process's."""
MOMENTS = frozenset({"before", "after"})


def _keys(node: ast.AST) -> Iterator[str]:
    """Yield the plain keys of the dicts in an expression, but for those of dicts inside others."""
    for each in ast.walk(node):
        for key in each.keys if isinstance(each, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value


def _written(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each fact that a module writes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "environment":
            yield from ((node.value.lineno, name) for name in _keys(node.value))
        elif isinstance(node, ast.FunctionDef) and _tells(node):
            yield from ((node.lineno, name) for part in node.body for name in _keys(part))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from ((node.lineno, name) for name in _assigned(target, node.value))


def _tells(node: ast.FunctionDef) -> bool:
    return isinstance(node.returns, ast.Name) and node.returns.id == "Environment"


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if _is_holder(target):
        yield from _keys(value)
    elif isinstance(target, ast.Subscript) and _is_holder(target.value):
        yield from (str(k.value) for k in [target.slice] if isinstance(k, ast.Constant))


def _is_holder(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in HOLDERS


def _writers() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(WRITERS) and not place.startswith(PROCESSES):
            for line, name in _written(ast.parse(path.read_text())):
                yield f"{place}:{line}", name


def test_what_is_written_is_declared() -> None:
    written = list(_writers())
    assert len({name for _, name in written}) > 60, "the sources are read"
    known = MOMENTS | {base for fact in declared_facts() for base in _bases(fact)}
    unknown = [(p, name) for p, name in written if not (name in known or declaration_of(name))]
    assert unknown == []


def _own(name: str) -> str:
    return re.sub(r"^[ab]\.", "", name)


def _bases(fact: FactDeclaration) -> set[str]:
    """Return how a declared fact may be named in the sources, which may add the moment later."""
    bare = fact.name.removesuffix("_{before,after}")
    return {bare, f"{bare}_before"}


def test_what_is_declared_is_written() -> None:
    texts = {
        _own(node.value)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    patterns = {fact.name for fact in declared_facts() if "*" in fact.name}
    assert patterns == {
        "celsius_*_{before,after}",
        "khz_cpu*_{before,after}",
        "celsius_*_during_max",
        "frequency_*_khz_during_mean",
    }
    missing = [f.name for f in declared_facts() if f.name not in patterns and not _bases(f) & texts]
    assert missing == []


def _unknown() -> Used:
    raise EnergyUnknownError("there is no meter")


def _used() -> Used:
    return Used(Joules(100.0, 0.1), 10.0, "a meter")


def _at_rest() -> Used:
    return Used(Joules(10.0, 0.1), 10.0, "a meter")


PHONE = {
    **battery_facts("  AC powered: true\n  level: 80\n  temperature: 301\n"),
    **thermal_facts(
        "IsStatusOverride: false\nThermal Status: 1\n"
        "Temperature{mValue=40.5, mType=3, mName=skin, mStatus=0}"
    ),
    **other_facts(
        "current_ua: 50000\ncharge_uah: 600000\nkhz_cpu0: 7\ngovernor_cpu0: schedutil\n"
        "load: 0.5 0 0\nmemory_kb: 8\nairplane_mode: 1\nscreen_brightness: 9\nscreen: Awake\n",
        cores=8,
    ),
}
PROPERTIES = {
    "ro.serialno": "P1",
    "ro.product.manufacturer": "Acme",
    "ro.product.model": "One",
    "ro.soc.model": "S1",
    "ro.product.cpu.abi": "arm64-v8a",
    "ro.build.fingerprint": "acme/one:14/user",
    "ro.build.version.release": "14",
    "ro.build.version.sdk": "34",
    "ro.benchfarm.emulated": "an emulator",
}
SAMPLED = {
    "zone_0:skin": "41000",
    "battery_temp": "300",
    "thermal_status": "2",
    "frequency_cpu0": "1800000",
}


@pytest.mark.parametrize(
    ("said", "least"),
    [
        (host_facts(), 10),
        (host_conditions.environment_of(*[host_conditions.read_conditions({0})] * 2), 7),
        (disturbance.environment_of(disturbance.CpuTimes()), 8),
        (environment_of(PHONE, PHONE), 30),
        (summary([Reading(1.0, {**SAMPLED, "battery_status": "Full"})], 2.0), 7),
        (device_of(PROPERTIES, "0-7", "MemTotal: 8 kB\n", shell_v2=True).facts, 12),
        (account(_unknown, _unknown, 1, Unit.JOULES_PER_STEP).facts, 1),
        (account(_used, _at_rest, 1, Unit.JOULES_PER_STEP).facts, 5),
    ],
)
def test_what_is_said_of_a_device_is_declared(said: dict[str, object], least: int) -> None:
    assert len(said) >= least
    assert undeclared(said, {}) == []


def test_names_that_nobody_declares() -> None:
    names = ["llama_build", "cores_during", "a.torch", "c.torch", "load", "b.llama_build"]
    assert undeclared(names, load_catalog().own_facts) == ["cores_during", "c.torch", "load"]


def test_units_of_both_sides_are_known() -> None:
    own = {"clock": OwnFact(kind=FactKind.SETTING, means="the clock", unit="MHz")}
    names = ("clock", "a.clock", "timed_s", "b.idle_watts", "celsius_skin_before", "cores", "other")
    assert [unit_of(n, own) for n in names] == ["MHz", "MHz", "s", "W", "°C", None, None]


@pytest.mark.parametrize("name", ["cpu_model", "meets_run_rules", "charging_before", "torch"])
def test_a_program_does_not_write_what_benchfarm_writes(name: str) -> None:
    command = load_catalog().stacks["llama-bench"].command
    assert command is not None
    fields = command.model_dump()
    accepted = {**fields, "facts": {"my_build": "b (?P<value>.)", "delegate": "d (?P<value>.)"}}
    type(command).model_validate(accepted)
    with pytest.raises(ValueError, match=rf"facts\.{name}: benchfarm writes this fact"):
        type(command).model_validate({**fields, "facts": {name: "is (?P<value>.)"}})


def test_shipped_programs_say_what_they_may() -> None:
    said = [
        name
        for stack in load_catalog().stacks.values()
        for name in (stack.command.facts if stack.command else ())
    ]
    declared = [fact for name in said if (fact := declaration_of(name))]
    assert declared
    assert all(fact.programs for fact in declared)


def test_units_are_of_numbers_and_names_say_them() -> None:
    suffixes = {"_s": "s", "_ms": "ms", "_bytes": "bytes", "_share": "fraction", "_watts": "W"}
    for fact in declared_facts():
        for suffix, unit in suffixes.items():
            if fact.name.endswith(suffix):
                assert fact.unit == unit, fact.name
        if "celsius" in fact.name:
            assert fact.unit == "°C", fact.name


def test_kernels_may_differ_where_they_are_what_is_measured() -> None:
    training, kernel = (set(compared_facts(Equal.STACK, s, {})) for s in ("training", "kernel"))
    assert training - kernel == {"kernels"}


def test_no_condition_keeps_results_from_being_compared() -> None:
    assert [f.name for f in declared_facts() if f.kind == "condition" and f.equal] == []


def _rows() -> str:
    equal = {None: "", Equal.RESULTS: "all", Equal.STACK: "stack", Equal.SIDE: "side"}
    lines = []
    for fact in declared_facts():
        besides = f", but of `{fact.exempt}`" if fact.exempt else ""
        cells = (f"`{fact.name}`", fact.unit or "", f"{equal[fact.equal]}{besides}", fact.means)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_page_has_the_table() -> None:
    table = "| fact | unit | equal | is |\n|---|---|---|---|\n" + _rows() + "\n"
    assert table in PAGE.read_text(), f"docs/result-format.md has to have:\n\n{table}"
