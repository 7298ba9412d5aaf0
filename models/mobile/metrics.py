"""Scores of answers, as MLPerf Mobile's app computes them, from LoadGen's accuracy log.

An answer is the bytes that the runner gave LoadGen: see agents/inference/runner/answers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from controller.contracts.documents import load_json
from controller.contracts.mobile import ClassMap, Detections, OutputKind, Span, Top1, Upscaled
from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from models.mobile.errors import DatasetUnusable
from models.mobile.pixels import UNKNOWN
from models.mobile.samples import Truth
from models.mobile.spans import best_text
from models.mobile.squad_score import exact, f1

MAX_ENTRY_BYTES: Final = 2**28
"""Longest line of LoadGen's log: an answer in hex."""
MANY: Final = 10_000
"""Side of an image whose truth has no size."""
ROW_BYTES: Final = 6 * 4
"""Of a detection."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of an accuracy run by sample number."""

    by_sample: Mapping[int, bytes]
    objections: tuple[str, ...]
    """Why the run doesn't cover the whole set exactly once, and nothing else."""


def read_answers(path: Path, samples: int, repeated: int = 0) -> Answers:
    """Parse `mlperf_log_accuracy.json`; raises ValueError, KeyError, TypeError, OSError.

    Each entry is one line with a sample number and an answer in hex; only one line is held in
    memory at a time beside the answers.

    repeated: answers that LoadGen may have asked for twice, to fill queries of several samples.
    """
    found: dict[int, bytes] = {}
    unknown: list[int] = []
    twice = 0
    with path.open() as log:
        for entry in _entries(iter(partial(log.readline, MAX_ENTRY_BYTES), "")):
            sample = int(entry["qsl_idx"])
            if not 0 <= sample < samples:
                unknown.append(sample)
                continue
            twice += sample in found
            found[sample] = bytes.fromhex(entry["data"])
    reasons = []
    if unknown:
        told = f"{len(unknown)}, such as {unknown[0]}"
        reasons.append(f"accuracy run answered samples that there are not: {told}")
    if len(found) != samples:
        reasons.append(f"accuracy run answered {len(found)} of {samples} samples")
    if twice > repeated:
        reasons.append(f"accuracy run answered {twice} samples twice")
    return Answers(found, tuple(reasons))


def _entries(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if (text := line.strip().rstrip(",")) not in ("[", "]", ""):
            # LoadGen closes the array on the line of its last entry.
            yield load_json(text.removesuffix("]").strip().removeprefix("["), MAX_ENTRY_BYTES)


def require_form(output: OutputKind, answers: Mapping[int, bytes]) -> None:
    """Raise ValueError for answers that no runner gives: detections are whole rows, and all other
    answers of a model have one length."""
    lengths = {len(answer) for answer in answers.values()}
    if isinstance(output, Detections):
        is_so = not any(length % ROW_BYTES for length in lengths)
    else:
        is_so = len(lengths) <= 1 and 0 not in lengths
    if not is_so:
        raise ValueError("it has answers that are cut")


def score(
    output: OutputKind, answers: Mapping[int, bytes], truths: Sequence[Truth]
) -> dict[str, Measurement]:
    """Return a task's metrics; raises DatasetUnusable if an answer doesn't fit its truth."""
    try:
        numbers = sorted(answers)
        pairs = [(answers[number], truths[number]) for number in numbers]
        if isinstance(output, Top1):
            return {"top1": _fraction(top1(pairs, output))}
        if isinstance(output, Detections):
            return {"mAP": _fraction(coco_map(pairs, output))}
        if isinstance(output, ClassMap):
            return {"mIoU": _fraction(miou(pairs, output))}
        if isinstance(output, Span):
            f1, exact = squad(pairs, output)
            return {"F1": _fraction(f1), "exact_match": _fraction(exact)}
        if isinstance(output, Upscaled):
            return {"PSNR": Measurement(value=psnr(pairs, numbers), unit=Unit.DECIBELS)}
    except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError) as error:
        raise DatasetUnusable(
            f"score outputs of kind {output.kind}",
            repr(error),
            "Check that data set and model fit each other.",
        ) from error
    return {}


def _fraction(value: float) -> Measurement:
    # torchmetrics divides in float32, which would make 9 of 10 less than 0.9.
    return Measurement(value=round(value, 6), unit=Unit.FRACTION)


Pairs = Sequence[tuple[bytes, Truth]]


def top1(pairs: Pairs, output: Top1) -> float:
    """Return the share of right classes; an answer is the index of the highest output, int64."""
    import torch
    from torchmetrics.functional.classification import multiclass_accuracy

    given = torch.tensor([int(np.frombuffer(a, "<i8")[0]) - output.offset for a, _ in pairs])
    true = torch.tensor([int(t) for _, t in pairs])
    # An answer below 0 is the background, which is never a right class.
    classes = int(max(given.max(), true.max())) + 2
    given = torch.where(given < 0, classes - 1, given)
    return float(multiclass_accuracy(given, true, num_classes=classes, average="micro"))


def coco_map(pairs: Pairs, output: Detections) -> float:
    """Return COCO's mAP over IoU 0.5 … 0.95, for all areas and detections.

    An answer is (n, 6) float32: top, left, bottom, right as fractions, class, score. As in the
    suite's app, a class that is detected and in no truth counts, with an average precision of 0;
    crowds are no such truths, since COCO ignores them.
    """
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, found = COCO(), COCO()
    images: list[dict[str, int]] = []
    true: list[dict[str, Any]] = []
    detected: list[dict[str, Any]] = []
    for image, (answer, what) in enumerate(pairs, 1):  # a `.pbtxt` need not number them
        height, width = what.get("size", (MANY, MANY))
        images.append({"id": image, "height": height, "width": width})
        true += _true_boxes(what, image, height, width, len(true))
        for row in np.frombuffer(answer, "<f4").reshape(-1, 6).tolist():
            box = _box(row[:4], height, width)
            entry = _annotation(len(detected), image, int(row[4]) + output.offset, box)
            detected.append(entry | {"score": row[5]})
    counted = {a["category_id"] for a in true + detected if not a["iscrowd"]}
    categories = [{"id": c} for c in sorted(counted)]
    with redirect_stdout(StringIO()):  # it prints tables
        for coco, annotations in ((truth, true), (found, detected)):
            coco.dataset = {"images": images, "annotations": annotations, "categories": categories}
            coco.createIndex()
        evaluation = COCOeval(truth, found, "bbox")
        evaluation.params.recThrs = np.arange(101) / 100  # its own 0.3 is above 3 of 10
        evaluation.params.maxDets = [max(len(answer) // ROW_BYTES for answer, _ in pairs)]
        # Boxes are as the model gives them: their area may be below 0 or above the image's.
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[-inf, inf]], ["all"]
        evaluation.evaluate()
        evaluation.accumulate()
    # (thresholds, recalls, classes, 1, 1); -1 for a class that is in no truth
    precision = evaluation.eval["precision"].clip(0)
    return float(precision.mean()) if precision.size else 0.0


def _true_boxes(
    what: Truth, image: int, height: int, width: int, known: int
) -> Iterator[dict[str, Any]]:
    boxes = zip(what["categories"], what["boxes"], strict=True)
    for number, (category, edges) in enumerate(boxes):
        entry = _annotation(known + number, image, category, _box(edges, height, width))
        if "areas" in what:
            entry |= {"area": what["areas"][number], "iscrowd": what["crowd"][number]}
        yield entry


def _box(edges: Sequence[float], height: int, width: int) -> list[float]:
    top, left, bottom, right = edges
    return [left * width, top * height, (right - left) * width, (bottom - top) * height]


def _annotation(number: int, image: int, category: int, box: list[float]) -> dict[str, Any]:
    # COCOeval treats an id of 0 as no match.
    return {
        "id": number + 1,
        "image_id": image,
        "category_id": category,
        "bbox": box,
        "area": box[2] * box[3],
        "iscrowd": 0,
    }


def miou(pairs: Pairs, output: ClassMap) -> float:
    """Return the sum over classes of intersection / union over all pixels, by the number of classes
    that count.

    An answer is a class number a pixel, uint8. A class in neither answer nor truth adds nothing.
    Left out are pixels without an annotation, and pixels whose true class does not count. The
    suite's app does it so; its class 0 means everything else.
    """
    import torch
    from torchmetrics.classification import MulticlassConfusionMatrix

    classes = output.classes
    # One more class for answers that are not a class, which are always wrong.
    confusion = MulticlassConfusionMatrix(num_classes=classes + 1, ignore_index=UNKNOWN)
    for answer, what in pairs:
        true = _true_classes(what, output)
        given = np.frombuffer(answer, np.uint8).astype(np.int64).reshape(true.shape)
        given -= output.offset
        given[(given < 0) | (given > classes)] = classes
        confusion.update(torch.from_numpy(given), torch.from_numpy(true))
    counted = slice(output.first, classes)
    table = confusion.compute().double()
    intersections = table.diagonal()[counted]
    unions = (table.sum(0) + table.sum(1))[counted] - intersections
    return float((intersections / unions.clamp(min=1)).mean())


def _true_classes(what: NDArray[np.uint8], output: ClassMap) -> NDArray[np.int64]:
    true = np.asarray(what, dtype=np.int64)
    return np.where((true >= output.first) & (true < output.classes), true, UNKNOWN)


def squad(pairs: Pairs, output: Span) -> tuple[float, float]:
    """Return SQuAD's F1 and exact match, as fractions: see squad_score.py.

    An answer is (2, tokens) float32: the logits of both outputs. The best span of all features of a
    question counts, the first one of equals.
    """
    best: dict[str, tuple[float, str]] = {}
    answers: dict[str, list[str]] = {}
    for answer, what in pairs:
        logits = np.frombuffer(answer, "<f4").reshape(2, -1)
        start, end = logits[output.start], logits[1 - output.start]
        found = best_text(start, end, what, output)
        answers[what["id"]] = what["answers"]
        if what["id"] not in best or found[0] > best[what["id"]][0]:
            best[what["id"]] = found
    texts = [(text, answers[name]) for name, (_, text) in best.items()]
    f1s, exacts = zip(*((f1(*pair), exact(*pair)) for pair in texts), strict=True)
    return sum(f1s) / len(texts), sum(exacts) / len(texts)


def psnr(pairs: Pairs, numbers: Sequence[int]) -> float:
    """Return the mean over images of the peak signal-to-noise ratio in dB, in RGB of 8 bits.

    As in the suite's app, squares are added up in float32, pixel after pixel: 1080x1920 of them
    lose the small ones, which gives up to 0.1 dB more than an exact sum. The rules' 33.58 dB were
    measured so; `tf.image.psnr` gave 33.49 dB (mlcommons/mobile_open, pull request 17). The app
    caps no image, so that one equal to its truth makes the mean infinite: no accuracy.

    numbers: of the samples. Raises DatasetUnusable for such an image.
    """
    values = []
    for number, (answer, what) in zip(numbers, pairs, strict=True):
        true = np.asarray(what, np.int32)
        off = np.frombuffer(answer, np.uint8).reshape(true.shape) - true
        total = (off * off).cumsum(dtype=np.float32)[-1]  # np.sum would add them in pairs
        if not total:
            raise DatasetUnusable(
                f"work out the PSNR of image {number}",
                "it is equal to its true image, and so the PSNR infinite",
                "Check that the model upscales, and that the true image is not its own output.",
            )
        values.append(-10 * np.log10(total / np.float32(off.size) / 255**2))
    return float(np.mean(values))
