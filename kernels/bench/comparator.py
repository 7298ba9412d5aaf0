"""Implementations that users bring, to be compared with an operator."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import torch

from kernels.bench.case import Function


class ComparatorUnusable(Exception):
    """An implementation that can't be loaded, and why."""


def load(named: str) -> Function:
    """Return the function that a text names; raises ComparatorUnusable.

    named: `FILE.py:FUNCTION`, `MODULE:FUNCTION` of an installed module, or `FILE.so:NAMESPACE::OP`
    of a library that registers a torch operator. Its own code runs here.
    """
    place, colon, name = named.partition(":")
    if not (place and colon and name):
        raise ComparatorUnusable("it has no name after a colon")
    try:
        found = _operator(place, name) if place.endswith(".so") else getattr(_module(place), name)
    except Exception as error:  # whatever a user's module raises when it is loaded
        raise ComparatorUnusable(f"{type(error).__name__}: {error}") from error
    if not callable(found):
        raise ComparatorUnusable(f"{name} is no function")
    function: Function = found
    return function


def _operator(library: str, name: str) -> object:
    torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    namespace, _, operator = name.partition("::")
    return getattr(getattr(torch.ops, namespace), operator)


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location(Path(place).stem, place)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
