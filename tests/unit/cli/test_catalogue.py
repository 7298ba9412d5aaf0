"""`workload` and `scenario` show what a sweep may name, with every knob."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.cli import scenario, workload
from controller.contracts.base import scalar_text
from controller.contracts.catalog import load_catalog
from controller.contracts.manifests import Knob, ScenarioManifest, WorkloadManifest
from tests.support.command_line import complaint_of, printed_by

CATALOG = load_catalog()
NOUNS: dict[str, Mapping[str, WorkloadManifest | ScenarioManifest]]
NOUNS = {"workload": CATALOG.workloads, "scenario": CATALOG.scenarios}
NAMED = [(noun, name) for noun, known in NOUNS.items() for name in known]


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the manifests once for all tests."""
    for module in (workload, scenario):
        monkeypatch.setattr(module, "load_catalog", lambda: CATALOG)


@pytest.mark.parametrize("noun", NOUNS)
def test_a_list_names_all(noun: str, tmp_path: Path) -> None:
    printed = printed_by(tmp_path, noun, "list")
    assert [name for name in NOUNS[noun] if name not in printed] == []
    as_json = json.loads(printed_by(tmp_path, noun, "list", "--json"))
    assert [one["name"] for one in as_json] == [*NOUNS[noun]]


@pytest.mark.parametrize(("noun", "name"), NAMED)
def test_each_knob_has_a_row(noun: str, name: str, tmp_path: Path) -> None:
    words = " ".join(printed_by(tmp_path, noun, "show", name).replace("│", " ").split())
    for knob_name, knob in NOUNS[noun][name].knobs.items():
        assert f"{knob_name} {knob.type} {scalar_text(knob.default)} " in words


@pytest.mark.parametrize(("noun", "name"), NAMED)
def test_json_has_each_knob(noun: str, name: str, tmp_path: Path) -> None:
    shown = json.loads(printed_by(tmp_path, noun, "show", name, "--json"))
    assert {n: Knob.model_validate(k) for n, k in shown["knobs"].items()} == (
        NOUNS[noun][name].knobs
    )


def test_a_workload_names_the_stacks_that_run_it(tmp_path: Path) -> None:
    printed = printed_by(tmp_path, "workload", "show", "resnet50")
    row = next(line for line in printed.splitlines() if "stacks" in line)
    assert row.replace("│", " ").split() == ["stacks", "ipex", "torch-compile", "torch"]


@pytest.mark.parametrize(
    ("noun", "typed", "meant"),
    [("workload", "resnet5", "resnet50"), ("scenario", "ofline", "offline")],
)
def test_an_unknown_name_is_one_line_with_the_nearest(
    noun: str, typed: str, meant: str, tmp_path: Path
) -> None:
    complaint = complaint_of(tmp_path, noun, "show", typed)
    assert f"there is no such {noun}. Did you mean {meant}? Known: " in complaint


@pytest.mark.parametrize(
    ("knob", "allowed"),
    [
        ({"type": "int"}, ""),
        ({"type": "int", "unit": "s"}, "s"),
        ({"type": "int", "min": 2, "default": 2}, "at least 2"),
        ({"type": "int", "max": 2147483647}, "at most 2147483647"),
        ({"type": "int", "min": 0, "max": 8, "unit": "px"}, "0 to 8 px"),
        (
            {"type": "int", "min": 32, "multiple_of": 32, "default": 32},
            "at least 32, a multiple of 32",
        ),
        ({"type": "float", "min": 0.5, "max": 1}, "0.5 to 1"),
        ({"type": "str", "choices": ["a", "b"], "default": "a"}, "a, b"),
        ({"type": "bool", "default": True}, "true, false"),
    ],
)
def test_what_a_knob_allows(knob: dict[str, object], allowed: str) -> None:
    made = Knob.model_validate({"default": 1, "description": "it", **knob})
    assert made.allowed == allowed
