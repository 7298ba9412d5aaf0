"""Plugins as pip installs them: a package beside its `dist-info`, in a folder on Python's path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from controller.contracts.plugins import GROUP

CODE = {"__init__.py": "raise SystemExit('imported')\n", "line_fit.py": "class LineFit: ...\n"}
"""A package whose code must not run where its manifests are read."""
KNOB = {"type": "int", "default": 4, "min": 1, "unit": "points", "description": "Points."}
WORKLOAD = {
    "name": "line_fit",
    "title": "A line",
    "task": "regression",
    "reference": "least squares",
    "builder": "my_farm.line_fit:LineFit",
    "scenarios": ["training"],
    "knobs": {"points": KNOB},
}
STACK = {
    "name": "torch-mine",
    "title": "My torch",
    "device_kinds": ["cpu_host"],
    "backend": "my_farm.backend:Mine",
    "knobs": {"speed": {**KNOB, "unit": "x"}},
}
SCENARIO = {
    "name": "first_step",
    "title": "First step",
    "metric": "step_time",
    "module": "my_farm.first_step",
    "workloads": ["resnet50"],
}
MANIFESTS: Mapping[str, object] = {
    "workloads/line_fit.yaml": WORKLOAD,
    "stacks/torch-mine.yaml": STACK,
    "scenarios/first_step.yaml": SCENARIO,
}


def install(
    site: Path,
    manifests: Mapping[str, object] = MANIFESTS,
    *,
    name: str = "my-farm",
    version: str = "1.0",
    package: str = "my_farm",
    entry_points: str | None = None,
    files: Mapping[str, str] = CODE,
    record: bool = True,
) -> Path:
    """Write a plugin into a folder of Python's path; return the folder of its package.

    manifests: path below `manifests` → content, YAML text or what is written as YAML. entry_points:
    the file's text; it names `package` by default. record: whether its files are listed.
    """
    folder = site / package
    written = {f"{package}/{path}": text for path, text in files.items()}
    for path, content in manifests.items():
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        written[f"{package}/manifests/{path}"] = text
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    written[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    default = f"[{GROUP}]\n{package} = {package}\n"
    written[f"{info}/entry_points.txt"] = default if entry_points is None else entry_points
    if record:
        written[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in written)
    for path, text in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    return folder


def install_editable(site: Path, source: Path) -> None:
    """Write a plugin as `pip install --editable` does: its package stays in another folder."""
    install(source)
    info = next(source.glob("*.dist-info")).rename(site / "my_farm-1.0.dist-info")
    (info / "RECORD").write_text("my_farm-1.0.dist-info/METADATA,,\n_my_farm.pth,,\n")
    told = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(told))
