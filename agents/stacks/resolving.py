"""Resolution of names in manifests to objects."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def resolve(path: str) -> Any:  # noqa: ANN401 - whatever the manifest names
    """Return the object that a manifest names as `package.module:Name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
