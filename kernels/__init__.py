"""Operators of benchfarm; imports torch only, and only once an operator is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.library import capabilities
    from kernels.ops.boxes import batched_nms, box_match, nms
    from kernels.ops.detection import detection_postprocess
    from kernels.ops.focal_loss import sigmoid_focal_loss, sigmoid_focal_loss_from_labels
    from kernels.ops.frozen_batch_norm import frozen_batch_norm
    from kernels.ops.unfold import fold_maps, transposed, unfold_maps

__all__ = [
    "batched_nms",
    "box_match",
    "capabilities",
    "detection_postprocess",
    "fold_maps",
    "frozen_batch_norm",
    "nms",
    "sigmoid_focal_loss",
    "sigmoid_focal_loss_from_labels",
    "transposed",
    "unfold_maps",
]

# transformers asks an installed `kernels` package for its version; "0" tells it that this is not
# Hugging Face's.
__version__ = "0"

_MODULE_OF = {
    "batched_nms": "kernels.ops.boxes",
    "box_match": "kernels.ops.boxes",
    "capabilities": "kernels.library",
    "detection_postprocess": "kernels.ops.detection",
    "fold_maps": "kernels.ops.unfold",
    "frozen_batch_norm": "kernels.ops.frozen_batch_norm",
    "nms": "kernels.ops.boxes",
    "sigmoid_focal_loss": "kernels.ops.focal_loss",
    "sigmoid_focal_loss_from_labels": "kernels.ops.focal_loss",
    "transposed": "kernels.ops.unfold",
    "unfold_maps": "kernels.ops.unfold",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'kernels' has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_MODULE_OF[name]), name)
    return found
