"""The models and data sets in the catalogue, and which of their files are in the store."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from controller.contracts.catalog import (
    load_catalog,
    registered_writers,
    require_no_code,
    require_program,
    user_programs,
)
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.errors import UserError
from controller.contracts.manifests import StackManifest, WorkloadManifest
from controller.contracts.mobile import DatasetPart, ModelFile, OnDevice
from controller.contracts.models import Added, ModelStatus
from controller.contracts.unreadable import UNREADABLE, reason
from models.mobile.datasets.check import SAMPLES, require_samples, require_truth
from models.mobile.errors import ContentDiffers
from models.mobile.signature import require_signature
from models.mobile.store import Store, digests, model_file, readable, stored

TASKS: Final = "tasks"
"""Folder of the store for tasks that this user has added."""
SEE: Final = "Correct it; docs/adding.md, A program of your own, has the format."
_FORMAT: Final = "Correct it; docs/adding.md has the format."


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder that a manifest names."""

    key: str
    """WORKLOAD/models/NUMERICS, WORKLOAD/DATASET/PART, or STACK/files/NAME."""
    workload: OnDevice | None
    """None for a file of a user's program."""
    content: ModelFile | DatasetPart

    @property
    def own(self) -> bool:
        """Whether the project includes it."""
        return isinstance(self.content, ModelFile) and self.content.path is not None


def entries() -> Iterator[Entry]:
    """Yield the files that manifests name; raises SweepInvalid if a manifest is broken."""
    catalog = load_catalog()
    for name, stack in catalog.stacks.items():
        for file, known in stack.command.files.items() if stack.command else ():
            yield Entry(f"{name}/files/{file}", None, known)
    for name, manifest in catalog.workloads.items():
        if workload := manifest.on_device:
            for numerics, model in workload.models.items():
                yield Entry(f"{name}/models/{numerics}", workload, model)
            for size, dataset in workload.datasets.items():
                for part, content in dataset.parts.items():
                    yield Entry(f"{name}/{size}/{part}", workload, content)


def statuses(store: Store) -> list[ModelStatus]:
    """Return the status of every file that a manifest names; raises FileUnreadable."""
    return [_status(store, entry) for entry in entries()]


def _status(store: Store, entry: Entry) -> ModelStatus:
    content = entry.content
    with readable(entry.key):
        checksum = content.checksum or store.pinned(entry.key)
        there = entry.own or bool(checksum and store.has(checksum))
    return ModelStatus(
        key=entry.key,
        there=there,
        surrogate=entry.workload is not None and entry.workload.surrogate,
        checksum=checksum,
        source="comes with benchfarm" if entry.own else content.source,
    )


def verify(store: Store) -> list[ModelStatus]:
    """Check every stored file: checksums, and the signatures of models.

    Raises FileUnreadable if the store can't be listed.
    """
    return [
        status.model_copy(update={"trouble": _trouble(store, entry)}) if status.there else status
        for entry in entries()
        for status in [_status(store, entry)]
    ]


def _trouble(store: Store, entry: Entry) -> str | None:
    try:
        if entry.workload and isinstance(entry.content, ModelFile):
            model = _model(store, entry.content, entry.key)
            require_signature(model, entry.workload.signature, entry.key)
        else:
            stored(store, entry.content, entry.key)
    except UserError as error:
        return str(error)
    return None


def _model(store: Store, model: ModelFile, key: str) -> Path:
    return model_file(store, Path(str(files("models"))), model, key)


def add(store: Store, path: Path, key: str | None) -> list[Added]:
    """Add a file or folder; raises UserError, and then adds nothing.

    A file is identified by its checksum; a folder is searched for files that manifests name. A task
    (`.yaml`), and a `.tflite` that no manifest names, become workloads of this user. `key` is for
    files without a published checksum.
    """
    try:
        if key:
            return [_pin(store, path, key)]
        if path.is_dir():
            found = [a for file in _files(path) if (a := _add_known(store, file))]
            if not found:
                seen = "no manifest names a file in this folder"
                raise UserError(
                    f"add {path}", seen, "If the folder is a data set, add it with --as KEY."
                )
            return found
        if known := _add_known(store, path):
            return [known]
        return [_add_task(store, path)]
    except OSError as error:
        remedy = "Name a file or folder that can be read."
        raise UserError(f"add {path}", error.strerror or str(error), remedy) from error


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _add_known(store: Store, path: Path) -> Added | None:
    found = set(digests(path).values())
    matching = [entry for entry in entries() if entry.content.checksum in found]
    if not matching:
        return None
    for entry in matching:
        _require_fit(path, entry)
    store.add(path)
    return Added(path=str(path), keys=tuple(entry.key for entry in matching))


def _require_fit(path: Path, entry: Entry) -> None:
    if entry.workload and isinstance(entry.content, ModelFile):
        require_signature(path, entry.workload.signature, entry.key)


def _pin(store: Store, path: Path, key: str) -> Added:
    known = {entry.key: entry for entry in entries()}
    if key not in known:
        near = [k for k in known if k.startswith(f"{key.split('/')[0]}/")]
        raise UserError(
            f"add {path} as {key}",
            "no manifest has that key",
            f"Choose among {', '.join(near or known)}.",
        )
    entry = known[key]
    if entry.content.checksum:
        seen = digests(path) if path.is_file() else {}
        if entry.content.checksum not in seen.values():
            raise ContentDiffers(
                f"add {path} as {key} (checksum)",
                f"it is {seen.get('md5', 'a folder')}, not {entry.content.checksum}",
                "Add the file that was published.",
            )
    _require_fit(path, entry)
    if not entry.content.checksum:
        _require_part(store, path, entry)
    store.pin(key, store.add(path)["sha256"])
    return Added(path=str(path), keys=(key,))


def _require_part(store: Store, path: Path, entry: Entry) -> None:
    """Check a part of a data set without a published checksum; raises UserError.

    To replace both parts, add the samples first: the truth is checked against them.
    """
    _, size, part = entry.key.split("/")
    dataset = entry.workload.datasets.get(size) if entry.workload else None
    if entry.workload is None or dataset is None:  # a file of a program or model
        return
    field = entry.key.rpartition("/")[0]
    if part == SAMPLES:
        require_samples(dataset, entry.workload.input, path, field)
        return
    checksum = dataset.parts[SAMPLES].checksum or store.pinned(f"{field}/{SAMPLES}")
    samples = store.find(checksum) if checksum else None
    require_truth(dataset, entry.workload.input, path, samples, field)


def _add_task(store: Store, path: Path) -> Added:
    tasks = store.folder / TASKS
    if path.suffix == ".yaml":
        content = _content(path)
        if isinstance(content, dict) and "command" in content:
            return _add_stack(content, path)
        name = _checked_task(store, content, path).name
        tasks.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, tasks / f"{name}.yaml")
        return Added(path=str(path), keys=(), workload=name)
    if path.suffix != ".tflite":
        raise UserError(
            f"add {path}",
            "no manifest names it",
            "Give a .tflite file, a task (.yaml), or use --as KEY.",
        )
    from models.mobile.signature import read_signature

    read_signature(path)
    name = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_")
    task = _task_of(name, path)
    _require_new(name, path)
    store.add(path)
    tasks.mkdir(parents=True, exist_ok=True)
    (tasks / f"{name}.yaml").write_text(yaml.safe_dump(task, sort_keys=False))
    return Added(path=str(path), keys=(f"{name}/models/file",), workload=name)


def _content(path: Path) -> object:
    """Return the content of a task's or a stack's file; raises UserError."""
    try:
        return load_yaml(read_limited(path))
    except UNREADABLE as error:
        raise UserError(f"read {path}", reason(error), _FORMAT) from error


def _add_stack(content: dict[object, object], path: Path) -> Added:
    """Add a program as a stack; raises UserError."""
    try:
        stack = StackManifest.model_validate(content)
    except ValidationError as error:
        raise UserError(f"read stack {path}", reason(error), SEE) from error
    require_program(stack, load_catalog().stacks, path)
    programs = user_programs()
    programs.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, programs / f"{stack.name}.yaml")
    files = stack.command.files if stack.command else {}
    missing = tuple(f"{stack.name}/files/{name}" for name in files)
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
    for numerics, model in task.on_device.models.items():
        if model.path:
            _model(store, model, f"{task.name}/models/{numerics}")
    return task


def _require_new(name: str, path: Path) -> None:
    if name in load_catalog().workloads:
        raise UserError(
            f"add {path}", f"the workload {name} exists already", "Give it another name."
        )
