"""Reading checkpoints of PyTorch without running code of theirs."""

from __future__ import annotations

import re
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from models.weights.errors import WeightsUnusable

WRAPPERS: Final = ("model", "state_dict", "model_state_dict")
"""Keys under which training programs keep a model's tensors, beside their optimizer and epoch."""
NUMBERS: Final = frozenset(
    {
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64),
    }
)
"""Types of numbers that are copied."""
ZIP: Final = b"PK\x03\x04"
"""The beginning of what torch.save writes since torch 1.6."""
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
        _require_plain(path)
        with torch.serialization.safe_globals([Namespace]):
            found: object = torch.load(path, map_location="cpu", weights_only=True)
    except WeightsUnusable:
        raise
    except OSError as error:
        seen = error.strerror or str(error)
        raise WeightsUnusable(f"read weights {path}", seen, "Make the file readable.") from error
    except Exception as error:  # a damaged pickle raises anything
        raise WeightsUnusable(f"read weights {path}", _why(error), _REMEDY) from error
    return found


def _require_plain(path: Path) -> None:
    """Refuse what is read without end, or is more in memory than in the file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        seen = "it is no regular file"
        raise WeightsUnusable(f"read weights {path}", seen, _REMEDY)
    with path.open("rb") as file:
        if file.read(len(ZIP)) != ZIP:
            return
        with zipfile.ZipFile(file) as records:
            sizes = [one.file_size for one in records.infolist()]
    if sum(sizes) > path.stat().st_size:
        seen = "its records are compressed or overlap, which torch.save never does"
        raise WeightsUnusable(f"read weights {path}", seen, _REMEDY)


def _why(error: Exception) -> str:
    if refused := _GLOBAL.search(str(error)):
        return f"it would run {refused[1]}, which is code and no weights"
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError) or "allocate memory" in said:
        return "it needs more memory than there is"
    if "TorchScript" in said:
        return "it is a TorchScript program, not a checkpoint"
    if "weights_only" in said or len(said) > SHOWN:  # torch's advice is to read it unsafely
        return f"it is damaged, or no checkpoint ({type(error).__name__})"
    return f"it is damaged, or no checkpoint: {said.rstrip('.')}"


def _unwrapped(found: object, path: Path) -> Mapping[object, object]:
    """Return the mapping of names and tensors, also from inside a training program's checkpoint."""
    if isinstance(found, dict):
        # By dict's own methods: those of an OrderedDict may be hidden by attributes from the file.
        kept = dict(dict.items(found))
        inner = (kept[key] for key in WRAPPERS if isinstance(kept.get(key), dict))
        return dict(dict.items(next(inner, kept)))
    seen = f"it holds a {_type(found)}, not a dictionary of tensors"
    raise WeightsUnusable(f"read weights {path}", seen, _REMEDY)


def _tensors(found: Mapping[object, object], path: Path) -> Iterator[tuple[str, Tensor]]:
    if not found:
        raise WeightsUnusable(f"read weights {path}", "it holds no tensor", _REMEDY)
    parallel = all(isinstance(name, str) and name.startswith(PARALLEL) for name in found)
    for name, value in found.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            what = repr(name[:80]) if isinstance(name, str) else f"a key of type {_type(name)}"
            seen = f"{what} is no name of a tensor"
        elif not isinstance(value, Tensor):
            seen = f"{name} is of type {_type(value)}, not a tensor"
        # Sparse, quantized, nested and meta tensors can't be copied; nor can fp8 without its scale.
        elif value.layout != torch.strided or value.device.type != "cpu" or value.is_nested:
            seen = f"{name} has no plain numbers"
        elif value.dtype not in NUMBERS:
            seen = f"{name} has no plain numbers ({name_of(value.dtype)})"
        else:
            # Without the attributes that a file may give a tensor.
            yield name.removeprefix(PARALLEL) if parallel else name, Tensor.detach(value)
            continue
        raise WeightsUnusable(f"read weights {path}", seen, _REMEDY)


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type of numbers, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def _type(value: object) -> str:
    return type(value).__name__
