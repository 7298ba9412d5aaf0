"""The signature of a `.tflite` file, read by LiteRT and compared with its task's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from controller.contracts.mobile import Signature, Tensor
from models.mobile.errors import ModelUnusable

_NODE: Final = re.compile(r"Node number (\d+) \((\w+)\) failed to prepare")
_CUSTOM: Final = re.compile(r"unresolved custom op|Select TensorFlow op")
_NEWER: Final = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")


def read_signature(path: Path, field: str = "model") -> Signature:
    """Return a model's signature, loaded without delegates; raises ModelUnusable, naming an
    unsupported operator."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
        interpreter.allocate_tensors()
        inputs = [_tensor(details) for details in interpreter.get_input_details()]
        outputs = [_tensor(details) for details in interpreter.get_output_details()]
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreadable(path, field, str(error)) from error
    return Signature(inputs=tuple(inputs), outputs=tuple(outputs))


def require_signature(path: Path, wanted: Signature | None, name: str) -> Signature:
    """Return a model's signature.

    Raises ModelUnusable, naming file and field, unless LiteRT loads the model and it fits its task.
    A task without a signature takes any model.
    """
    found = read_signature(path, f"{name}, model")
    if wanted is None:
        return found
    field = f"{name}, signature"
    for side in ("inputs", "outputs"):
        expected, seen = getattr(wanted, side), getattr(found, side)
        if len(expected) != len(seen):
            raise _other(path, f"{field}.{side}", f"it has {len(seen)}", f"{len(expected)}")
        for number, (want, have) in enumerate(zip(expected, seen, strict=True)):
            if not _fits(want, have):
                place = f"{field}.{side}[{number}]"
                raise _other(path, place, f"it has {_text(have)}", _text(want))
    return found


def _other(path: Path, field: str, seen: str, wanted: str) -> ModelUnusable:
    return ModelUnusable(
        f"use model {path} ({field})", f"{seen}, not {wanted}", "Add the model of this task."
    )


def _unreadable(path: Path, field: str, said: str) -> ModelUnusable:
    """Return LiteRT's error in one line; for an unsupported operator, only its name."""
    lacking = place = ""
    if _CUSTOM.search(said) and (node := _NODE.search(said)):
        place, lacking = f", operator {node[1]}", node[2]
    elif newer := _NEWER.search(said):
        lacking = f"{newer[1]} of version {newer[2]}"
    if lacking:
        return ModelUnusable(
            f"read model {path} ({field}{place})",
            f"LiteRT has no operator {lacking}",
            "Convert the model to TensorFlow Lite's built-in operators.",
        )
    remedy = "Give a .tflite file that LiteRT can run."
    return ModelUnusable(f"read model {path} ({field})", " ".join(said.split()), remedy)


def _tensor(details: Any) -> Tensor:  # noqa: ANN401 - LiteRT's own dictionaries
    # LiteRT doesn't know the shape of a dynamic output before the model runs.
    shape = tuple(int(side) or None for side in details["shape"])
    return Tensor(shape=shape, types=(np.dtype(details["dtype"]).name,))


def _fits(wanted: Tensor, found: Tensor) -> bool:
    if found.types[0] not in wanted.types:
        return False
    if not found.shape or not wanted.shape:  # unknown before a run, or any shape is allowed
        return True
    sides = zip(wanted.shape, found.shape, strict=False)
    same = all(want is None or have is None or want == have for want, have in sides)
    return same and len(wanted.shape) == len(found.shape)


def _text(tensor: Tensor) -> str:
    sides = ", ".join("any" if side is None else str(side) for side in tensor.shape)
    return f"{' or '.join(tensor.types)} ({sides})"
