"""The models and data sets in the catalogue, and which of their files are in the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.contracts.mobile import DatasetPart, ModelFile, OnDevice
from controller.contracts.models import Added, ModelStatus
from controller.contracts.weights import KNOB, NAME, NO_WEIGHTS, Weights, weights_key
from models.mobile.datasets.check import SAMPLES, require_samples, require_truth
from models.mobile.errors import ContentDiffers, not_written
from models.mobile.links import not_followed
from models.mobile.own_tasks import add_task
from models.mobile.remedies import command_for, does_not_count
from models.mobile.signature import require_signature
from models.mobile.store import Store, digests, files_in, model_file, readable, stored


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder that a manifest names."""

    key: str
    """WORKLOAD/models/NUMERICS, WORKLOAD/DATASET/PART, WORKLOAD/weights/NAME, or
    STACK/files/NAME."""
    workload: OnDevice | None
    """None for weights, and for a file of a user's program."""
    content: ModelFile | DatasetPart

    @property
    def own(self) -> bool:
        """Whether the project includes it."""
        return isinstance(self.content, ModelFile) and self.content.path is not None

    @property
    def is_weights(self) -> bool:
        """Whether a model that trains can begin with it."""
        return isinstance(self.content, Weights)

    @property
    def is_model(self) -> bool:
        """Whether it is a model, or a file of a user's program; else it is of a data set."""
        return isinstance(self.content, ModelFile)

    @property
    def size(self) -> str:
        """Number format of a model; name of weights; size of a data set, such as `full`."""
        _, middle, last = self.key.split("/")
        return last if self.is_model else middle

    @property
    def kind(self) -> str | None:
        """Kind of its data set; None for another file."""
        if self.workload is None or self.is_model:
            return None
        return self.workload.datasets[self.size].kind

    @property
    def licence(self) -> str | None:
        """Name of the licence, if it is known."""
        if isinstance(self.content, ModelFile):
            return self.content.licence
        return self.workload.datasets[self.size].licence if self.workload else None


def entries() -> Iterator[Entry]:
    """Yield the files that manifests name; raises SweepInvalid if a manifest is broken."""
    catalog = load_catalog()
    for name, stack in catalog.stacks.items():
        for file, known in stack.command.files.items() if stack.command else ():
            yield Entry(f"{name}/files/{file}", None, known)
    for name, manifest in catalog.workloads.items():
        for weights, published in (manifest.weights or {}).items():
            yield Entry(weights_key(name, weights), None, published)
        if workload := manifest.on_device:
            for numerics, model in workload.models.items():
                yield Entry(f"{name}/models/{numerics}", workload, model)
            for size, dataset in workload.datasets.items():
                for part, content in dataset.parts.items():
                    yield Entry(f"{name}/{size}/{part}", workload, content)


def statuses(store: Store) -> list[ModelStatus]:
    """Return the status of every file that a manifest names; raises FileUnreadable."""
    return [_status(store, entry) for entry in (*entries(), *added_weights(store))]


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
    """Check the stored files that manifests name, and weights: checksums, and models' signatures.

    A file that was pinned and is gone is in trouble, too. Raises FileUnreadable if the store can't
    be listed.
    """
    return [
        status.model_copy(update={"trouble": _trouble(store, entry)})
        if status.there or (status.checksum and not entry.content.checksum)  # pinned
        else status
        for entry in (*entries(), *added_weights(store))
        for status in [_status(store, entry)]
    ]


def _trouble(store: Store, entry: Entry) -> str | None:
    try:
        if entry.workload and isinstance(entry.content, ModelFile):
            model = _model(store, entry.content, entry.key)
            require_signature(model, entry.workload.signature, entry.key)
        else:
            path = stored(store, entry.content, entry.key, entry.kind)
            require_fit(path, entry)
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
        if path.exists() and not path.is_file() and not path.is_dir():  # a FIFO never ends
            raise UserError(f"add {path}", "it is no regular file", "Name a file or folder.")
        if key:
            return [_pin(store, path, key)]
        if path.is_dir():
            return _add_below(store, path)
        if known := _add_known(store, path):
            return [known]
        return [add_task(store, path)]
    except OSError as error:
        remedy = "Make it accessible to this user, or name another file or folder."
        raise not_written(f"add {path}", store.folder, error, remedy=remedy) from error


def _add_below(store: Store, folder: Path) -> list[Added]:
    found = [added for file in files_in(folder) if (added := _add_known(store, file))]
    if not found:
        seen = f"no manifest names a file in this folder{not_followed(folder)}"
        remedy = "If the folder is a data set, add it with --as KEY."
        raise UserError(f"add {folder}", seen, remedy)
    return found


def _add_known(store: Store, path: Path) -> Added | None:
    found = set(digests(path).values())
    matching = [entry for entry in entries() if entry.content.checksum in found]
    if not matching:
        return None
    for entry in matching:
        require_fit(path, entry)
    store.add(path)
    return Added(path=str(path), keys=tuple(entry.key for entry in matching))


def added_weights(store: Store) -> list[Entry]:
    """Return the weights that a user has added and that no manifest names; raises
    FileUnreadable."""
    named = {entry.key for entry in entries()}
    with readable("pins"):
        pinned = [key for key in store.contents() if f"/{KNOB}/" in key and key not in named]
    return [entry for key in pinned if (entry := _own_weights(key))]


def _own_weights(key: str) -> Entry | None:
    """Return the entry of weights that no manifest names, or None if the key can't be theirs."""
    workload, kind, name = key.split("/") if key.count("/") == 2 else ("", "", "")
    manifest = load_catalog().workloads.get(workload)
    if manifest is None or manifest.weights is None or kind != KNOB or not NAME.fullmatch(name):
        return None
    return None if name == NO_WEIGHTS else Entry(key, None, Weights())


def require_fit(path: Path, entry: Entry) -> str:
    """Return what to tell of a model; empty of most.

    Raises ModelUnusable unless its signature is its task's, WeightsUnusable if weights can't be
    read.
    """
    if isinstance(entry.content, Weights):
        return _summary_of(path, entry.content, entry.key)
    if entry.workload and isinstance(entry.content, ModelFile):
        require_signature(path, entry.workload.signature, entry.key)
    return ""


def _summary_of(path: Path, weights: Weights, key: str) -> str:
    from models.weights.load import summary

    begins = weights.checksum_begins
    if begins and not (seen := digests(path)["sha256"]).startswith(begins):
        raise ContentDiffers(
            f"use {path} ({key})",
            f"its published name has the checksum {begins}…, and it has {seen}",
            "Add the file that was published.",
        )
    return f"{path.name}: {summary(path)}"


def _pin(store: Store, path: Path, key: str) -> Added:
    known = {entry.key: entry for entry in entries()}
    if own := _own_weights(key):
        known.setdefault(key, own)
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
    told = require_fit(path, entry)
    if not entry.content.checksum:
        require_part(store, path, entry)
    sha256 = store.add(path)["sha256"]
    store.pin(key, sha256)
    return Added(path=str(path), keys=(key,), note=told or _note(store, entry, sha256))


def _note(store: Store, entry: Entry, sha256: str) -> str:
    """Return what to tell of a part of the suite's data sets without a known origin."""
    suite = entry.workload.suite if entry.workload else None
    if entry.kind is None or suite is None or entry.content.checksum:
        return ""
    part = entry.key.rpartition("/")[2]
    if store.origin(f"{entry.kind}/{part}", sha256):
        return ""
    command = command_for(entry.key, entry.content, entry.kind)
    return does_not_count(part, f"`{command}` compares them with the published archive.")


def require_part(store: Store, path: Path, entry: Entry) -> None:
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
    with readable(f"{field}/{SAMPLES}"):
        checksum = dataset.parts[SAMPLES].checksum or store.pinned(f"{field}/{SAMPLES}")
        samples = store.find(checksum) if checksum else None
    require_truth(dataset, entry.workload.input, path, samples, field)
