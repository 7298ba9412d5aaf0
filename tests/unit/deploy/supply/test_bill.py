"""The bill of materials: valid, and each package that is pinned in it once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from agents.inference.bundle.recipe import recipe_named, recipe_names
from deploy.supply.bill import (
    PLACE,
    Item,
    bill_of,
    main,
    of_bundles,
    of_debian,
    of_pypi,
    once,
    sums_of,
)
from deploy.supply.pins import LOCK, ROOT, Pin, pins_of

SUM = "ab" * 32
ARCHS = ("x86_64", "arm64-v8a")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    wheel = tmp_path_factory.mktemp("dist") / "benchfarm-0.2.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    recipes = map(recipe_named, recipe_names())
    sums = {("numpy", "2.4.6"): SUM}
    return bill_of(wheel, [*of_pypi(pins_of(), sums), *of_bundles(recipes), *of_debian()])


@pytest.fixture(scope="module")
def bill(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture(scope="module")
def by_purl(bill: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["purl"]: entry for entry in bill["components"]}


def test_it_is_cyclonedx(text: str, bill: dict[str, Any]) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    top = bill["metadata"]["component"]
    assert (top["name"], top["version"], top["type"]) == ("benchfarm", "0.2.0", "application")
    assert top["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert [sum_["alg"] for sum_ in top["hashes"]] == ["SHA-256"]


def test_each_line_of_the_lock_is_in_it_once(bill: dict[str, Any]) -> None:
    listed = Counter(
        (entry["name"], Version(entry["version"]))
        for entry in bill["components"]
        if {"name": PLACE, "value": str(LOCK)} in entry["properties"]
    )
    lines = [line for line in (ROOT / LOCK).read_text().splitlines() if not line.startswith("#")]
    pinned = map(Requirement, lines)
    names = [(canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")) for pin in pinned]
    assert listed == Counter({(name, Version(version)): 1 for name, version in names})


def test_each_package_is_listed_once_and_the_wheel_depends_on_all(bill: dict[str, Any]) -> None:
    purls = [entry["purl"] for entry in bill["components"]]
    assert len(purls) == len({*purls})
    top = bill["metadata"]["component"]["bom-ref"]
    (needs,) = [d["dependsOn"] for d in bill["dependencies"] if d["ref"] == top]
    assert sorted(needs) == sorted(purls)


def test_what_is_known_of_a_package_is_told(by_purl: dict[str, dict[str, Any]]) -> None:
    numpy = by_purl["pkg:pypi/numpy@2.4.6"]
    places = [found["value"] for found in numpy["properties"]]
    assert sorted(places) == [
        "agents/inference/bundle/architectures/arm64-v8a.yaml",
        "agents/inference/bundle/architectures/x86_64.yaml",
        "agents/inference/bundle/common.yaml",
        "agents/inference/bundle/runtimes/litert.yaml",
        "agents/stacks/locks/ipex.txt",
        "requirements/lock.txt",
    ]
    pinned = {recipe_named(f"litert-{arch}").of_pypi["numpy"].sha256 for arch in ARCHS}
    assert {sum_["content"] for sum_ in numpy["hashes"]} == {SUM, *pinned}
    assert numpy["licenses"]
    assert by_purl["pkg:pypi/httpx@0.28.1"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert "licenses" not in by_purl["pkg:pypi/torch@2.8.0"], "that one is not installed here"


def test_debian_and_bundles_are_in_it(by_purl: dict[str, dict[str, Any]]) -> None:
    assert by_purl["pkg:deb/debian/libc6?arch=amd64&distro=bookworm"]["version"].startswith("2.36")
    assert "scope" not in by_purl["pkg:deb/debian/prometheus"]
    assert by_purl["pkg:deb/debian/redis-server"]["scope"] == "excluded"
    assert by_purl["pkg:pypi/tflite-runtime@2.14.0"]["hashes"]
    assert by_purl["pkg:pypi/ziglang@0.17.1"]["hashes"], "what compiles is in it, too"
    assert "pkg:deb/debian/libpython3.11-dev?arch=arm64&distro=bookworm" in by_purl


def test_two_places_of_one_package_are_one_entry() -> None:
    purl = PackageURL("pypi", name="x", version="1")
    items = [Item(purl, "1", ("a",), sha256=frozenset({"1"})), Item(purl, "1", ("b", "a"), "MIT")]
    assert once(items) == [Item(purl, "1", ("a", "b"), "MIT", frozenset({"1"}))]


def test_sums_are_those_of_pips_report() -> None:
    report = {
        "install": [
            {
                "metadata": {"name": "Num.Py", "version": "1.0+cpu"},
                "download_info": {"archive_info": {"hashes": {"sha256": SUM}}},
            },
            {"metadata": {"name": "b", "version": "2"}, "download_info": {"dir_info": {}}},
        ]
    }
    assert sums_of(report) == {("num-py", "1.0"): SUM}
    pin = Pin("num-py", Version("1.0"), ("x",))
    (item,) = of_pypi([pin], sums_of(report))
    assert item.sha256 == {SUM}


def test_a_folder_without_a_wheel_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "holds 0 wheels. Call it by make dist." in capsys.readouterr().err
