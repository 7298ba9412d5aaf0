"""Loading checkpoints into the project's models, which have to have every tensor and no other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from models.weights.checkpoint import name_of, read_checkpoint
from models.weights.differences import ClassCount, Differences, Shape, differences
from models.weights.errors import WeightsUnusable
from models.weights.naming import (
    BACKBONE,
    COUNTER,
    backbone_names,
    classifier_names,
    detector_names,
    is_detector,
)

DETECTOR_CLASSES: Final = ClassCount(
    ("head.classification_head.cls_logits.weight", "head.classification_head.cls_logits.bias"),
    each=9,  # anchors of a cell
)
CLASSIFIER_CLASSES: Final = ClassCount(("fc.weight", "fc.bias"), each=1)
STEM: Final = "conv1.weight"
"""A tensor that every classifier has, also without its last layer."""
VARIANCE: Final = ".running_var"
"""The end of the names of norms' variances."""
Names = Callable[[Collection[str]], dict[str, str]]


def load_retinanet(model: nn.Module, path: Path) -> None:
    """Load a RetinaNet's checkpoint, or a classifier's as its backbone; see `read_checkpoint`.

    A backbone leaves pyramid and heads as they are. Frozen norms get the checkpoint's statistics.

    model: with plain frozen norms and heads. Raises WeightsUnusable.
    """
    found = read_checkpoint(path)
    wanted = model.state_dict()
    if is_detector(found):
        _load(found, detector_names, wanted, DETECTOR_CLASSES, path)
        return
    body = {name: tensor for name, tensor in wanted.items() if name.startswith(BACKBONE)}
    _load(found, backbone_names, body, DETECTOR_CLASSES, path)


def load_resnet(model: nn.Module, path: Path) -> None:
    """Load a ResNet classifier's checkpoint; raises WeightsUnusable."""
    _load(read_checkpoint(path), classifier_names, model.state_dict(), CLASSIFIER_CLASSES, path)


def _load(
    found: Mapping[str, Tensor],
    names: Names,
    wanted: Mapping[str, Tensor],
    classes: ClassCount,
    path: Path,
) -> None:
    """Copy tensors into those of a model, whose dtype they get; nothing, if anything differs."""
    ours = names(found.keys())
    # Old checkpoints have no counters, on which nothing depends while the momentum is set.
    told = differences(_shapes(found), ours, _shapes(wanted), (f".{COUNTER}",), classes)
    if lines := list(told.lines()):
        raise WeightsUnusable(f"load weights {path}", "; ".join(lines), remedy_for(told))
    with torch.no_grad():
        for theirs in ours:
            _require_usable(found[theirs], theirs, wanted[ours[theirs]].dtype, path)
        for theirs, mine in ours.items():
            wanted[mine].copy_(found[theirs])


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, Shape]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _require_usable(tensor: Tensor, name: str, wanted: torch.dtype, path: Path) -> None:
    """Refuse numbers that a model can't have; wanted: the type that they are copied to."""
    if wanted.is_floating_point and not tensor.is_floating_point():  # e.g. quantized by hand
        seen = f"{name} has whole numbers ({name_of(tensor.dtype)})"
    elif not bool(torch.isfinite(tensor.to(wanted)).all()):  # fp64's largest are infinite in fp32
        seen = f"{name} has values that are no finite numbers"
    elif name.endswith(VARIANCE) and bool((tensor < 0).any()):
        seen = f"{name} has variances below 0"
    else:
        return
    raise WeightsUnusable(f"load weights {path}", seen, "Give an undamaged checkpoint.")


def remedy_for(told: Differences) -> str:
    """Return what to do about differences."""
    if told.classes and not (told.missing or told.unexpected or told.shapes or told.twice):
        return f"Set the knob num_classes to {told.classes[0]}."
    if told.shapes and all(".layer" in f".{name}" for name, _, _ in told.shapes):
        return "Give weights of this workload's backbone, or choose the backbone that they are of."
    return "Give weights of this workload's model."


def summary(path: Path) -> str:
    """Return what a checkpoint is of, as a few words; raises WeightsUnusable."""
    found = read_checkpoint(path)
    kind, classes = "a classifier", CLASSIFIER_CLASSES
    if is_detector(found):
        kind, classes = "a detector", DETECTOR_CLASSES
    rows = found.get(classes.layers[1])
    if rows is not None and rows.dim() == 1:
        return f"{kind} of {len(rows) // classes.each} classes, in {len(found)} tensors"
    if STEM in found:
        return f"a backbone, in {len(found)} tensors"
    seen = f"it has neither {classes.layers[1]} nor {STEM}"
    raise WeightsUnusable(f"use weights {path}", seen, "Give weights of a RetinaNet or a ResNet.")
