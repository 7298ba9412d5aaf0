"""Resolution of names in manifests to objects."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from agents.stacks.plugins import plugin_missing
from controller.contracts.plugins import OURS


def resolve(path: str) -> Any:  # noqa: ANN401 - whatever the manifest names
    """Return the object that a manifest names as `package.module:Name`.

    Raises as `module_named`.
    """
    module, _, name = path.partition(":")
    found = module_named(module)
    try:
        return getattr(found, name)
    except AttributeError as error:
        if module.partition(".")[0] in OURS:
            raise
        raise plugin_missing(f"cannot import {path}: {error}. Correct the manifest.") from error


def module_named(name: str) -> ModuleType:
    """Import a module that a manifest names.

    Raises WorkerFault, blame user, if a plugin can't be imported: its own packages may be missing
    in the environment of this stack.
    """
    try:
        return import_module(name)
    except ImportError as error:
        if name.partition(".")[0] in OURS:
            raise
        message = (
            f"cannot import {name}: {error}. Install what it needs in {sys.prefix}, or use a stack "
            "whose environment has it."
        )
        raise plugin_missing(message) from error
