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


class ModelStatus(Contract):
    """The state of a file or folder that a manifest names."""

    key: str
    """WORKLOAD/models/NUMERICS, or WORKLOAD/DATASET/PART."""
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
