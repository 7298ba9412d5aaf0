"""Loading of images: the reference's transforms, any decoder and worker, and what goes wrong."""

from __future__ import annotations

import dataclasses
import io
import multiprocessing
import os
import signal
import threading
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

from controller.contracts.errors import WorkerFault
from controller.contracts.facts import undeclared
from controller.contracts.result import Blame
from models.images.cache import require_memory
from models.images.decoders import PACKAGES, decoder
from models.images.errors import DataUnusable
from models.images.folder import open_set
from models.images.loading import ImageBatches, ImageLoader
from models.images.made import IMAGES, SIZES, ensure_made, write_set
from models.images.statistics import draw_boxes
from models.images.synthetic import SyntheticImages
from models.retinanet.data import DetectionBatch
from tests.support.image_sets import PLAIN, batches, loading, write


def same(one: DetectionBatch, other: DetectionBatch) -> bool:
    targets = zip(one.targets, other.targets, strict=True)
    return torch.equal(one.images, other.images) and all(
        torch.equal(a.boxes, b.boxes) and torch.equal(a.labels, b.labels) for a, b in targets
    )


def load(loader: ImageLoader, steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        loader.batch(step)


def test_an_image_is_what_the_reference_makes_of_it(tmp_path: Path) -> None:
    write(tmp_path)
    loaded = batches(tmp_path)
    seen = set()
    for step in range(8):
        batch = loaded[step]
        assert isinstance(batch, DetectionBatch)
        for number, image, target in zip(
            loaded.numbers(step), batch.images, batch.targets, strict=True
        ):
            wanted, boxes, labels = as_reference(loaded, number)
            mirrored = torch.stack((32 - boxes[:, 2], boxes[:, 1], 32 - boxes[:, 0], boxes[:, 3]))
            is_mirrored = not torch.allclose(target.boxes, boxes)
            seen.add((number, is_mirrored))
            # Rounding of fp32: values are up to 1, the order of two linear operations differs.
            expected = wanted.flip(-1) if is_mirrored else wanted
            torch.testing.assert_close(image, expected, rtol=0, atol=2e-6)
            torch.testing.assert_close(target.boxes, mirrored.T if is_mirrored else boxes)
            assert target.labels.tolist() == labels
    assert len(seen) == 8, "each of the four images has been seen in both ways"


def as_reference(loaded: ImageBatches, number: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Scale, then resize, as training/single_stage_detector/ssd/model/transform.py."""
    with Image.open(loaded.source.path(number)) as picture:
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255
    square = functional.interpolate(pixels[None], size=(32, 32), mode="bilinear")[0]
    edges, labels = loaded.source.annotations.of(number)
    width, height = pixels.shape[2], pixels.shape[1]
    scale = torch.tensor([32 / width, 32 / height, 32 / width, 32 / height])
    return square, torch.from_numpy(edges) * scale, labels.tolist()


def test_an_epoch_has_each_image_once_in_another_order_each_time(tmp_path: Path) -> None:
    write(tmp_path, images=9)
    loaded = batches(tmp_path)
    assert loaded.epoch_steps == 4, "the ninth image fills no batch"
    epochs = [[n for s in range(4) for n in loaded.numbers(4 * e + s)] for e in range(3)]
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert loaded.numbers(0) == epochs[0][:2]


@pytest.mark.parametrize(
    "given",
    [{"workers": 1}, {"workers": 2, "prefetch": 1}, {"cache": "files"}, {"decoder": "opencv"}],
    ids=str,
)
def test_a_batch_is_the_same_however_it_is_loaded(tmp_path: Path, given: dict[str, object]) -> None:
    write(tmp_path)
    state = torch.random.get_rng_state()
    with loading(tmp_path) as plain, loading(tmp_path, **given) as loader:
        for step in (0, 1, 2, 3, 1, 2, 7):
            assert same(loader.batch(step), plain.batch(step)), step
        assert undeclared(loader.facts(), {}) == []
        assert loader.facts()["data_images"] == 4
    assert torch.equal(torch.random.get_rng_state(), state)


def test_workers_share_images_that_are_cached_in_their_size(tmp_path: Path) -> None:
    folder = write(tmp_path)
    with loading(tmp_path) as plain, loading(tmp_path, cache="resized", workers=2) as loader:
        wanted = [plain.batch(step) for step in range(8)]
        first = [loader.batch(step) for step in range(2)]
        for picture in (folder / "images").iterdir():
            picture.unlink()
        loader.close()  # the next workers can't read the files, so the memory has them
        rest = [loader.batch(step) for step in range(2, 8)]
    for exact, rounded in zip(wanted, first + rest, strict=True):
        largest = 0.5 / 255 + 1e-6  # half of a 255th, and rounding of fp32
        torch.testing.assert_close(rounded.images, exact.images, rtol=0, atol=largest)
        assert [t.labels.tolist() for t in rounded.targets] == [
            t.labels.tolist() for t in exact.targets
        ]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_step_that_is_asked_for_twice_is_loaded_once(tmp_path: Path, workers: int) -> None:
    write(tmp_path)
    with loading(tmp_path, workers=workers) as loader:
        first = loader.batch(0)
        pids = {process.pid for process in multiprocessing.active_children()}
        assert len(pids) == workers
        assert loader.batch(0) is first
        assert not same(loader.batch(1), first)
        assert {process.pid for process in multiprocessing.active_children()} == pids


def test_workers_are_not_pinned_as_the_thread_that_trains(tmp_path: Path) -> None:
    """OpenMP pins that one to a core, with the knob thread_binding, and each other of its own."""
    write(tmp_path)
    given, done = os.sched_getaffinity(0), threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    os.sched_setaffinity(0, {min(given)})
    try:
        with loading(tmp_path, workers=1) as loader:
            loader.batch(0)
            (worker,) = multiprocessing.active_children()
            assert worker.pid
            assert os.sched_getaffinity(worker.pid) == given
        assert os.sched_getaffinity(0) == {min(given)}
    finally:
        os.sched_setaffinity(0, given)
        done.set()
        other.join()


def test_cpu_time_of_workers_is_told_apart(tmp_path: Path) -> None:
    write(tmp_path)
    with loading(tmp_path, workers=1) as loader:
        before = loader.cpu_s()
        loader.batch(0)
        assert loader.cpu_s() > before
    assert loader.cpu_s() == 0


@pytest.mark.parametrize("name", PACKAGES)
def test_decoders_agree_to_the_pixel(name: str) -> None:
    numbers = np.random.default_rng(1)
    pixels = numbers.integers(256, size=(6, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((65, 47)).save(file, "JPEG", quality=90)
    found, wanted = decoder(name)(file.getvalue()), decoder("pillow")(file.getvalue())
    assert found.shape == (47, 65, 3)
    assert found.flags.writeable
    # All use libjpeg-turbo; releases may round differently by one.
    assert np.abs(found.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("damage", ["empty", "text", "half", "no end"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_image_is_one_line_with_file_and_field(
    tmp_path: Path, name: str, damage: str, workers: int
) -> None:
    folder = write(tmp_path)
    path = folder / "images" / "2.jpg"
    content = path.read_bytes()
    cut = {"empty": 0, "text": 0, "half": len(content) // 2, "no end": len(content) - 40}
    path.write_bytes(content[: cut[damage]] + (b"no image" if damage == "text" else b""))
    with (
        loading(tmp_path, decoder=name, workers=workers) as loader,
        pytest.raises(DataUnusable) as raised,
    ):
        load(loader, 2)
    line = str(raised.value)
    assert line.startswith(f"cannot read {path}: images[2].file_name of annotations.json: ")
    assert f"decoder {name} can't read it: " in line
    assert "\n" not in line
    assert len(line) < 400


def test_an_image_that_is_missing_or_of_another_size_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "images" / "0.jpg").unlink()
    with pytest.raises(DataUnusable, match=r"0\.jpg: knob data: images\[0\]\.file_name of "):
        all_of(batches(tmp_path))
    os.link(folder / "images" / "1.jpg", folder / "images" / "0.jpg")
    with pytest.raises(DataUnusable, match=r"images\[0\]\.width .*64x48, and the image is 48x64"):
        all_of(batches(tmp_path))


def all_of(loaded: ImageBatches) -> None:
    for step in range(loaded.epoch_steps):
        if isinstance(found := loaded[step], DataUnusable):
            raise found


def test_a_batch_larger_than_the_set_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataUnusable, match="images: batch_size=5 is more than its 4 images"):
        batches(tmp_path, batch_size=5)


def test_a_file_that_takes_too_long_is_named_with_its_knob(tmp_path: Path) -> None:
    write(tmp_path)
    settings = dataclasses.replace(PLAIN, timeout_s=5.0)
    slow = ImageBatches(open_set("small", 2, tmp_path), settings, count(0.0, 7.0).__next__)
    found = slow[0]
    assert isinstance(found, DataUnusable)
    first = slow.source.path(slow.numbers(0)[0])
    assert str(found) == (
        f"cannot read {first}: knob load_timeout: reading it took 7 s, more than 5 s. "
        "Use a faster disk, or set load_timeout higher."
    )


def test_a_disk_that_does_not_answer_the_workers_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path)
    first = batches(tmp_path).source.path(batches(tmp_path).numbers(0)[0])
    first.unlink()
    os.mkfifo(first)  # reading it waits for a writer
    with loading(tmp_path, workers=1, timeout_s=0.2) as loader:
        with pytest.raises(DataUnusable) as raised:
            loader.batch(0)
        os.close(os.open(first, os.O_WRONLY))  # the worker goes on, and can be ended
    assert str(raised.value).startswith(f"cannot read {first}: knob load_timeout: the batch of")
    assert "was not loaded within 0.2 s" in str(raised.value)
    assert folder in first.parents


def test_a_slow_batch_is_awaited_for_all_of_its_time(tmp_path: Path) -> None:
    write(tmp_path)
    path = batches(tmp_path).source.path(batches(tmp_path).numbers(0)[0])
    content = path.read_bytes()
    patient = {"workers": 1, "timeout_s": 60.0, "look_s": 0.05}
    with loading(tmp_path) as plain, loading(tmp_path, **patient) as loader:
        wanted = plain.batch(0)
        path.unlink()
        os.mkfifo(path)  # reading it waits for a writer
        writer = threading.Timer(0.5, path.write_bytes, [content])
        writer.start()
        assert same(loader.batch(0), wanted)
    writer.join()


def test_a_worker_that_is_killed_fails_the_run_in_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path)
    first = batches(tmp_path).source.path(batches(tmp_path).numbers(0)[0])
    first.unlink()
    os.mkfifo(first)
    assert folder in first.parents
    handler = signal.getsignal(signal.SIGCHLD)
    with loading(tmp_path, workers=1) as loader:
        loader.batch(1)
        for process in multiprocessing.active_children():
            process.kill()
            process.join()  # nothing is raised here, where no batch is awaited
        assert signal.getsignal(signal.SIGCHLD) is handler
        with pytest.raises(WorkerFault) as raised:
            load(loader, 5, first=2)
    assert raised.value.failure.blame is Blame.WORKLOAD
    assert "Set loader_workers lower" in raised.value.failure.message


def test_a_decoder_that_is_not_installed_is_the_users_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("models.images.decoders.find_spec", lambda _: None)
    with pytest.raises(WorkerFault, match="environment has no simplejpeg") as raised:
        decoder("turbojpeg")
    assert raised.value.failure.blame is Blame.USER


def test_a_cache_beyond_the_memory_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    source = open_set("small", 2, tmp_path)
    require_memory(source, "files", 1000)
    with pytest.raises(DataUnusable, match="knob cache: resized would take"):
        require_memory(source, "resized", 2**60)


@pytest.mark.parametrize("shape", [(640, 480), *SIZES[1:3], (256, 256)], ids=str)
def test_boxes_are_as_many_and_as_large_as_published(shape: tuple[int, int]) -> None:
    """OpenImages: 8.4 boxes an image. COCO: 41 % small, 34 % medium, 24 % large."""
    width, height = shape
    numbers = np.random.default_rng(0)
    drawn = [draw_boxes(numbers, width, height, 10) for _ in range(4000)]
    counts = np.array([len(labels) for _, labels in drawn])
    # Standard error of the mean: 7.9 / sqrt(4000) = 0.12.
    assert counts.mean() == pytest.approx(8.4, abs=0.5)
    boxes = np.concatenate([edges for edges, _ in drawn])
    sides = boxes[:, 2:] - boxes[:, :2]
    assert (boxes >= 0).all()
    assert (boxes[:, 0::2] <= width).all()
    assert (boxes[:, 1::2] <= height).all()
    assert (sides > 0).all()
    # COCO's bounds of areas, 32² and 96² pixels, are those of images of 640x480.
    area = sides.prod(axis=1) * (640 * 480) / (width * height)
    small, large = (area < 32**2).mean(), (area >= 96**2).mean()
    # The published shares are rounded and add up to 99 %; of 33,000 boxes, the standard error of a
    # share is 0.3 points, and sides of tall boxes are cut at the image's.
    assert [small, 1 - small - large, large] == pytest.approx([0.41, 0.34, 0.24], abs=0.02)
    assert {int(label) for _, labels in drawn for label in labels} == set(range(10))


def test_synthetic_images_have_such_boxes_and_are_repeatable() -> None:
    first, again = (SyntheticImages(96, 2, 5, 7).batch(1) for _ in range(2))
    assert same(first, again)
    assert first.images.shape == (2, 3, 96, 96)
    assert not same(first, SyntheticImages(96, 2, 5, 7).batch(2))
    for target in first.targets:
        assert len(target.boxes) == len(target.labels) >= 1
        assert (target.boxes[:, 2:] > target.boxes[:, :2]).all()


def test_the_made_set_is_made_once_and_has_jpegs_of_real_size(tmp_path: Path) -> None:
    name = ensure_made(tmp_path, 264, images=4)
    made = open_set(name, 264, tmp_path)
    kept = made.sha256
    assert [tuple(size) for size in made.annotations.sizes.tolist()] == list(SIZES)
    for number in range(4):
        content = made.path(number).read_bytes()
        assert decoder("turbojpeg")(content).shape[:2] == SIZES[number][::-1]
        assert 200e3 < len(content) < 400e3, "OpenImages: 294 kB on average"
    assert ensure_made(tmp_path, 264) == name
    assert open_set(name, 264, tmp_path).sha256 == kept
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing else is left"
    assert IMAGES >= 64


def test_a_made_set_depends_on_its_arguments_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_set(tmp_path / name, 3, images=1)
    files = ("annotations.json", "images/000000.jpg")
    assert all(
        (tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files
    )
