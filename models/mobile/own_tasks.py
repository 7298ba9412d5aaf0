"""Tasks, programs and models of the user's own, which become workloads and stacks."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from controller.contracts.added_manifests import (
    require_no_code,
    require_program,
    require_task_knobs,
)
from controller.contracts.catalog import load_catalog, registered_writers, user_programs
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.errors import UserError
from controller.contracts.manifests import StackManifest, WorkloadManifest
from controller.contracts.models import Added
from controller.contracts.suite_version import with_versions
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.atomic import replacing
from models.mobile.signature import read_signature
from models.mobile.store import Store, digests, model_file

TASKS: Final = "tasks"
"""Folder of the store for tasks that this user has added."""
SEE: Final = "Correct it; docs/adding.md, A program of your own, has the format."
_FORMAT: Final = "Correct it; docs/adding.md has the format."


def add_task(store: Store, path: Path) -> Added:
    """Add a task, a program or a model without a task; raises UserError."""
    if path.suffix == ".yaml":
        raw, content = _read(path)
        if isinstance(content, dict) and "command" in content:
            return _add_stack(content, raw, path)
        name = _checked_task(store, content, path).name
        _write(store.folder / TASKS, name, raw)
        return Added(path=str(path), keys=(), workload=name)
    if path.suffix != ".tflite":
        raise UserError(
            f"add {path}",
            "no manifest names it",
            "Give a .tflite file, a task (.yaml), or use --as KEY.",
        )
    read_signature(path)
    name = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_")
    task = _task_of(name, path)
    _require_new(name, path)
    store.add(path)
    _write(store.folder / TASKS, name, yaml.safe_dump(task, sort_keys=False).encode())
    return Added(path=str(path), keys=(f"{name}/models/file",), workload=name)


def _write(folder: Path, name: str, manifest: bytes) -> None:
    """Write a manifest as a whole or not at all: the catalogue reads all that are in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{name}.yaml") as new:
        new.write_bytes(manifest)


def _read(path: Path) -> tuple[bytes, object]:
    """Return a task's or a stack's file, and its content; raises UserError."""
    try:
        raw = read_limited(path)
        return raw, load_yaml(raw)
    except UNREADABLE as error:
        raise UserError(f"read {path}", reason(error), _FORMAT) from error


def _add_stack(content: dict[object, object], raw: bytes, path: Path) -> Added:
    """Add a program as a stack; raises UserError."""
    try:
        stack = StackManifest.model_validate(content)
    except ValidationError as error:
        raise UserError(f"read stack {path}", reason(error), SEE) from error
    require_program(stack, load_catalog().manifests, path)
    _write(user_programs(), stack.name, raw)
    named = stack.command.files if stack.command else {}
    missing = tuple(f"{stack.name}/files/{name}" for name in named)
    return Added(path=str(path), keys=missing, stack=stack.name)


def _task_of(name: str, path: Path) -> dict[str, Any]:
    """Return a manifest for a model without a task; raises UserError for an unusable name.

    Its inputs are random, and its outputs are not scored.
    """
    as_it_is = {"type": "str", "default": "file", "choices": ["file"]}
    task = {
        "name": name,
        "title": f"{path.name}, added by this user",
        "task": "none",
        "reference": path.name,
        "on_device": {
            "models": {"file": {"checksum": digests(path)["sha256"]}},
            "input": {"kind": "random"},
            "output": {"kind": "raw"},
        },
        "scenarios": ["single_stream", "multi_stream", "offline", "server"],
        "knobs": {"numerics": {**as_it_is, "description": "as it is in the file"}},
    }
    try:
        WorkloadManifest.model_validate(task)
    except ValidationError as error:
        tried = f"add {path} as workload {name!r}"
        raise UserError(tried, reason(error), "Rename the file.") from error
    return task


def _checked_task(store: Store, content: object, path: Path) -> WorkloadManifest:
    try:
        task = WorkloadManifest.model_validate(content)
    except ValidationError as error:
        raise UserError(f"read task {path}", reason(error), _FORMAT) from error
    require_no_code(task, registered_writers(), path)
    if task.on_device is None:
        raise UserError(f"read task {path}", "the key on_device is missing", _FORMAT)
    _require_new(task.name, path)
    require_task_knobs(with_versions(task), load_catalog().manifests, path)
    package = Path(str(files("models")))
    for numerics, model in task.on_device.models.items():
        if model.path:
            model_file(store, package, model, f"{task.name}/models/{numerics}")
    return task


def _require_new(name: str, path: Path) -> None:
    if name in load_catalog().workloads:
        raise UserError(
            f"add {path}", f"the workload {name} exists already", "Give it another name."
        )
