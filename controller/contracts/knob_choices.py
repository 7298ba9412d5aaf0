"""Choices of knobs that are the names of modules, for the project's own manifests."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from controller.contracts.documents import DocumentRefused, short


def with_choices(document: object) -> object:
    """Return the manifest with `choices` in the place of each knob's `choices_in`."""
    knobs = document.get("knobs") if isinstance(document, dict) else None
    if not (isinstance(document, dict) and isinstance(knobs, dict)):
        return document
    return {**document, "knobs": {name: _chosen(knob) for name, knob in knobs.items()}}


def _chosen(knob: object) -> object:
    if not (isinstance(knob, dict) and isinstance(knob.get("choices_in"), str)):
        return knob
    rest = {key: value for key, value in knob.items() if key != "choices_in"}
    return {**rest, "choices": _modules_in(knob["choices_in"])}


def _modules_in(folder: str) -> list[str]:
    """Return the modules of a folder such as `kernels/ops`, found on disk without importing them.

    Raises DocumentRefused if there are none.
    """
    package, _, rest = folder.partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    found = sorted(
        path.stem
        for location in (spec.submodule_search_locations or () if spec else ())
        for path in (Path(location) / rest).glob("[!_]*.py")
    )
    if not found:
        raise DocumentRefused(f"choices_in: {short(folder)} has no modules")
    return found
