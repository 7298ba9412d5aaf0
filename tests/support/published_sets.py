"""Small tasks of the suite's kinds, and preparing published sets for them."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import yaml

from controller.contracts.catalog import load_catalog
from controller.contracts.models import Added, SetName, SetRequest
from models.mobile import catalogue
from models.mobile.datasets.load import load_samples
from models.mobile.preparing.origin import PublishedSets
from models.mobile.preparing.prepare import prepare_set
from models.mobile.samples import Samples
from models.mobile.store import Store

MANIFESTS = Path(catalogue.__file__).parents[1] / "manifests/mobile"


def add_tasks(
    store: Store, workload: str, samples: int, kind: str | None = None, **input_: object
) -> list[str]:
    """Have two tasks like a workload, with a data set of so many samples; return its keys."""
    for name in ("one", "two"):
        task = yaml.safe_load((MANIFESTS / f"{workload}.yaml").read_text())
        task["name"] = name
        on_device = task["on_device"]
        on_device["input"] |= input_
        kind = kind or on_device["datasets"]["full"]["kind"]
        parts: dict[str, object] = {"samples": {}, "truth": {}}
        on_device["datasets"] = {"full": {"kind": kind, "samples": samples, "parts": parts}}
        task["knobs"]["dataset"] |= {"default": "full", "choices": ["full"]}
        file = store.folder.parent / f"{name}.yaml"
        file.write_text(yaml.safe_dump(task))
        catalogue.add(store, file, None)
    return ["one/full", "two/full"]


def prepared(
    store: Store, name: SetName, folder: Path, known: PublishedSets = MappingProxyType({})
) -> list[Added]:
    """Prepare a set, and return what was added; known: published checksums."""
    return prepare_set(SetRequest(name=name, path=folder), store, lambda line: None, known)


def samples_of(store: Store, key: str) -> Samples:
    """Return the samples of a prepared data set, as a run reads them."""
    name, _, size = key.partition("/")
    workload = load_catalog().workloads[name].on_device
    assert workload is not None
    parts = {}
    for part in ("samples", "truth"):
        pinned = store.pinned(f"{key}/{part}")
        assert pinned is not None
        found = store.find(pinned)
        assert found is not None
        parts[part] = found
    return load_samples(workload.datasets[size], parts, workload.input, key)
