"""Each metric against an example that is worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.contracts.mobile import ClassMap, Detections, OutputKind, Span, Top1, Upscaled
from controller.contracts.units import Unit
from models.mobile.errors import DatasetUnusable
from models.mobile.metrics import read_answers, score
from models.mobile.spans import best_text


def scores(
    output: OutputKind, answers: Sequence[np.ndarray], truths: Sequence[Any]
) -> dict[str, float]:
    by_sample = {number: answer.tobytes() for number, answer in enumerate(answers)}
    return {name: m.value for name, m in score(output, by_sample, truths).items()}


def test_top1_counts_right_classes_and_the_background_is_never_one() -> None:
    answers = [np.array([number], "<i8") for number in (4, 0, 8, 1)]
    assert scores(Top1(offset=1), answers, [3, 0, 7, 5]) == {"top1": 0.5}


def boxes(*rows: Sequence[float]) -> np.ndarray:
    return np.array(rows, "<f4").reshape(-1, 6)


def true_boxes(image: int, *boxes: Sequence[float], category: int = 3) -> dict[str, Any]:
    return {
        "image_id": image,
        "categories": [category] * len(boxes),
        "boxes": [list(b) for b in boxes],
    }


def test_map_of_a_perfect_a_missed_and_a_rough_box() -> None:
    """Box 1 is found exactly; box 2 with IoU 0.6, which counts at 0.5, 0.55 and 0.6 of ten
    thresholds; box 3 is missed. Both finds are better than any false one, of which there is none.

    Precision at the 101 recall points: 1 up to recall 2/3 (67 points) where the rough box counts,
    up to 1/3 (34 points) where it is a false find: (3 * 67 + 7 * 34) / 10 / 101.
    """
    truths = [true_boxes(1, (0, 0, 0.5, 0.5), (0.5, 0.5, 1, 1), (0, 0.5, 0.4, 1))]
    answer = boxes((0, 0, 0.5, 0.5, 2, 0.9), (0.5, 0.5, 0.8, 1.0, 2, 0.8))
    expected = (3 * 67 + 7 * 34) / 10 / 101
    assert scores(Detections(offset=1), [answer], truths)["mAP"] == pytest.approx(
        expected, abs=1e-5
    )


def test_map_is_the_mean_over_categories_and_one_in_full() -> None:
    box = (0.1, 0.1, 0.6, 0.6)
    truths = [true_boxes(1, box), true_boxes(2, box, category=8)]
    found = boxes((*box, 2, 0.9))
    assert scores(Detections(), [found, boxes((*box, 7, 0.9))], truths) == {"mAP": 1.0}
    assert scores(Detections(), [found, boxes()], truths)["mAP"] == pytest.approx(0.5)
    assert scores(Detections(), [boxes(), boxes()], truths) == {"mAP": 0.0}


def test_images_of_a_truth_that_does_not_number_them_are_apart() -> None:
    """In a `.pbtxt` without numbers, each is 0. Each box is found in the other image."""
    one, two = (0.0, 0.0, 0.4, 0.4), (0.5, 0.5, 1.0, 1.0)
    truths = [true_boxes(0, one), true_boxes(0, two)]
    assert scores(Detections(), [boxes((*two, 2, 0.9)), boxes((*one, 2, 0.8))], truths)["mAP"] == 0
    assert scores(Detections(), [boxes((*one, 2, 0.9)), boxes((*two, 2, 0.8))], truths)["mAP"] == 1


def iou(a: Sequence[float], b: Sequence[float]) -> float:
    sides = [max(0.0, min(a[n + 2], b[n + 2]) - max(a[n], b[n])) for n in (0, 1)]
    areas = [max(0.0, c[2] - c[0]) * max(0.0, c[3] - c[1]) for c in (a, b)]
    common = sides[0] * sides[1]
    total = sum(areas) - common
    return common / total if total > 0 else 0.0


def app_precision(
    found: list[tuple[int, Sequence[float], float]],
    true: list[tuple[int, Sequence[float]]],
    least: float,
) -> float:
    """The average precision of a class, as TensorFlow Lite's evaluation stage has it.

    Detections from the best score on take the truth of their image that they cover best; the mean
    is over the recalls 0, 0.01 … 1, each with the best precision from there on.
    """
    left, right, curve = list(true), 0, []
    for number, (image, box, _) in enumerate(sorted(found, key=lambda f: -f[2]), 1):
        mine = [t for t in left if t[0] == image]
        best = max(mine, key=lambda t: iou(box, t[1]), default=None)
        if best and iou(box, best[1]) >= least:
            left.remove(best)
            right += 1
        curve.append((right / len(true), right / number))
    recalls = [n / 100 for n in range(101)]
    return sum(max((p for r, p in curve if r >= least), default=0.0) for least in recalls) / 101


def test_map_of_random_boxes_is_the_app_s() -> None:
    """Eight classes in the truths, and ten in the detections, some hundred of them an image."""
    draw = np.random.default_rng(91)
    answers, truths = [], []
    found: dict[int, list[tuple[int, Sequence[float], float]]] = {c: [] for c in range(1, 91)}
    true: dict[int, list[tuple[int, Sequence[float]]]] = {c: [] for c in range(1, 91)}
    for image in range(6):
        corners = draw.uniform(0, 0.6, (12, 2))
        edges = np.hstack((corners, corners + draw.uniform(0.1, 0.4, (12, 2)))).astype(np.float32)
        categories = draw.integers(1, 9, 12).tolist()
        truths.append({"image_id": image, "categories": categories, "boxes": edges.tolist()})
        rows = np.repeat(edges, 10, 0) + draw.normal(0, 0.04, (120, 4))
        others = draw.integers(1, 11, 120)
        classes = np.where(draw.random(120) < 0.7, np.repeat(categories, 10), others)
        scored = np.column_stack((rows, classes - 1, draw.random(120)))
        answers.append(scored.astype("<f4"))
        for category, box in zip(categories, edges.tolist(), strict=True):
            true[category].append((image, box))
        for row in answers[-1].tolist():
            found[int(row[4]) + 1].append((image, row[:4], row[5]))
    classes_seen = [c for c in found if found[c] or true[c]]
    thresholds = [0.5 + n * 0.05 for n in range(10)]
    each = [
        app_precision(found[c], true[c], least) if true[c] else 0.0
        for c in classes_seen
        for least in thresholds
    ]
    expected = sum(each) / len(each)
    assert 0.05 < expected < 0.9
    assert scores(Detections(), answers, truths)["mAP"] == pytest.approx(expected, abs=1e-6)


def test_a_class_that_is_in_no_truth_counts_against_the_map() -> None:
    box = (0.1, 0.1, 0.6, 0.6)
    answer = boxes((*box, 2, 0.9), (*box, 4, 0.1))
    assert scores(Detections(), [answer], [true_boxes(1, box)])["mAP"] == pytest.approx(0.5)
    nothing = {"image_id": 1, "categories": [], "boxes": []}
    assert scores(Detections(), [boxes()], [nothing]) == {"mAP": 0.0}


def test_a_class_with_crowds_only_is_in_no_truth() -> None:
    """As COCO ignores it; where it is detected, it counts as any other class without a truth."""
    box = (0.1, 0.1, 0.6, 0.6)
    truth = true_boxes(1, box, box) | {"categories": [3, 8], "areas": [0.25, 0.25], "crowd": [0, 1]}
    assert scores(Detections(), [boxes((*box, 2, 0.9))], [truth]) == {"mAP": 1.0}
    both = boxes((*box, 2, 0.9), (*box, 7, 0.9))
    assert scores(Detections(), [both], [truth]) == {"mAP": 0.5}
    nothing = true_boxes(1, box) | {"areas": [0.25], "crowd": [1]}
    assert scores(Detections(), [boxes()], [nothing]) == {"mAP": 0.0}


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_class_that_is_no_number_is_refused(number: float) -> None:
    box = (0.1, 0.1, 0.6, 0.6)
    with pytest.raises(DatasetUnusable, match="cannot score outputs of kind detections: "):
        scores(Detections(), [boxes((*box, number, 0.9))], [true_boxes(1, box)])


def test_miou_is_over_all_pixels_of_all_images_and_all_classes() -> None:
    """Class 0: 2 of 3 pixels; class 1: 2 of 4, of which two answers are wrong; class 2: 1 of 2;
    pixel 255 counts nowhere; the fourth class is nowhere, and adds nothing to the sum."""
    answers = [np.array([[0, 0, 1, 1]], np.uint8), np.array([[1, 2, 1, 9]], np.uint8)]
    truths = [np.array([[0, 0, 0, 1]], np.uint8), np.array([[1, 2, 2, 255]], np.uint8)]
    expected = (2 / 3 + 2 / 4 + 1 / 2) / 4
    assert scores(ClassMap(classes=4), answers, truths)["mIoU"] == pytest.approx(expected, abs=1e-5)


def test_miou_of_the_suite_leaves_class_0_out() -> None:
    """Class 1: 2 of 3 pixels, class 2: 1 of 2; the pixel that is truly of class 0 counts nowhere,
    and the answer 77, no class at all, is a miss of class 1 and nobody's false find. The app
    divides by 31."""
    answers = [np.array([[1, 1, 77, 2, 0, 1]], np.uint8)]
    truths = [np.array([[1, 1, 1, 2, 2, 0]], np.uint8)]
    output = ClassMap(classes=32, first=1)
    expected = (2 / 3 + 1 / 2) / 31
    assert scores(output, answers, truths)["mIoU"] == pytest.approx(expected, abs=1e-6)


def app_miou(given: Sequence[np.ndarray], true: Sequence[np.ndarray], classes: int) -> float:
    """The algorithm of the app's `flutter/cpp/datasets/ade20k.cc`, written out in its own steps.

    Counts of each class are added up image by image; the fractions are added up in float32. A class
    that occurs in neither answers nor truths is skipped, and still counts in the divisor. Before
    the app skipped it, 0/0 made the whole sum no number, so that no figure was to be equal to.
    """
    tp_acc, fp_acc, fn_acc = ([0] * classes for _ in range(3))
    for outputs, ground_truth in zip(given, true, strict=True):
        pixels = list(zip(outputs.ravel().tolist(), ground_truth.ravel().tolist(), strict=True))
        for c in range(1, classes + 1):
            for p, g in pixels:
                if c not in (p, g):
                    continue
                if p == g:
                    tp_acc[c - 1] += 1
                elif p == c:
                    fp_acc[c - 1] += 0 < g <= classes
                else:
                    fn_acc[c - 1] += 1
    iou_sum = np.float32(0)
    for tp, fp, fn in zip(tp_acc, fp_acc, fn_acc, strict=True):
        if tp + fp + fn:
            iou_sum = np.float32(float(iou_sum) + tp / (tp + fp + fn))
    return float(iou_sum / np.float32(classes))


ALL, FEW = range(256), (*range(9), 77, 255)


@pytest.mark.parametrize(
    ("answered", "annotated"),
    [
        (ALL, ALL),
        (FEW, FEW),  # 23 classes occur nowhere
        (FEW, ALL),  # are answered nowhere
        (ALL, FEW),  # are true nowhere, so that answering them is wrong
        ((0, 31), (0, 31)),
        ((1, 5), (0, 32, 255)),  # no pixel counts
    ],
)
def test_miou_of_random_maps_is_the_app_s(
    answered: Sequence[int], annotated: Sequence[int]
) -> None:
    draw = np.random.default_rng(31)
    shape = (3, 20, 30)
    true = draw.choice(annotated, shape).astype(np.uint8)
    kept = np.isin(true, answered) & (draw.random(shape) < 0.7)
    given = np.where(kept, true, draw.choice(answered, shape)).astype(np.uint8)
    found = scores(ClassMap(classes=32, first=1), list(given), list(true))["mIoU"]
    assert found == pytest.approx(app_miou(list(given), list(true), 31), abs=1e-6)


def test_a_class_that_occurs_nowhere_counts_in_the_divisor_of_the_app_s_miou() -> None:
    """All of the 8 classes that occur are right: 8 of 31, not 8 of 8."""
    classes = [np.arange(9, dtype=np.uint8).reshape(3, 3)]
    found = scores(ClassMap(classes=32, first=1), classes, classes)["mIoU"]
    assert found == pytest.approx(8 / 31, abs=1e-6) == app_miou(classes, classes, 31)


def test_f1_and_exact_match_take_the_best_answer_of_each_question() -> None:
    """Question a is answered exactly but for its article, which the app counts as a wrong word
    (precision 3/4, recall 1: F1 6/7); of b two of three words are found (precision 1, recall 2/3:
    F1 4/5). Exact is one of two."""

    def truth(name: str, answers: list[str]) -> dict[str, Any]:
        return {
            "id": name,
            "tokens": ["[CLS]", "q", "[SEP]", "the", "old", "stone", "bridge", "[SEP]"],
            "words": ["The", "old", "stone", "bridge."],
            "first": 3,
            "word_of": [0, 1, 2, 3],
            "best_context": [1, 1, 1, 1],
            "answers": answers,
        }

    def logits(first: int, last: int) -> np.ndarray:
        both = np.zeros((2, 8), "<f4")
        both[0, first], both[1, last] = 5.0, 5.0
        return both

    answers = [logits(3, 6), logits(5, 6)]
    truths = [
        truth("a", ["a bridge", "old stone bridge"]),
        truth("b", ["old stone bridge"]),
    ]
    found = scores(Span(), answers, truths)
    assert found["exact_match"] == 0.5
    assert found["F1"] == pytest.approx((6 / 7 + 4 / 5) / 2, abs=1e-6)
    swapped = [answer[::-1].copy() for answer in answers]
    assert scores(Span(start=1), swapped, truths) == found


def test_a_span_stays_in_the_text_and_within_its_length() -> None:
    what = {
        "tokens": ["[CLS]", "[SEP]", "u", "##n", "deux", "trois", "[SEP]"],
        "first": 2,
        "word_of": [0, 0, 1, 2],
        "best_context": [1, 1, 0, 1],
        "words": ["un", "deux", "trois"],
    }
    start, end = np.zeros(8, np.float32), np.zeros(8, np.float32)
    start[0], end[0] = 9, 9  # before the text
    start[4], end[4] = 8, 1  # its best context is in another feature
    start[2], end[5] = 3, 3
    assert best_text(start, end, what, Span()) == (6.0, "un deux trois")
    short = Span(max_answer_tokens=3)
    assert best_text(start, end, what, short)[1] == "un deux"
    end[6] = 9  # the separator after the text
    assert best_text(start, end, what, Span())[1] == "un deux trois"


def test_the_first_of_equally_likely_answers_counts() -> None:
    what = {
        "id": "q",
        "tokens": ["[SEP]", "one", "two"],
        "words": ["one", "two"],
        "first": 1,
        "word_of": [0, 1],
        "best_context": [1, 1],
        "answers": ["one"],
    }
    one, two = np.zeros((2, 3), "<f4"), np.zeros((2, 3), "<f4")
    one[:, 1], two[:, 2] = 5, 5
    assert scores(Span(), [one, two], [what, what]) == {"F1": 1.0, "exact_match": 1.0}
    assert scores(Span(), [two, one], [what, what]) == {"F1": 0.0, "exact_match": 0.0}


def test_psnr_of_a_known_difference() -> None:
    """Every value is off by 5: 20 log10(255 / 5); the second image by 51: 20 log10(5)."""
    true = np.full((4, 6, 3), 100, np.uint8)
    answers = [(true + 5).astype(np.uint8), (true - 51).astype(np.uint8)]
    found = score(Upscaled(), {n: a.tobytes() for n, a in enumerate(answers)}, [true, true])
    expected = (20 * math.log10(255 / 5) + 20 * math.log10(5)) / 2
    assert found["PSNR"].value == pytest.approx(expected, abs=1e-4)
    assert found["PSNR"].unit is Unit.DECIBELS
    assert not Unit.DECIBELS.lower_is_better


def test_psnr_of_a_large_image_is_the_app_s() -> None:
    """The app's loop in C++ gives 32.524597 for these images; an exact sum would be 32.4867."""
    draw, shape = np.random.default_rng(33), (1080, 1920, 3)
    true = draw.integers(60, 196, shape).astype(np.uint8)
    given = (true + draw.integers(-3, 4, shape) * draw.integers(0, 6, shape)).astype(np.uint8)
    assert scores(Upscaled(), [given], [true])["PSNR"] == pytest.approx(32.524597, abs=2e-6)


def test_an_image_equal_to_its_truth_is_named() -> None:
    """The reference caps nothing: one such image makes the mean infinite."""
    true = np.full((2, 2, 3), 100, np.uint8)
    answers = {4: (true + 5).tobytes(), 7: true.tobytes()}
    with pytest.raises(DatasetUnusable, match="PSNR of image 7: it is equal to its true image"):
        score(Upscaled(), answers, [true] * 8)


def test_an_answer_of_another_size_is_refused() -> None:
    with pytest.raises(DatasetUnusable, match="cannot score outputs of kind upscaled"):
        scores(Upscaled(), [np.zeros(5, np.uint8)], [np.zeros((2, 2, 3), np.uint8)])


def test_answers_are_read_line_by_line(tmp_path: Path) -> None:
    entries = [{"seq_id": n, "qsl_idx": n, "data": "0A00"} for n in range(3)]
    log = tmp_path / "log.json"
    log.write_text("[\n" + ",\n".join(json.dumps(e) for e in entries) + "\n]\n")
    found = read_answers(log, 4)
    assert found.by_sample == dict.fromkeys(range(3), b"\n\0")
    assert found.objections == ("accuracy run answered 3 of 4 samples",)


@pytest.mark.parametrize("other", [-1, 3, 2**63])
def test_an_answer_to_a_sample_that_there_is_not_is_refused(other: int, tmp_path: Path) -> None:
    """It does not stand for the missing sample 1, and no index from the end does."""
    log = tmp_path / "log.json"
    entries = [{"seq_id": n, "qsl_idx": of, "data": "0A00"} for n, of in enumerate((0, other, 2))]
    log.write_text("[\n" + ",\n".join(json.dumps(e) for e in entries) + "\n]\n")
    found = read_answers(log, 3)
    assert sorted(found.by_sample) == [0, 2]
    assert found.objections == (
        f"accuracy run answered samples that there are not: 1, such as {other}",
        "accuracy run answered 2 of 3 samples",
    )
