"""Making the parts of tasks' data sets from a set as it is published elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.mobile import Dataset, OnDevice
from controller.contracts.models import Added, SetName, SetRequest
from models.mobile.catalogue import Entry, entries
from models.mobile.datasets.check import SAMPLES, TRUTH, require_samples, require_truth
from models.mobile.errors import ContentDiffers
from models.mobile.preparing import ade20k, coco, imagenet, opensr, squad
from models.mobile.preparing.origin import (
    PublishedSet,
    PublishedSets,
    Vouchers,
    load_published_sets,
)
from models.mobile.preparing.published import Made, Published, Say
from models.mobile.store import Store, digests

Maker = Callable[[Published, Path, Say], Made]
_MAKERS: Final[dict[SetName, Maker]] = {
    "imagenet": imagenet.make,
    "coco": coco.make,
    "ade20k": ade20k.make,
    "squad": squad.make,
    "opensr": opensr.make,
}


def prepare_set(
    request: SetRequest, store: Store, say: Say, known: PublishedSets | None = None
) -> list[Added]:
    """Make the parts, check them, and add them for all tasks that use the set; raises UserError.

    Images stay where they are; what is made of them is copied into the store.
    known: published checksums; None: those of the manifests.
    """
    published = Published(request.name, request.path)
    try:
        if not request.path.is_dir():
            raise published.unusable("it is no folder", "Name the folder with the unpacked set.")
        store.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=store.folder, prefix=".") as work:
            sets = load_published_sets() if known is None else known
            vouchers = Vouchers.found(published, sets.get(request.name, PublishedSet()), say)
            made = _MAKERS[request.name](published, Path(work), say)
            targets = list(_targets(published, made))
            for target in targets:
                target.check(made)
            origins = vouchers.origins(made.used, say)
            say(f"adding {made.samples.name}")
            unknown, added = _added(store, published, made, targets, origins)
            last = added[-1].model_copy(update={"note": vouchers.note(unknown)})
            return [*added[:-1], last]
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        remedy = "Make room, or make it readable."
        raise published.unusable(f"{error.strerror or error}{place}", remedy) from error


@dataclass(frozen=True, slots=True)
class _Target:
    """A data set of a task that the set is for."""

    key: str
    """WORKLOAD/SIZE"""
    workload: OnDevice
    dataset: Dataset

    def check(self, made: Made) -> None:
        """Check the parts as `models add` does; raises UserError."""
        require_samples(self.dataset, self.workload.input, made.samples, self.key)
        wanted = self.workload.input
        require_truth(self.dataset, wanted, made.truth, made.samples, self.key)
        checksum = self.dataset.parts[TRUTH].checksum
        if checksum and checksum not in digests(made.truth).values():
            tried = f"add {made.truth} as {self.key}/{TRUTH}"
            raise ContentDiffers(tried, f"it is not {checksum}", "Use the published file.")


def _targets(published: Published, made: Made) -> Iterator[_Target]:
    """Yield the data sets of this kind and number of samples that nobody publishes whole."""
    sizes = {}
    for entry in entries():
        dataset = _unpublished(entry)
        if entry.workload and dataset and dataset.kind == made.kind:
            sizes[entry.key.removesuffix(f"/{SAMPLES}")] = (entry.workload, dataset)
    found = {key: pair for key, pair in sizes.items() if pair[1].samples == made.count}
    if not found:
        wanted = ", ".join(f"{pair[1].samples} of {key}" for key, pair in sizes.items())
        seen = f"it has {made.count} samples, not {wanted}"
        raise published.unusable(seen, "Use the whole set as published.")
    for key, (workload, dataset) in found.items():
        yield _Target(key, workload, dataset)


def _unpublished(entry: Entry) -> Dataset | None:
    """Return the data set of an entry that has samples without a checksum, and a truth."""
    if entry.workload is None or entry.is_model or not entry.key.endswith(f"/{SAMPLES}"):
        return None
    dataset = entry.workload.datasets[entry.size]
    return dataset if TRUTH in dataset.parts and not entry.content.checksum else None


def _added(
    store: Store,
    published: Published,
    made: Made,
    targets: list[_Target],
    origins: Mapping[str, str],
) -> tuple[list[str], list[Added]]:
    """Add the parts; return those whose origin is not known, and what was added."""
    unknown, answers = [], []
    for part, path in ((SAMPLES, made.samples), (TRUTH, made.truth)):
        found = store.add(path)
        what, sha256 = f"{made.kind}/{part}", found["sha256"]
        if origin := origins.get(part):
            store.vouch(what, sha256, origin)
        elif store.origin(what, sha256) is None:
            unknown.append(part)
        keys = tuple(f"{target.key}/{part}" for target in targets)
        for target, key in zip(targets, keys, strict=True):
            if not target.dataset.parts[part].checksum:
                store.pin(key, sha256)
        as_published = path.is_relative_to(published.path)
        answers.append(Added(path=str(path) if as_published else path.name, keys=keys))
    return unknown, answers
