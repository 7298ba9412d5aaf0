"""The shapes data set: the same bits everywhere, and what the manifest and the card say of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from controller.contracts.catalog import load_catalog
from controller.contracts.mobile import Dataset
from models.mobile.classifier import shapes
from models.mobile.samples import read_truths, write_samples

FOLDER = Path(shapes.__file__).parent
CARD = yaml.safe_load((FOLDER / "card.yaml").read_text())


def dataset() -> Dataset:
    workload = load_catalog().workloads["shapes_classifier"].on_device
    assert workload
    return workload.datasets["full"]


def test_the_evaluation_set_has_the_checksum_its_model_was_scored_on(tmp_path: Path) -> None:
    samples = shapes.evaluation_set()
    assert write_samples(samples, tmp_path / "inputs", tmp_path / "truths") == dataset().checksum
    images = np.load(tmp_path / "inputs/input_0.npy")
    assert images.shape == (shapes.EVALUATION_IMAGES, shapes.SIZE, shapes.SIZE, 3)
    truths = read_truths(tmp_path / "truths")
    assert truths is not None
    assert list(truths) == samples.labels.tolist()


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


def test_one_flipped_bit_changes_the_checksum(tmp_path: Path) -> None:
    pixels, labels = shapes.images("evaluation", 2)
    samples = shapes.Shapes(pixels, labels)
    before = write_samples(samples, tmp_path / "a", tmp_path / "b")
    pixels[1, 5, 5, 0] ^= 1
    assert write_samples(samples, tmp_path / "c", tmp_path / "d") != before


def test_card_manifest_and_files_agree() -> None:
    manifest = load_catalog().workloads["shapes_classifier"]
    assert manifest.on_device is not None
    for numerics, model in manifest.on_device.models.items():
        content = (FOLDER.parents[1] / str(model.path)).read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        assert model.checksum == f"sha256:{sha256}"
        assert sha256 == CARD["models"][numerics]["sha256"]
    assert dataset().checksum == f"sha256:{CARD['dataset']['sha256']}"
    assert dataset().samples == CARD["dataset"]["images"] == shapes.EVALUATION_IMAGES


def test_the_quality_target_is_98_percent_of_fp32_and_int8_reaches_it() -> None:
    manifest = load_catalog().workloads["shapes_classifier"]
    assert manifest.quality_target is not None
    target = manifest.quality_target
    fp32, int8 = CARD["models"]["fp32"]["top1"], CARD["models"]["int8"]["top1"]
    assert target.metric == "top1"
    assert target.value == pytest.approx(0.98 * fp32, abs=5e-5)  # printed with four digits
    assert target.value <= int8
    assert 0.5 < fp32 < 0.98  # well above chance, and not a task without errors
