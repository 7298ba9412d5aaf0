"""Implementations that users bring, to be compared with an operator."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from kernels.bench.case import Differentiated, Function, Work, differ

COMPARATOR_ERROR = {"fp32": 1e-4, "bf16": 2e-2}
"""Bounds of another implementation's loss and gradient, relative to the largest value: hundreds of
roundings of the dtype. What differs by more computes something else."""

P = ParamSpec("P")
R = TypeVar("R")


class ComparatorUnusable(Exception):
    """An implementation that can't be loaded or run, and why."""


@contextmanager
def users_code() -> Iterator[None]:
    """Run code of the user; raises ComparatorUnusable for whatever it raises, sys.exit included.

    A subclass of SystemExit is not the user's: it is how a signal ends this process.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and type(error) is not SystemExit:
            raise
        raise ComparatorUnusable(f"{type(error).__name__}: {error}") from error


def guarded(work: Work) -> Work:
    """Return the work of a user's implementation that raises nothing but ComparatorUnusable.

    Each pass of it is guarded, which takes about a microsecond.
    """
    if isinstance(work, Differentiated):
        return Differentiated(_guarded(work.forward), _guarded(work.backward))
    return _guarded(work)


def _guarded(function: Callable[P, R]) -> Callable[P, R]:
    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with users_code():
            return function(*args, **kwargs)

    return run


def unlike(dtype: str, theirs: Sequence[Tensor], truth: Sequence[Tensor]) -> list[str]:
    """Return how loss and gradient of another implementation differ from the true ones."""
    bound = COMPARATOR_ERROR[dtype]
    named = zip(("loss", "gradient"), theirs, truth, strict=True)
    return [said for what, their, true in named for said in differ(what, their, true, bound)]


def load(named: str) -> Function:
    """Return the function that a text names; raises ComparatorUnusable.

    named: `FILE.py:FUNCTION`, `MODULE:FUNCTION` of an installed module, or `FILE.so:NAMESPACE::OP`
    of a library that registers a torch operator. Its own code runs here.
    """
    place, colon, name = named.partition(":")
    if not (place and colon and name):
        raise ComparatorUnusable("it has no name after a colon")
    with users_code():
        found = _operator(place, name) if place.endswith(".so") else getattr(_module(place), name)
    if not callable(found):
        raise ComparatorUnusable(f"{name} is no function")
    function: Function = found
    return function


def digest_of(named: str) -> str:
    """Return a hash of the file of a function that `load` has loaded: 16 hex digits.

    Empty for a module without a file. What it imports is not in it.
    """
    place = named.partition(":")[0]
    if not place.endswith((".py", ".so")):
        place = getattr(importlib.import_module(place), "__file__", None) or ""
    try:
        return hashlib.sha256(Path(place).read_bytes()).hexdigest()[:16] if place else ""
    except OSError as error:  # gone since, or within an archive
        raise ComparatorUnusable(f"its file can't be read again: {error}") from error


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
