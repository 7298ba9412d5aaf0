"""Answers of `benchfarm models`: the state of models and data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from controller.contracts.base import Contract


class ModelRequest(Contract):
    """What to do with the store of models."""

    verb: Literal["list", "verify", "add"]
    path: Path | None = None
    """File or folder to add."""
    key: str | None = None
    """Key of that file, if no published checksum identifies it."""


class FetchRequest(Contract):
    """What to download into the store of models."""

    tasks: tuple[str, ...]
    """Workloads."""
    suite: str | None = None
    """Version of the suite, whose tasks are added to these: `v4.0`."""
    numerics: tuple[str, ...] = ()
    """Number formats of models; empty: all."""
    weights: tuple[str, ...] = ()
    """Names of weights of models that train; empty: all that can be downloaded."""
    datasets: tuple[str, ...] = ()
    """Sizes of data sets; empty: all that can be downloaded whole."""
    mirror: str | None = None
    """Folder or URL in place of the addresses in the manifests."""


class FetchEvent(Contract):
    """What became of a file while files were fetched."""

    state: Literal[
        "checking", "sizing", "planned", "manual", "there", "waiting", "loading", "added", "failed"
    ]
    """checking: what the store has is read, to see whether it is whole; sizing: servers are asked
    for sizes; planned: all that is to be fetched, with the sum of the known sizes; manual: the user
    has to get it; waiting: another process fetches it; failed: told at the end, before the
    error."""
    name: str = ""
    """The file's name; of sizing and planned, what is to be fetched."""
    done: int = 0
    """Bytes that are here; of checking, that are read."""
    total: int | None = None
    """Bytes of the whole; None: the server does not say."""
    note: str = ""
    """Licence, reason, or what to do."""


SetName = Literal["imagenet", "coco", "ade20k", "squad", "opensr"]
"""A data set that tasks of the suite use, as it is published elsewhere."""


class SetRequest(Contract):
    """A published data set to make the parts of tasks from."""

    name: SetName
    path: Path
    """The folder it was unpacked in."""


class ModelStatus(Contract):
    """The state of a file or folder that a manifest names."""

    key: str
    """WORKLOAD/models/NUMERICS, WORKLOAD/DATASET/PART, or WORKLOAD/weights/NAME."""
    there: bool
    surrogate: bool = False
    checksum: str | None = None
    source: str | None = None
    trouble: str | None = None
    """What is wrong with it, if it was verified."""


class Added(Contract):
    """Files that were added to the store."""

    path: str
    keys: tuple[str, ...]
    workload: str | None = None
    """Name of the new workload, if it is the user's own."""
    stack: str | None = None
    """Name of the new stack, if it is the user's own; `keys` are then its files."""
    note: str = ""
    """What the user should know of them."""
