"""Descriptions of published systems: flat, with the facts that results of ours have, too. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.result import Environment

MOST_FACTS: Final = 200
LONGEST: Final = 2000
"""Characters of a fact that are kept."""
_NONE: Final = frozenset({"", "0", "n/a", "na", "none", "-"})
_FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "soc": ("system.SoC_ID", "system.Processor_name", "host_processor_model_name"),
    "android": ("software.Android_version",),
    "model": ("notes.SoC Product information", "system_name"),
    "os": ("operating_system", "software.OS_version"),
}
"""Fact of ours → where a description may have it; the first that is not empty."""
_OF_HOST: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu_model": ("host_processor_model_name",),
    "os": ("operating_system",),
}


def flat(described: object, prefix: str = "") -> dict[str, Scalar]:
    """Return the scalars of a description by their paths, empty ones left out."""
    found: dict[str, Scalar] = {}
    _flatten(described, prefix, found)
    return found


def _flatten(value: object, path: str, found: dict[str, Scalar]) -> None:
    if len(found) >= MOST_FACTS:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(inner, f"{path}.{key}" if path else str(key), found)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _flatten(inner, f"{path}.{number}", found)
    elif isinstance(value, bool | int | str) and value != "":
        found[path[:LONGEST]] = value[:LONGEST] if isinstance(value, str) else value
    elif isinstance(value, float) and abs(value) < float("inf"):
        found[path[:LONGEST]] = value


def kind_of(described: Mapping[str, Scalar]) -> DeviceKind:
    """Return what a system of MLPerf Mobile is: a phone, unless Windows runs on it."""
    said = " ".join(str(described.get(name, "")) for path in _FACTS.values() for name in path)
    return DeviceKind.CPU_HOST if "windows" in said.lower() else DeviceKind.ANDROID


def facts_of(described: Mapping[str, Scalar], kind: DeviceKind) -> Environment:
    """Return the facts that results of ours have, as far as the description says them."""
    wanted = _OF_HOST if kind is DeviceKind.CPU_HOST else _FACTS
    said = {
        fact: next((str(described[name]) for name in names if name in described), None)
        for fact, names in wanted.items()
    }
    return {fact: value for fact, value in said.items() if value}


def objection(described: Mapping[str, Scalar]) -> str:
    """Return why a system of MLPerf Inference is not an edge CPU; empty for one that is."""
    if not described:
        return "no description in systems, so whether it is an edge system without accelerator"
    if "edge" not in str(described.get("system_type", "")).lower():
        return f"its system_type is {str(described.get('system_type', 'missing'))[:40]}, not edge"
    for name in ("accelerators_per_node", "accelerator_model_name"):
        said = str(described.get(name, "")).strip().lower()
        if said not in _NONE:
            return f"it has accelerators ({name} {said[:60]})"
    return ""


def accuracy_of(text: str) -> tuple[str, float] | None:
    """Return metric and value of an `accuracy.txt` of MLPerf Inference; None if it says none."""
    patterns = (
        (r"(?:^|\s)accuracy=([0-9.]+)%", "top1", 0.01),
        (r'"f1": ([0-9.]+)', "F1", 0.01),
        (r"(?:^|\s)mAP=([0-9.]+)%", "mAP", 0.01),
    )
    for pattern, metric, scale in patterns:
        if found := re.search(pattern, text):
            try:
                return metric, float(found[1]) * scale
            except ValueError:
                return None
    return None
