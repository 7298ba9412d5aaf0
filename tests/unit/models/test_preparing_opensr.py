"""`models prepare opensr`: both sizes of the SNU SR set, paired by name."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.Image import Transpose

from controller.contracts.errors import UserError
from models.mobile.preparing.origin import (
    PublishedFile,
    PublishedSet,
    PublishedSets,
    load_published_sets,
)
from models.mobile.store import Store, digests
from tests.support.published_sets import add_tasks, prepared, samples_of
from tests.unit.models.test_mobile_unfit_files import write_damaged

NAMES = ["0a81990b49b6d7b6", "1b5c620731c9bc7e", "2f00000000000000"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


def picture(seed: int) -> Image.Image:
    """Return a large image without fine detail, so that any filter makes nearly the same of it."""
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 16, 3), np.uint8)
    return Image.fromarray(pixels).resize((1920, 1080), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three images in both sizes, the small ones by another filter than ours."""
    folder = tmp_path_factory.mktemp("pictures")
    for part in ("hr", "lr"):
        (folder / part).mkdir()
    for seed, name in enumerate(NAMES):
        large = picture(seed)
        large.save(folder / f"hr/{name}.png", compress_level=1)
        small = large.resize((960, 540), Image.Resampling.LANCZOS)
        small.save(folder / f"lr/{name}.png", compress_level=1)
    return folder


@pytest.fixture
def folder(pictures: Path, tmp_path: Path) -> Path:
    """A copy whose files can be replaced one by one."""
    for part in ("hr", "lr"):
        (tmp_path / "set" / part).mkdir(parents=True)
        for path in (pictures / part).iterdir():
            (tmp_path / "set" / part / path.name).symlink_to(path)
    return tmp_path / "set"


def replace(path: Path, image: Image.Image) -> None:
    path.unlink()
    image.save(path, compress_level=1)


def pack(folder: Path, part: str) -> None:
    with zipfile.ZipFile(folder / f"snusr_{part}_png.zip", "w") as archive:
        for path in sorted((folder / part).iterdir()):
            archive.write(path.resolve(), path.name)
            path.unlink()


@pytest.mark.parametrize("packed", ["", "lr", "lr hr"])
def test_both_sizes_are_found_by_their_size_and_paired_by_name(
    store: Store, folder: Path, packed: str
) -> None:
    keys = add_tasks(store, "edsr", 3)
    for part in packed.split():
        pack(folder, part)
    samples, truth = prepared(store, "opensr", folder)
    assert samples.keys == tuple(f"{key}/samples" for key in keys)
    assert truth.path == str(folder / ("snusr_hr_png.zip" if "hr" in packed else "hr"))
    found = samples_of(store, keys[1])
    assert len(found) == 3
    for index in range(3):
        assert found.inputs(index)[0].shape == (540, 960, 3)
        assert np.array_equal(np.asarray(found.truth(index)), np.asarray(picture(index)))


def test_hidden_files_and_zips_without_images_are_passed_over(store: Store, folder: Path) -> None:
    add_tasks(store, "edsr", 3)
    (folder / "__MACOSX/lr").mkdir(parents=True)
    (folder / "__MACOSX/lr/._a.png").write_bytes(b"\0\5")
    (folder / "lr/.DS_Store").write_bytes(b"\0")
    with zipfile.ZipFile(folder / "licence.zip", "w") as archive:
        archive.writestr("licence.txt", "as you like")
    assert len(prepared(store, "opensr", folder)) == 2


@pytest.mark.parametrize("turn", [Transpose.ROTATE_90, Transpose.ROTATE_270])
def test_an_upright_image_is_turned_as_its_small_one_is(
    store: Store, folder: Path, turn: Transpose
) -> None:
    (key, _) = add_tasks(store, "edsr", 3)
    replace(folder / f"hr/{NAMES[1]}.png", picture(1).transpose(turn))
    prepared(store, "opensr", folder)
    found = samples_of(store, key)
    for index in range(3):
        assert np.array_equal(np.asarray(found.truth(index)), np.asarray(picture(index)))


def vouched(store: Store, folder: Path, archive: str) -> tuple[str, list[str | None]]:
    """Prepare the set by the published table, but with the present checksum of an archive; return
    the note, and what vouches for samples and truth."""
    checksum = digests(folder / archive)["md5"]
    known = PublishedFile(file=archive, checksum=checksum, source="https://a.b/c")
    published = load_published_sets()["opensr"]
    files = {part: tuple(known for _ in published.of(part)) for part in ("samples", "truth")}
    table: PublishedSets = {"opensr": PublishedSet(**files)}
    *_, last = prepared(store, "opensr", folder, table)
    pins = [store.pinned(f"one/full/{part}") or "" for part in ("samples", "truth")]
    parts = ("samples", "truth")
    return last.note, [
        store.origin(f"image_pairs/{p}", pin) for p, pin in zip(parts, pins, strict=True)
    ]


def genuine(folder: Path) -> None:
    pass


def turned(folder: Path) -> None:
    replace(folder / f"hr/{NAMES[1]}.png", picture(1).transpose(Transpose.ROTATE_90))


def answered(folder: Path) -> None:
    """Have what a model makes of the small images in place of the large ones, with some noise."""
    noise = np.random.default_rng(0).normal(0.0, 2.0, (1080, 1920, 3))
    for name in NAMES:
        with Image.open(folder / f"lr/{name}.png") as small:
            large = np.asarray(small.resize((1920, 1080), Image.Resampling.BICUBIC))
        pixels = np.clip(large + noise, 0, 255).astype(np.uint8)
        replace(folder / f"hr/{name}.png", Image.fromarray(pixels))


@pytest.mark.parametrize("change", [genuine, turned, answered])
def test_the_small_images_archive_does_not_vouch_for_the_large_ones(
    store: Store, folder: Path, change: Callable[[Path], None]
) -> None:
    """What shows the same need not be the truth."""
    add_tasks(store, "edsr", 3)
    change(folder)
    pack(folder, "lr")
    checksum = digests(folder / "snusr_lr_png.zip")["md5"]
    note, origins = vouched(store, folder, "snusr_lr_png.zip")
    assert origins == [f"{checksum} (snusr_lr_png.zip)", None]
    assert note.startswith("origin of the truth not known: runs with this set do not meet ")
    assert note.endswith("Nobody has published a checksum of it.")


def test_small_images_that_are_not_the_archive_s_are_refused(store: Store, folder: Path) -> None:
    add_tasks(store, "edsr", 3)
    lr = folder / "lr"
    with tarfile.open(folder / "snusr_lr_png.tar", "w") as archive:
        for path in sorted(lr.iterdir()):
            archive.add(path.resolve(), path.name)
    replace(lr / f"{NAMES[2]}.png", picture(2).resize((960, 540), Image.Resampling.BOX))
    with pytest.raises(UserError, match=f"{NAMES[2]}.png differs from that in snusr_lr_png.tar"):
        vouched(store, folder, "snusr_lr_png.tar")
    assert store.pinned("one/full/samples") is None


def one_size(folder: Path) -> None:
    for path in (folder / "lr").iterdir():
        path.unlink()


def mixed_sizes(folder: Path) -> None:
    replace(folder / f"hr/{NAMES[0]}.png", Image.new("RGB", (800, 600)))


def side_by_side(folder: Path) -> None:
    for path in (folder / "lr").iterdir():
        path.rename(folder / "hr" / f"{path.stem}_lr.png")


def one_below_the_other(folder: Path) -> None:
    (folder / "lr").rename(folder / "hr/lr")


def twice(folder: Path) -> None:
    pack(folder, "lr")
    (folder / "lr").rmdir()
    (folder / "more").mkdir()
    with zipfile.ZipFile(folder / "snusr_lr_png.zip") as archive:
        archive.extractall(folder / "more")


def large_less(folder: Path) -> None:
    (folder / f"hr/{NAMES[1]}.png").unlink()


def small_less(folder: Path) -> None:
    (folder / f"lr/{NAMES[1]}.png").unlink()


def half(folder: Path) -> None:
    large_less(folder)
    small_less(folder)


def damaged(folder: Path) -> None:
    path = folder / f"lr/{NAMES[1]}.png"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


def no_image(folder: Path) -> None:
    path = folder / f"lr/{NAMES[1]}.png"
    path.unlink()
    path.write_text("no image")


def damaged_zip(folder: Path) -> None:
    pack(folder, "lr")
    path = folder / "snusr_lr_png.zip"
    path.write_bytes(path.read_bytes()[:1000])


def damaged_directory(folder: Path) -> None:
    one_size(folder)
    write_damaged(folder / "snusr_lr_png.zip", "a format of later")


def other_names(folder: Path) -> None:
    first, second = (folder / f"lr/{name}.png" for name in NAMES[:2])
    first.rename(folder / "kept.png")
    second.rename(first)
    (folder / "kept.png").rename(second)


def small_upright(folder: Path) -> None:
    path = folder / f"lr/{NAMES[0]}.png"
    with Image.open(path) as image:
        replace(path, image.transpose(Transpose.ROTATE_90))


WRONG: dict[Callable[[Path], None], str] = {
    one_size: r"has 3 of 1920x1080 in hr: no folder or zip of images of 960x540 only",
    mixed_sizes: r"1 of 800x600 and 2 of 1920x1080 in hr, 3 of 960x540 in lr: no folder .*1920",
    side_by_side: "has 3 of 960x540 and 3 of 1920x1080 in hr: no folder or zip of .*960x540 only",
    one_below_the_other: "hr has folders with other images",
    twice: "3 of 960x540 in more, 3 of 960x540 in snusr_lr_png.zip: 2 folders or zips of",
    large_less: f"the folder lacks, but lr has, image {NAMES[1]}",
    small_less: f"lr has nothing of image {NAMES[1]}",
    half: "it has 2 samples, not .*3 of one/full",
    damaged: rf"image {NAMES[1]}\.png: ",
    no_image: rf"image {NAMES[1]}\.png: it can't be decoded",
    damaged_zip: r"snusr_lr_png\.zip .*File is not a zip file",
    damaged_directory: r"snusr_lr_png\.zip .*zip file version 9\.9",
    other_names: rf"image {NAMES[0]}\.png: it is another image than {NAMES[0]}\.png of lr",
    small_upright: r"1 of 540x960 and 2 of 960x540 in lr: no folder or zip of images of 960x540",
}


@pytest.mark.parametrize("spoil", WRONG, ids=lambda spoil: spoil.__name__)
def test_a_set_with_anything_wrong_is_refused_and_nothing_added(
    store: Store, folder: Path, spoil: Callable[[Path], None]
) -> None:
    add_tasks(store, "edsr", 3)
    spoil(folder)
    before = store.contents()
    with pytest.raises(UserError, match=WRONG[spoil]) as caught:
        prepared(store, "opensr", folder)
    assert "\n" not in str(caught.value)
    assert store.contents() == before
