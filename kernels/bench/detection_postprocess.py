"""Post-processing of one 800 px image, with a given number of candidates above the score
threshold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import DTYPES, Case, Operator, bytes_of, differ
from kernels.bench.inputs import some_boxes
from kernels.ops.detection_postprocess import OP, detection_postprocess
from kernels.reference import detection as reference

LEVELS = (90_000, 22_500, 5_625, 1_521, 441)
CLASSES, IMAGE = 264, (800, 800)
CANDIDATES = (1_000, 0, 20_000)
SHAPES = tuple(f"{sum(LEVELS)}x{CLASSES}, {count} candidates" for count in CANDIDATES)

SCORE_ERROR = 1e-6
BOX_ERROR = 1e-5
"""Error of fp32 through exp, relative to the image's side."""


def case(dtype: str, shape: str) -> Case:
    """Return the case of detection_postprocess: threshold, top k, decoding, suppression."""
    candidates = CANDIDATES[SHAPES.index(shape)]
    logits, regression = _outputs(candidates, DTYPES[dtype])
    anchors = some_boxes(sum(LEVELS), 9)
    arguments = (logits, regression, anchors, LEVELS, IMAGE)

    def objections() -> list[str]:
        # bf16 has only some hundred different scores, so among equal ones the best 1,000 of a level
        # are not unique; at most that many are compared.
        checked = min(candidates, CANDIDATES[0]) if dtype == "bf16" else candidates
        given = (*_outputs(checked, DTYPES[dtype]), anchors, LEVELS, IMAGE)
        return compare(detection_postprocess(*given), reference.detection_postprocess(*given))

    return Case(
        shape=shape,
        kernel=partial(detection_postprocess, *arguments),
        baselines={"eager": partial(reference.detection_postprocess, *arguments)},
        # Of offsets and anchors only those of candidates have to be read.
        moved_bytes=bytes_of(logits, *detection_postprocess(*arguments)),
        largest_bytes=bytes_of(logits),
        objections=objections,
    )


def compare(mine: reference.Detections, truth: reference.Detections) -> list[str]:
    """Return how detections differ; equal scores may be in any order."""
    if len(mine.labels) != len(truth.labels):
        return [f"{len(mine.labels)} detections, expected {len(truth.labels)}"]
    mine, truth = _ordered(mine), _ordered(truth)
    if not torch.equal(mine.labels, truth.labels):
        return ["labels differ from the reference's"]
    return [
        *differ("scores", mine.scores, truth.scores, SCORE_ERROR),
        *differ("boxes", mine.boxes, truth.boxes, BOX_ERROR),
    ]


def _ordered(found: reference.Detections) -> reference.Detections:
    """Return detections in an order that is unique despite equal scores."""
    keys: Sequence[tuple[float, ...]] = torch.cat(
        (found.labels[:, None].double(), found.boxes.double().round(decimals=1)), dim=1
    ).tolist()
    order = torch.tensor(sorted(range(len(keys)), key=lambda at: tuple(keys[at])), dtype=torch.long)
    return reference.Detections(found.boxes[order], found.scores[order], found.labels[order])


def _outputs(candidates: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return logits with a given number above the threshold of 0.05, which is a logit of -2.94."""
    generator = torch.Generator().manual_seed(10)
    rows = sum(LEVELS)
    logits = torch.randn(rows * CLASSES, generator=generator).clamp(max=3).sub(7)
    chosen = torch.randperm(rows * CLASSES, generator=generator)[:candidates]
    logits[chosen] = torch.rand(candidates, generator=generator) * 5 - 2.5
    regression = torch.randn(rows, 4, generator=generator) * 0.2
    return logits.reshape(rows, CLASSES).to(dtype), regression.to(dtype)


OPERATOR = Operator(OP.dtypes, SHAPES, case)
