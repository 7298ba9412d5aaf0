"""The shapes data set: the same bits everywhere, and what the manifest and the card say of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from controller.contracts.catalog import load_catalog
from models.mobile.classifier import shapes

FOLDER = Path(shapes.__file__).parent
CARD = yaml.safe_load((FOLDER / "card.yaml").read_text())


def test_the_evaluation_set_has_the_checksum_its_model_was_scored_on(tmp_path: Path) -> None:
    target = tmp_path / "set.npz"
    assert shapes.write_evaluation_set(target) == shapes.EVALUATION_SHA256
    with np.load(target) as arrays:
        assert arrays["images"].shape == (shapes.EVALUATION_IMAGES, shapes.SIZE, shapes.SIZE, 3)
        assert shapes.checksum(arrays["images"], arrays["labels"]) == shapes.EVALUATION_SHA256
    assert list(tmp_path.iterdir()) == [target]


def test_an_image_depends_on_its_split_and_number_only() -> None:
    alone, label = shapes.render("training", 7)
    among, labels = shapes.images("training", 3, first=6)
    assert np.array_equal(alone, among[1])
    assert label == labels[1] == 7
    assert not np.array_equal(alone, shapes.render("evaluation", 7)[0])


def test_classes_are_balanced_and_images_differ() -> None:
    pixels, labels = shapes.images("evaluation", 100)
    assert np.bincount(labels).tolist() == [10] * len(shapes.FIGURES)
    assert len({image.tobytes() for image in pixels}) == 100
    assert pixels.dtype == np.uint8


def test_one_flipped_bit_changes_the_checksum() -> None:
    pixels, labels = shapes.images("evaluation", 2)
    before = shapes.checksum(pixels, labels)
    pixels[1, 5, 5, 0] ^= 1
    assert shapes.checksum(pixels, labels) != before


def test_other_images_than_the_models_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shapes, "EVALUATION_IMAGES", 10)
    with pytest.raises(shapes.DatasetDiffers, match="shapes/evaluation"):
        shapes.write_evaluation_set(tmp_path / "set.npz")
    assert list(tmp_path.iterdir()) == []


def test_card_manifest_and_files_agree() -> None:
    manifest = load_catalog().workloads["shapes_classifier"]
    assert manifest.on_device is not None
    for numerics, model in manifest.on_device.models.items():
        content = (FOLDER.parents[1] / model.path).read_bytes()
        entry = CARD["models"][numerics]
        assert hashlib.sha256(content).hexdigest() == model.sha256 == entry["sha256"]
    dataset = manifest.on_device.dataset
    assert dataset.sha256 == CARD["dataset"]["sha256"] == shapes.EVALUATION_SHA256
    assert dataset.samples == CARD["dataset"]["images"] == shapes.EVALUATION_IMAGES


def test_the_quality_target_is_98_percent_of_fp32_and_int8_reaches_it() -> None:
    manifest = load_catalog().workloads["shapes_classifier"]
    assert manifest.quality_target is not None
    target = manifest.quality_target
    fp32, int8 = CARD["models"]["fp32"]["top1"], CARD["models"]["int8"]["top1"]
    assert target.metric == "top1"
    assert target.value == pytest.approx(0.98 * fp32, abs=5e-5)  # printed with four digits
    assert target.value <= int8
    assert 0.5 < fp32 < 0.98  # well above chance, and not a task without errors
