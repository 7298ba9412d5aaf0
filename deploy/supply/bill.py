"""Writes the bill of materials of a wheel, as CycloneDX 1.6 in JSON: `make dist`.

It lists what is pinned for PyPI, what is asked of Debian, and what bundles for phones are made of.
Licences are those that the packages installed here state, SHA-256 sums those of the files that pip
would install here. What is not known is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from agents.inference.bundle.recipe import Recipe, files_of, recipe_named, recipe_names
from controller.platform.programs import python_module
from deploy.supply.pins import LOCK, ROOT, LockUnreadable, Pin, pins_of

DEBIAN = Path("deploy/debian_packages.sh")
PLACE = "benchfarm:pinned-in"
_LICENCE = re.compile(r"License :: .+ :: ")
LONGEST_LICENCE = 100
"""Characters; a longer one is the text of a licence, not its name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A package of some version, which files pin it, and what is known of it."""

    purl: PackageURL
    version: str
    places: tuple[str, ...]
    licence: str = ""
    sha256: frozenset[str] = frozenset()
    scope: ComponentScope | None = None


def of_pypi(pins: Iterable[Pin], sums: Mapping[tuple[str, str], str]) -> Iterator[Item]:
    """Yield what is pinned. sums: (normal name, version) → SHA-256."""
    for pin in pins:
        version = str(pin.version)
        yield Item(
            PackageURL("pypi", name=pin.name, version=version),
            version,
            pin.places,
            licence_of(pin.name, version),
            frozenset({sums[pin.name, version]} if (pin.name, version) in sums else ()),
        )


def of_bundles(recipes: Iterable[Recipe]) -> Iterator[Item]:
    """Yield what bundles are made of. A Debian version may end in `*`: updates are let in."""
    for recipe in recipes:
        places = tuple(str(path.relative_to(ROOT)) for path in files_of(recipe))
        for name, version in recipe.of_debian.items():
            release = {"arch": recipe.debian.arch, "distro": recipe.debian.release}
            purl = PackageURL("deb", "debian", name, qualifiers=release)
            yield Item(purl, version, places)
        for name, wheel in recipe.of_pypi.items():
            purl = PackageURL("pypi", name=name, version=wheel.version)
            licence = licence_of(name, wheel.version)
            yield Item(purl, wheel.version, places, licence, frozenset({wheel.sha256}))


def of_debian(root: Path = ROOT) -> Iterator[Item]:
    """Yield what `make setup` and `make test` ask Debian for; versions if installed here."""
    for words, scope in (("setup", None), ("tests", ComponentScope.EXCLUDED)):
        listed = subprocess.run(
            ["bash", "-c", f". {DEBIAN}; packages_for_{words}"],
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for name in listed.stdout.split():
            purl = PackageURL("deb", "debian", name)
            yield Item(purl, installed_version(name), (str(DEBIAN),), scope=scope)


def installed_version(package: str) -> str:
    """Return the version of a Debian package; "" if it is not installed."""
    found = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Version}", package],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return found.stdout.strip() if found.returncode == 0 else ""


def licence_of(name: str, version: str) -> str:
    """Return the licence that a package states; "" if that version is not installed here."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return ""
    if found.version.partition("+")[0] != version:
        return ""
    stated = [value for key in ("License-Expression", "License") for value in _all(found, key)]
    classified = [c.rpartition(" :: ")[2] for c in _all(found, "Classifier") if _LICENCE.match(c)]
    words = (text for text in (*stated, " AND ".join(classified)) if text and text != "UNKNOWN")
    return next((text for text in words if len(text) <= LONGEST_LICENCE and "\n" not in text), "")


def _all(found: metadata.Distribution, key: str) -> Sequence[str]:
    return found.metadata.get_all(key) or ()


def once(items: Iterable[Item]) -> list[Item]:
    """Return each package of each version once, with all that pins it."""
    found: dict[str, Item] = {}
    for item in items:
        key = str(item.purl)
        known = found.get(key, item)
        places = tuple(dict.fromkeys((*known.places, *item.places)))
        found[key] = replace(
            known,
            places=places,
            licence=known.licence or item.licence,
            sha256=known.sha256 | item.sha256,
        )
    return [item for _, item in sorted(found.items())]


def component(item: Item) -> Component:
    """Return an entry of the bill."""
    return Component(
        name=item.purl.name,
        version=item.version or None,
        type=ComponentType.LIBRARY,
        bom_ref=str(item.purl),
        purl=item.purl,
        scope=item.scope,
        licenses=_licences(item.licence),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sum_) for sum_ in item.sha256],
        properties=[Property(name=PLACE, value=place) for place in item.places],
    )


def _licences(stated: str) -> list[License]:
    return [LicenseFactory().make_from_string(stated)] if stated else []


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bill_of(wheel: Path, items: Iterable[Item]) -> str:
    """Return the bill of a wheel, as JSON."""
    name, version = wheel.name.split("-")[:2]
    sums = [HashType(alg=HashAlgorithm.SHA_256, content=_sha256(wheel))]
    top = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=wheel.name,
        purl=PackageURL("pypi", name=name, version=version),
        licenses=_licences(licence_of(name, version)),
        hashes=sums,
    )
    entries = [component(item) for item in once(items)]
    bom = Bom(components=entries)
    bom.metadata.component = top
    bom.register_dependency(top, entries)
    return str(JsonV1Dot6(bom).output_as_string(indent=1))


def sums_of(report: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return SHA-256 sums of pip's installation report, by normal name and version."""
    found: dict[tuple[str, str], str] = {}
    for one in report["install"]:
        about, archive = one["metadata"], one["download_info"].get("archive_info", {})
        if sha256 := archive.get("hashes", {}).get("sha256"):
            version = about["version"].partition("+")[0]
            found[canonicalize_name(about["name"]), version] = sha256
    return found


def ask_pip(root: Path = ROOT) -> dict[tuple[str, str], str]:
    """Return sums of the files that pip would install here; none, with a line, if it can't say."""
    torch = [f"{p.name}=={p.version}" for p in pins_of(root) if "pyproject.toml" in p.places]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--no-input")
        asked = subprocess.run(
            python_module(
                "pip", "install", *options, "--report", str(report), *torch, "-r", str(LOCK)
            ),
            cwd=root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if asked.returncode == 0:
            return sums_of(json.loads(report.read_text()))
    why = (asked.stderr.strip().splitlines() or ["no reason given"])[-1]
    say(f"warning: no SHA-256 sums: pip can't say what it would install: {why}")
    return {}


def say(text: str) -> None:
    """Tell whoever called."""
    print(f"bill: {text}", file=sys.stderr)  # noqa: T201


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bill of the wheel in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="Folder of one wheel; the bill is written there.")
    folder = parser.parse_args(arguments).folder
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        say(f"cannot write: {folder} holds {len(wheels)} wheels. Call it by make dist.")
        return 2
    recipes = map(recipe_named, recipe_names())
    try:
        items = [*of_pypi(pins_of(), ask_pip()), *of_bundles(recipes), *of_debian()]
    except LockUnreadable as error:
        say(str(error))
        return 2
    bill = wheels[0].with_suffix(".cdx.json")
    bill.write_text(bill_of(wheels[0], items))
    return 0


if __name__ == "__main__":
    sys.exit(main())
