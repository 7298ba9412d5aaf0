"""The compiled library: loaded, checked against its sources, called through ctypes.

The variant is chosen once a process: the best that this CPU can run, or the one named by the
environment variable BENCHFARM_KERNELS ("reference" is plain torch).
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from ctypes import c_bool, c_char_p, c_float, c_int, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernels import build

VARIABLE = "BENCHFARM_KERNELS"
REFERENCE = "reference"

Function = Callable[..., int | None]

_TYPES: dict[str, type[ctypes._SimpleCData[Any]]] = {
    "p": c_void_p,
    "b": c_bool,
    "i": c_int,
    "l": c_int64,
    "f": c_float,
}
"""Letters of a signature → type: see letter_of in csrc/export.h."""


class _Exported(ctypes.Structure):
    """The struct Exported of csrc/export.h."""

    _fields_ = (("address", c_void_p), ("signature", c_char_p))


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The variant that this process's operators run on."""

    variant: str
    """The instruction set in use, or "reference": plain torch."""

    supported: tuple[str, ...]
    """The values that BENCHFARM_KERNELS may have here."""

    reason: str
    """Why this variant, in a few words."""


class KernelsUnusable(RuntimeError):
    """The library can't do what was requested; the message says what it can do, or how to fix
    it."""


@cache
def capabilities(library: Path = build.LIBRARY) -> Capabilities:
    """Return what is in use of a library; raises KernelsUnusable as `choose` does.

    Warns once if plain torch is used without being requested.
    """
    chosen = choose(os.environ.get(VARIABLE, ""), library)
    if chosen.supported == (REFERENCE,) and os.environ.get(VARIABLE) != REFERENCE:
        warnings.warn(f"kernels run in plain torch: {chosen.reason}", RuntimeWarning, stacklevel=2)
    return chosen


def choose(wanted: str, path: Path) -> Capabilities:
    """Choose the variant `wanted`, or the best one if it is empty.

    Raises:
        KernelsUnusable: the CPU can't run the variant, or the library is older than its sources
            and plain torch is not wanted.
    """
    try:
        supported, lack = _supported(path)
    except KernelsUnusable:
        if wanted != REFERENCE:
            raise
        supported, lack = (REFERENCE,), ""
    if not wanted:
        return Capabilities(supported[-1], supported, lack or "the best this CPU can run")
    if wanted not in supported:
        here = f"choose among {', '.join(supported)}" + (f": {lack}" if lack else "")
        raise KernelsUnusable(f"{VARIABLE}={wanted}: {here}")
    return Capabilities(wanted, supported, f"{VARIABLE} says so")


@cache
def function(name: str, variant: str) -> Function:
    """Return a function of this process's library; it takes pointers as plain addresses."""
    return bind(_load(build.LIBRARY), name, variant)


def bind(library: ctypes.CDLL, name: str, variant: str) -> Function:
    """Return the library's function `name_variant` with the types of its exported signature."""
    exported = _Exported.in_dll(library, f"{name}_{variant}")
    result, arguments = exported.signature[:1].decode(), exported.signature[1:].decode()
    # Only "v" (no result) has no type.
    prototype = ctypes.CFUNCTYPE(_TYPES.get(result), *(_TYPES[letter] for letter in arguments))
    return prototype(exported.address)


def _supported(path: Path) -> tuple[tuple[str, ...], str]:
    """Return the variants that can run here, the best last, and what the library lacks."""
    if not path.exists():
        return (REFERENCE,), "they are not compiled; `python -m kernels.build` says why"
    try:
        library = _load(path)
    except OSError as error:
        return (REFERENCE,), str(error)
    able = (name for name in build.VARIANTS if library[f"supports_{name}"]())
    return (REFERENCE, *able), ""


@cache
def _load(path: Path) -> ctypes.CDLL:
    # torch loads the OpenMP runtime; loading torch first makes both share it.
    import torch  # noqa: F401

    library = ctypes.CDLL(str(path))
    sources = library.benchfarm_kernels_sources
    sources.restype = ctypes.c_char_p
    if sources().decode() != build.digest():
        raise KernelsUnusable(f"{path} is older than its sources. Run `python -m kernels.build`.")
    return library
