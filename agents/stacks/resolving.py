"""From the names in manifests to what they name."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def resolve(path: str) -> Any:  # noqa: ANN401 - whatever the manifest names
    """Return the object a manifest names as `package.module:Name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
