"""Checkpoints in torchvision's names, made without torchvision, and what its RetinaNet computes.

Names and steps are written from the documentation of torchvision.models.detection.retinanet and of
the state dicts that torchvision publishes, apart from the project's own model.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

State = dict[str, Tensor]
STAGES = ((1, 64, 3), (2, 128, 4), (3, 256, 6), (4, 512, 3))
"""Number, planes and blocks of each stage of a ResNet-50."""
WIDTHS = {"resnet50": (1, 64), "resnext50_32x4d": (32, 4)}
"""Groups, and channels of a group at 64 planes."""
LESS = 0.3
"""Of class logits, so that scores differ, and are not all 1."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def classifier(backbone: str, classes: int, seed: int, counters: bool = True) -> State:
    """Return a trained-looking classifier of torchvision's names; `counters`: of batch norms."""
    state: State = {}
    generator = torch.Generator().manual_seed(seed)
    _conv(state, "conv1", (64, 3, 7, 7), generator)
    _norm(state, "bn1", 64, generator)
    groups, width = WIDTHS[backbone]
    channels = 64
    for stage, planes, blocks in STAGES:
        inner, out = planes * width * groups // 64, planes * 4
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            shapes = ((inner, channels, 1, 1), (inner, inner // groups, 3, 3), (out, inner, 1, 1))
            for number, shape in enumerate(shapes, start=1):
                _conv(state, f"{at}.conv{number}", shape, generator)
                _norm(state, f"{at}.bn{number}", shape[0], generator)
            if block == 0:
                _conv(state, f"{at}.downsample.0", (out, channels, 1, 1), generator)
                _norm(state, f"{at}.downsample.1", out, generator)
            channels = out
    state["fc.weight"] = 0.01 * torch.randn(classes, 2048, generator=generator)
    state["fc.bias"] = torch.zeros(classes)
    norms = [n.removesuffix("running_var") for n in state if n.endswith("running_var")]
    return state | ({f"{n}num_batches_tracked": torch.tensor(5) for n in norms} if counters else {})


def detector(backbone: str, classes: int, seed: int, old: bool = False) -> State:
    """Return a trained-looking RetinaNet of torchvision's names; `old`: those before 0.12."""
    return copy.deepcopy(_detector(backbone, classes, seed, old))


@lru_cache(maxsize=2)
def _detector(backbone: str, classes: int, seed: int, old: bool) -> State:
    kept = classifier(backbone, 1, seed, counters=False)
    state = {f"backbone.body.{n}": t for n, t in kept.items() if not n.startswith("fc.")}
    generator = torch.Generator().manual_seed(seed + 1)
    within = "" if old else ".0"
    for level, channels in enumerate((512, 1024, 2048)):
        for block, shape in (("inner", (256, channels, 1, 1)), ("layer", (256, 256, 3, 3))):
            _biased(state, f"backbone.fpn.{block}_blocks.{level}{within}", shape, generator)
    for name in ("p6", "p7"):
        _biased(state, f"backbone.fpn.extra_blocks.{name}", (256, 256, 3, 3), generator)
    for head, last, out in (
        ("classification_head", "cls_logits", 9 * classes),
        ("regression_head", "bbox_reg", 9 * 4),
    ):
        for number in range(4):
            place = f"{2 * number}" if old else f"{number}.0"
            _biased(state, f"head.{head}.conv.{place}", (256, 256, 3, 3), generator)
        _biased(state, f"head.{head}.{last}", (out, 256, 3, 3), generator)
    # Some anchors of each image are rather sure of a class, and most are not.
    state["head.classification_head.cls_logits.weight"] *= LESS
    state["head.classification_head.cls_logits.bias"] -= 5.0
    state["head.regression_head.bbox_reg.weight"] *= 0.1  # so that boxes stay near their anchors
    return state


def _conv(
    state: State, name: str, shape: Sequence[int], generator: torch.Generator, gain: float = 2.0
) -> None:
    fan_in = shape[1] * shape[2] * shape[3]
    state[f"{name}.weight"] = math.sqrt(gain / fan_in) * torch.randn(*shape, generator=generator)


def _biased(state: State, name: str, shape: Sequence[int], generator: torch.Generator) -> None:
    _conv(state, name, shape, generator, gain=1.0)
    state[f"{name}.bias"] = 0.1 * torch.randn(shape[0], generator=generator)


def _norm(state: State, name: str, channels: int, generator: torch.Generator) -> None:
    def spread(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(channels, generator=generator)

    # The last norm of a block is small, as trained ones are, so that sums don't grow.
    scale = 0.3 if name.endswith("bn3") else 1.0
    state[f"{name}.weight"] = scale * spread(0.5, 1.5)
    state[f"{name}.bias"] = spread(-0.2, 0.2)
    state[f"{name}.running_mean"] = spread(-0.2, 0.2)
    state[f"{name}.running_var"] = spread(0.5, 1.5)


def outputs_of(state: State, backbone: str, images: Tensor, eps: float) -> list[State]:
    """Return class logits [B, 9 C, H, W] and regression [B, 36, H, W] of each level, P3 to P7."""
    x = (images - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    maps = list(body_of(state, backbone, x, eps))
    at = "backbone.fpn."
    inner = [_of(state, f"{at}inner_blocks.{n}.0", x) for n, x in enumerate(maps)]
    for level in (1, 0):
        size = inner[level].shape[-2:]
        above = functional.interpolate(inner[level + 1], size=size, mode="nearest")
        inner[level] = inner[level] + above
    levels = [_of(state, f"{at}layer_blocks.{n}.0", x, padding=1) for n, x in enumerate(inner)]
    for name in ("p6", "p7"):
        x = levels[-1].relu() if name == "p7" else levels[-1]
        levels.append(_of(state, f"{at}extra_blocks.{name}", x, padding=1, stride=2))
    return [
        {head: _head(state, head, level) for head in ("classification_head", "regression_head")}
        for level in levels
    ]


def body_of(state: State, backbone: str, x: Tensor, eps: float) -> Iterator[Tensor]:
    groups, _ = WIDTHS[backbone]

    def normed(name: str, norm: str, x: Tensor, stride: int, groups: int) -> Tensor:
        weight = state[f"backbone.body.{name}.weight"]
        y = functional.conv2d(x, weight, None, stride, weight.shape[-1] // 2, 1, groups)
        mean, var, scale, shift = (
            state[f"backbone.body.{norm}.{part}"]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return functional.batch_norm(y, mean, var, scale, shift, training=False, eps=eps)

    x = functional.max_pool2d(normed("conv1", "bn1", x, 2, 1).relu(), 3, 2, 1)
    for stage, _, blocks in STAGES:
        for block in range(blocks):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = normed(f"{at}.conv1", f"{at}.bn1", x, 1, 1).relu()
            y = normed(f"{at}.conv2", f"{at}.bn2", y, stride, groups).relu()
            y = normed(f"{at}.conv3", f"{at}.bn3", y, 1, 1)
            if block == 0:
                x = normed(f"{at}.downsample.0", f"{at}.downsample.1", x, stride, 1)
            x = (x + y).relu()
        if stage > 1:
            yield x


def _of(state: State, name: str, x: Tensor, padding: int = 0, stride: int = 1) -> Tensor:
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    return functional.conv2d(x, weight, bias, stride=stride, padding=padding)


def _head(state: State, head: str, x: Tensor) -> Tensor:
    for number in range(4):
        x = _of(state, f"head.{head}.conv.{number}.0", x, padding=1).relu()
    last = "cls_logits" if head == "classification_head" else "bbox_reg"
    return _of(state, f"head.{head}.{last}", x, padding=1)


def detections_of(levels: Sequence[State], number: int, side: int) -> list[tuple[float, ...]]:
    """Return x1, y1, x2, y2, class, score of an image's detections, best first, in plain Python.

    Scores above 0.05, the best 1000 of each level, boxes decoded and clipped, suppression of each
    class at 0.5, the best 300 of an image.
    """
    found: list[tuple[float, ...]] = []
    for level, base in zip(levels, (32, 64, 128, 256, 512), strict=True):
        logits, offsets = (level[h][number] for h in ("classification_head", "regression_head"))
        rows, columns = logits.shape[-2:]
        classes = len(logits) // 9
        candidates = []
        for index in (logits.sigmoid() > 0.05).nonzero().tolist():
            channel, row, column = index
            score = float(logits[channel, row, column].sigmoid())
            candidates.append((score, channel // classes, channel % classes, row, column))
        candidates.sort(reverse=True)
        for score, anchor, label, row, column in candidates[:1000]:
            shift = offsets[4 * anchor : 4 * anchor + 4, row, column].tolist()
            corner = (row * (side // rows), column * (side // columns))
            found.append((*_decoded(_anchor(base, anchor), corner, shift, side), label, score))
    kept: list[tuple[float, ...]] = []
    for box in sorted(found, key=lambda each: -each[5]):
        if not any(each[4] == box[4] and _iou(each, box) > 0.5 for each in kept):
            kept.append(box)
    return kept[:300]


def _anchor(base: int, number: int) -> tuple[float, float, float, float]:
    """Return an anchor around (0, 0): three ratios of three sizes, rounded half to even."""
    ratio = (0.5, 1.0, 2.0)[number // 3]
    size = int(base * 2 ** (number % 3 / 3))
    height, width = size * math.sqrt(ratio), size / math.sqrt(ratio)
    left, top, right, bottom = (float(round(edge / 2)) for edge in (-width, -height, width, height))
    return left, top, right, bottom


def _decoded(
    anchor: Sequence[float], corner: tuple[int, int], offsets: Sequence[float], side: int
) -> tuple[float, ...]:
    row, column = corner
    width, height = anchor[2] - anchor[0], anchor[3] - anchor[1]
    x = column + (anchor[0] + anchor[2]) / 2 + offsets[0] * width
    y = row + (anchor[1] + anchor[3]) / 2 + offsets[1] * height
    most = math.log(1000 / 16)
    width *= math.exp(min(offsets[2], most))
    height *= math.exp(min(offsets[3], most))
    edges = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return tuple(min(max(edge, 0.0), float(side)) for edge in edges)


def _iou(a: Sequence[float], b: Sequence[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)
