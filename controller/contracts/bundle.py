"""The request of `benchfarm bundle build`, and its answer."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.base import Contract


class BundleRequest(Contract):
    """A bundle to build, unless it exists."""

    name: str
    """Runtime and architecture: `litert-x86_64`."""
    refresh: bool = False
    """Whether its packages are downloaded again."""


class BuiltBundle(Contract):
    """A bundle that is there."""

    name: str
    archive: Path
    archive_bytes: int
