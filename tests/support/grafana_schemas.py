"""Grafana's official JSON schemas, where the tester has them: they are no part of this project.

They are looked for in the folder `grafana` of `BENCHFARM_TEST_DATA`, and of `shared/data` beside
this checkout.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

Json = dict[str, Any]

_PLACES = (os.environ.get("BENCHFARM_TEST_DATA"), Path(__file__).parents[3] / "shared/data")
_ANY = {"type": "object", "additionalProperties": {}}
"""How the schemas write `any`; a dashboard's own overrides say what kind of any they are."""
_REALLY_ANY = (("DynamicConfigValue", "value"), ("MatcherConfig", "options"))
"""Properties that Grafana itself fills with strings, numbers and lists."""


def schema(name: str) -> Json:
    """Return a schema; skips the test where the schemas are not there."""
    for place in _PLACES:
        file = Path(place) / "grafana" / f"{name}.jsonschema.json" if place else None
        if file and file.is_file():
            loaded: Json = json.loads(file.read_text())
            return _corrected(loaded)
    pytest.skip("no JSON schemas of Grafana: set BENCHFARM_TEST_DATA to a folder with grafana/")


def errors(name: str, instance: object, definition: str | None = None) -> list[str]:
    """Return what a schema, or one of its definitions, has against an instance."""
    whole = schema(name)
    if definition is not None:
        whole = {**whole, "$ref": f"#/definitions/{definition}"}
    found = Draft7Validator(whole).iter_errors(instance)
    return [
        f"{name}: {'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found
    ]


def dashboard_errors(dashboard: Mapping[str, Any]) -> Iterator[str]:
    """Yield everything the schemas have against a dashboard, its panels and its queries."""
    yield from errors("dashboard", dashboard)
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield from _panel_errors(panel)
    for annotation in dashboard["annotations"]["list"]:
        yield from errors("prometheus", annotation["target"])


def _panel_errors(panel: Mapping[str, Any]) -> Iterator[str]:
    kind = panel["type"].replace("-", "")
    yield from errors(kind, panel.get("options", {}), "Options")
    if "FieldConfig" in schema(kind)["definitions"]:
        yield from errors(kind, panel["fieldConfig"]["defaults"].get("custom", {}), "FieldConfig")
    for target in panel["targets"]:
        yield from errors("prometheus", target)


def units() -> frozenset[str]:
    """Return the units that Grafana knows."""
    return frozenset(unit["const"] for unit in schema("units")["definitions"].values())


def _corrected(whole: Json) -> Json:
    for definition, name in _REALLY_ANY:
        properties = whole["definitions"].get(definition, {}).get("properties", {})
        if name in properties:
            properties[name].pop("description", None)
            assert properties[name] == _ANY
            properties[name] = {}
    return whole
