"""Plugins: what is read of them, what is refused, and that nothing of theirs is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.contracts.catalog import Catalog, load_catalog, manifests_digest
from controller.contracts.plugins import GROUP, files_digest, installed_plugins
from tests.support.plugins import (
    CODE,
    KNOB,
    MANIFESTS,
    SCENARIO,
    STACK,
    WORKLOAD,
    install,
    install_editable,
)

BASE = load_catalog()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on Python's path, where pip would install."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def left_out(catalog: Catalog) -> list[str]:
    """Return the lines about plugins that are left out; all else is there as without them."""
    assert {*catalog.workloads} >= {*BASE.workloads}
    for line in catalog.left_out:
        assert line.said.count("\n") == 0
        assert line.remedy
    return [line.said for line in catalog.left_out]


def test_a_plugin_is_in_the_catalogue_and_not_imported(site: Path) -> None:
    install(site)
    catalog = load_catalog()
    assert left_out(catalog) == []
    assert {*catalog.workloads} - {*BASE.workloads} == {"line_fit"}
    assert {*catalog.stacks} - {*BASE.stacks} == {"torch-mine"}
    assert {*catalog.scenarios} - {*BASE.scenarios} == {"first_step"}
    assert "first_step" in catalog.workloads["resnet50"].scenarios
    named = {noun: {n: p.named for n, p in of.items()} for noun, of in catalog.plugins.items()}
    assert named == {
        "workload": {"line_fit": "my-farm 1.0"},
        "stack": {"torch-mine": "my-farm 1.0"},
        "scenario": {"first_step": "my-farm 1.0"},
    }
    assert "my_farm" not in sys.modules


def test_an_editable_plugin_is_found(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_editable(site, tmp_path / "source")
    monkeypatch.syspath_prepend(tmp_path / "source")
    assert left_out(load_catalog()) == []
    assert "line_fit" in load_catalog().workloads


def test_a_package_without_a_list_of_its_files_is_believed(site: Path) -> None:
    install(site, record=False)
    assert left_out(load_catalog()) == []


@pytest.mark.parametrize("record", ["my_farm/a.py,,x\n", "a,b,c,d,e\n", "\n", '"",,\n'])
def test_a_damaged_list_of_files_leaves_the_plugin_out(site: Path, record: str) -> None:
    install(site)
    (site / "my_farm-1.0.dist-info/RECORD").write_text(record)
    (line,) = left_out(load_catalog())
    assert "my-farm 1.0" in line


def test_what_is_compiled_is_no_change_of_a_plugin(site: Path) -> None:
    folder = install(site)
    before = files_digest(folder)
    for name in ("a.cpython-311.pyc", "a.cpython-311.pyc.140", "fit.nbi", "fit.1.nbc"):
        (folder / "__pycache__").mkdir(exist_ok=True)
        (folder / "__pycache__" / name).write_text("compiled")
    assert files_digest(folder) == before
    (folder / os.fsdecode(b"odd-\xff")).write_text("data")
    assert files_digest(folder) != before


def _of(kind: str, **changes: object) -> dict[str, object]:
    """Return the manifests with one changed; None removes a key."""
    path = next(path for path in MANIFESTS if path.startswith(kind))
    manifest: Any = {**(MANIFESTS[path]), **changes}  # type: ignore[dict-item]
    return {**MANIFESTS, path: {k: v for k, v in manifest.items() if v is not None}}


ENTRY = f"[{GROUP}]\n"
VIOLATIONS: dict[str, tuple[dict[str, Any], str]] = {
    # --- the entry point
    "package missing": ({"entry_points": ENTRY + "a = gone"}, "there is no package gone"),
    "out of its folder": ({"entry_points": ENTRY + "a = ../../etc"}, "not the name of a package"),
    "module inside": ({"entry_points": ENTRY + "a = my_farm.manifests"}, "not the name of a"),
    "object": ({"entry_points": ENTRY + "a = my_farm:x"}, "not the name of a package"),
    "two packages": ({"entry_points": ENTRY + "a = my_farm\nb = other"}, "name one package"),
    "no value": ({"entry_points": ENTRY + "my_farm\n"}, "cannot be read"),
    "benchfarm's own": ({"entry_points": ENTRY + "a = models"}, "models is a package of benchfarm"),
    "another's package": ({"entry_points": ENTRY + "a = yaml"}, "yaml is not a package of it"),
    "module": ({"entry_points": ENTRY + "a = lone"}, "there is no package lone"),
    "no __init__": ({"files": {"x.py": ""}}, "my_farm has no __init__.py"),
    # --- the metadata
    "version": ({"version": "1 0"}, "its metadata"),
    # --- its manifests
    "none": ({"manifests": {}}, "no manifests"),
    "unknown folder": ({"manifests": {"workload/a.yaml": WORKLOAD}}, "workload is none of"),
    "own launch settings": ({"manifests": {"launch/a.yaml": WORKLOAD}}, "launch is none of"),
    "not .yaml": ({"manifests": {**MANIFESTS, "stacks/a.yml": STACK}}, "a.yml does not end in"),
    "not YAML": ({"manifests": {"workloads/a.yaml": "a: [1"}}, "workloads/a.yaml: not YAML"),
    "empty": ({"manifests": {"workloads/a.yaml": ""}}, "workloads/a.yaml"),
    "unknown key": ({"manifests": _of("workloads", colour="red")}, "colour"),
    "key twice": ({"manifests": {"stacks/a.yaml": "name: a\nname: b\n"}}, "given twice"),
    "huge": ({"manifests": {"stacks/a.yaml": "#" * 2**21}}, "more than"),
    "twice a name": ({"manifests": {**MANIFESTS, "workloads/b.yaml": WORKLOAD}}, "'line_fit'"),
    # --- what they may say
    "code elsewhere": ({"manifests": _of("workloads", builder="os:system")}, "os is not my_farm"),
    "no class": ({"manifests": _of("workloads", builder="my_farm.x")}, "package.module:Class"),
    "path": ({"manifests": _of("workloads", builder="my_farm/../x:Y")}, "package.module:Class"),
    "no builder": ({"manifests": _of("workloads", builder=None)}, "key builder"),
    "backend elsewhere": ({"manifests": _of("stacks", backend="os:x")}, "os is not my_farm"),
    "bundle": ({"manifests": _of("stacks", backend=None, bundle="litert")}, "key backend"),
    "phone": ({"manifests": _of("stacks", device_kinds=["android"])}, "cpu_host"),
    "baseline": ({"manifests": _of("stacks", baseline=True)}, "key baseline"),
    "environment": (
        {
            "manifests": _of(
                "stacks",
                environment={"packages": [], "lock": "../x", "download_gb": 1, "disk_gb": 1},
            )
        },
        "key environment",
    ),
    "no module": ({"manifests": _of("scenarios", module=None)}, "key module"),
    "module elsewhere": ({"manifests": _of("scenarios", module="os.path")}, "os is not my_farm"),
    "scenario's name": ({"manifests": _of("scenarios", name="../x")}, "name"),
    "no such workload": ({"manifests": _of("scenarios", workloads=["x"])}, "no workload 'x'"),
    "no such scenario": ({"manifests": _of("workloads", scenarios=["x"])}, "no scenario 'x'"),
    "reserved knob": (
        {"manifests": _of("workloads", knobs={"workload_package": KNOB})},
        "workload_package",
    ),
    # --- what others have
    "workload of benchfarm": (
        {"manifests": _of("workloads", name="resnet50")},
        "workload 'resnet50' is one of benchfarm",
    ),
    "stack of benchfarm": (
        {"manifests": _of("stacks", name="torch")},
        "stack 'torch' is one of benchfarm",
    ),
    "scenario of benchfarm": (
        {"manifests": _of("scenarios", name="training")},
        "scenario 'training' is one of benchfarm",
    ),
    "knob of launch settings": (
        {"manifests": _of("workloads", knobs={"threads": KNOB})},
        "knob threads",
    ),
    "knob of a stack": (
        {"manifests": _of("workloads", knobs={"precision": KNOB})},
        "knob precision",
    ),
    "fact of benchfarm": (
        {"manifests": _of("stacks", facts={"torch": {"kind": "setting", "means": "x"}})},
        "benchfarm writes a fact of this name",
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_wrong_plugin_is_left_out_with_one_line(name: str, site: Path) -> None:
    (site / "lone.py").write_text("")
    given, said = VIOLATIONS[name]
    install(site, **given)
    catalog = load_catalog()
    (line,) = left_out(catalog)
    assert line.startswith("package my-farm"), line
    assert said in line, line
    assert catalog.plugins == {}
    assert catalog.workloads == BASE.workloads
    assert "my_farm" not in sys.modules
    manifests_digest()


@pytest.mark.parametrize(
    "linked", ["manifests", "manifests/workloads", "manifests/workloads/x.yaml"]
)
def test_a_manifest_outside_the_package_is_refused(linked: str, site: Path, tmp_path: Path) -> None:
    folder = install(site, {"stacks/torch-mine.yaml": STACK})
    outside = install(tmp_path / "elsewhere", {"workloads/x.yaml": WORKLOAD})
    target = folder / linked
    if linked == "manifests":
        (target / "stacks/torch-mine.yaml").unlink()
        (target / "stacks").rmdir()
        target.rmdir()
    target.parent.mkdir(exist_ok=True)
    target.symlink_to(outside / linked)
    (line,) = left_out(load_catalog())
    assert "outside the package" in line


def test_an_unreadable_list_of_entry_points_is_named(site: Path) -> None:
    install(site)
    (site / "my_farm-1.0.dist-info/entry_points.txt").write_bytes(b"\xff\xfe[a]")
    (line,) = left_out(load_catalog())
    assert line == "package my-farm 1.0 is left out: its metadata is not UTF-8 text"


@pytest.mark.parametrize(
    "manifests",
    [
        {"workloads/a.yaml": {**WORKLOAD, "builder": "your_farm.x:Y"}},
        {"stacks/a.yaml": {**STACK, "backend": "your_farm.x:Y"}},
        {"scenarios/a.yaml": {**SCENARIO, "module": "your_farm.x"}},
    ],
)
def test_a_name_of_two_plugins_is_neithers(manifests: Mapping[str, object], site: Path) -> None:
    """Else the one whose name comes first could take another's place in silence."""
    install(site)
    install(site, manifests, name="your-farm", package="your_farm")
    catalog = load_catalog()
    one, other = sorted(left_out(catalog))
    assert one.startswith("package my-farm 1.0")
    assert "your-farm 1.0" in one
    assert other.startswith("package your-farm 1.0")
    assert "my-farm 1.0" in other
    assert catalog.plugins == {}


def test_a_knob_that_two_plugins_declare_for_one_cell_is_refused(site: Path) -> None:
    install(site, {"workloads/line_fit.yaml": WORKLOAD})
    stack = {**STACK, "backend": "your_farm.x:Y", "knobs": {"points": KNOB}}
    install(site, {"stacks/a.yaml": stack}, name="your-farm", package="your_farm")
    assert len([line for line in left_out(load_catalog()) if "knob points" in line]) == 2


def test_two_distributions_cannot_have_one_package(site: Path) -> None:
    install(site)
    install(site, name="your-farm")
    assert [("my-farm" in line, "your-farm" in line) for line in left_out(load_catalog())] == [
        (True, True)
    ] * 2


def test_one_wrong_plugin_does_not_take_another_with_it(site: Path) -> None:
    install(site)
    wrong = {"workloads/a.yaml": "a: [1"}
    install(site, wrong, name="your-farm", package="your_farm")
    catalog = load_catalog()
    (line,) = left_out(catalog)
    assert line.startswith("package your-farm 1.0")
    assert "line_fit" in catalog.workloads


def test_the_digest_tells_plugins_manifests_and_versions(site: Path) -> None:
    seen = [manifests_digest()]
    folder = install(site)
    seen.append(manifests_digest())
    assert manifests_digest() == seen[-1]
    (folder / "manifests/workloads/line_fit.yaml").write_text("name: a")
    seen.append(manifests_digest())
    info = site / "my_farm-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-farm\nVersion: 2.0\n")
    seen.append(manifests_digest())
    (info / "entry_points.txt").unlink()
    seen.append(manifests_digest())
    assert len({*seen[:4]}) == 4
    assert seen[4] == seen[0]


def test_the_digest_of_a_plugin_tells_its_files(site: Path) -> None:
    folder = install(site, files={**CODE, "weights.bin": "ab"})

    def digest() -> str:
        (found,), _ = installed_plugins()
        return found.plugin.digest

    seen = [digest()]
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/line_fit.cpython-311.pyc").write_text("compiled")
    assert digest() == seen[0]
    for name, text in (("line_fit.py", "class Other: ..."), ("new.py", ""), ("weights.bin", "abc")):
        (folder / name).write_text(text)
        seen.append(digest())
    assert len({*seen}) == 4
