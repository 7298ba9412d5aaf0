"""Reading checkpoints of PyTorch without running code of theirs."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from models.weights.errors import WeightsUnusable

WRAPPERS: Final = ("model", "state_dict", "model_state_dict")
"""Keys under which training programs keep a model's tensors, beside their optimizer and epoch."""
PARALLEL: Final = "module."
"""Before every name of a model that was wrapped for data-parallel training."""
SHOWN: Final = 200
"""Characters of another program's message that an error repeats."""
_NAME: Final = re.compile(r"[\w.]{1,200}", re.ASCII)
_GLOBAL: Final = re.compile(r"GLOBAL ([\w.]+)")
_REMEDY: Final = "Give a checkpoint that torch.save has written: a dictionary of names and tensors."


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Return a model's tensors by name, on the CPU.

    Only tensors, containers and numbers are unpickled; of classes, argparse's Namespace, in which
    MLCommons' reference keeps its options. Raises WeightsUnusable, in one line, for anything else.
    """
    return dict(_tensors(_unwrapped(_loaded(path), path), path))


def _loaded(path: Path) -> object:
    try:
        with torch.serialization.safe_globals([Namespace]):
            found: object = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        seen = error.strerror or str(error)
        raise WeightsUnusable(f"read weights {path}", seen, "Make the file readable.") from error
    except Exception as error:  # a damaged pickle raises anything
        raise WeightsUnusable(f"read weights {path}", _why(error), _REMEDY) from error
    return found


def _why(error: Exception) -> str:
    if refused := _GLOBAL.search(str(error)):
        return f"it would run {refused[1]}, which is code and no weights"
    said = " ".join(str(error).split()) or type(error).__name__
    if "TorchScript" in said:
        return "it is a TorchScript program, not a checkpoint"
    if "weights_only" in said or len(said) > SHOWN:  # torch's advice is to read it unsafely
        return f"it is damaged, or no checkpoint ({type(error).__name__})"
    return f"it is damaged, or no checkpoint: {said.rstrip('.')}"


def _unwrapped(found: object, path: Path) -> Mapping[object, object]:
    """Return the mapping of names and tensors, also from inside a training program's checkpoint."""
    if isinstance(found, Mapping):
        inner = (found[key] for key in WRAPPERS if isinstance(found.get(key), Mapping))
        return next(inner, found)
    seen = f"it holds a {type(found).__name__}, not a dictionary of tensors"
    raise WeightsUnusable(f"read weights {path}", seen, _REMEDY)


def _tensors(found: Mapping[object, object], path: Path) -> Iterator[tuple[str, Tensor]]:
    if not found:
        raise WeightsUnusable(f"read weights {path}", "it holds no tensor", _REMEDY)
    parallel = all(isinstance(name, str) and name.startswith(PARALLEL) for name in found)
    for name, value in found.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            seen = f"{str(name)[:80]!r} is no name of a tensor"
        elif not isinstance(value, Tensor):
            seen = f"{name} is of type {type(value).__name__}, not a tensor"
        # Sparse, quantized and meta tensors have no plain numbers that could be copied.
        elif value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
            seen = f"{name} has no plain numbers"
        else:
            yield name.removeprefix(PARALLEL) if parallel else name, value
            continue
        raise WeightsUnusable(f"read weights {path}", seen, _REMEDY)
