"""The origin of data sets: published checksums vouch for them, or they do not count."""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from PIL import Image

from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.contracts.models import SetName
from models.mobile import catalogue
from models.mobile.datasets.images import MAX_TRUTH_BYTES
from models.mobile.origin import origin_of
from models.mobile.preparing.archives import members
from models.mobile.preparing.origin import (
    PublishedFile,
    PublishedSet,
    PublishedSets,
    load_published_sets,
)
from models.mobile.preparing.squad import QUESTIONS, VOCABULARY
from models.mobile.store import Store, digests, pins_of
from tests.support.published_sets import MANIFESTS, add_tasks, prepared
from tests.unit.models import test_preparing as made

TAR, KIT = "ILSVRC2012_img_val.tar", "ILSVRC2012_devkit_t12.tar.gz"
IMAGE = "ILSVRC2012_val_00000002.JPEG"


@dataclass(frozen=True)
class Site:
    """A store with tasks, and a folder with a set and its archives."""

    store: Store
    folder: Path
    name: SetName

    def published(self, **files: str) -> PublishedSets:
        """Return a table with the present checksums of the archives; files: part → name."""
        known = {
            part: (PublishedFile(file=name, checksum=self.md5(name), source="https://a.b/c"),)
            for part, name in files.items()
        }
        return {self.name: PublishedSet(**known)}

    def md5(self, name: str) -> str:
        return digests(self.folder / name)["md5"]

    @property
    def origin(self) -> str | None:
        """What a run of the first task would say."""
        task = load_catalog().workloads["one"].on_device
        assert task is not None
        pins = pins_of(self.store, "one", task, "fp32", "full")
        return origin_of(self.store, "one", task, "full", pins)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    (tmp_path / "set").mkdir()
    return Store(tmp_path / "store")


def packed(folder: Path, name: str, *files: Path) -> None:
    """Write a tar with these files."""
    with tarfile.open(folder / name, "w:gz" if name.endswith("gz") else "w") as archive:
        for path in files:
            archive.add(path, f"top/{path.name}")


@pytest.fixture
def imagenet(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """ImageNet's images, unpacked beside their archive, and the kit in its archive alone."""
    made.add_tasks(store, "imagenet")
    folder = made.imagenet(tmp_path / "set", count=3)
    made.kit(folder)
    kit = [folder / "meta.mat", folder / "ILSVRC2012_validation_ground_truth.txt"]
    packed(folder, KIT, *kit)
    for path in kit:
        path.unlink()
    packed(folder, TAR, *sorted((folder / "val").iterdir()))
    return Site(store, folder, "imagenet")


@pytest.fixture
def coco(store: Store, tmp_path: Path) -> Site:
    """COCO in its archives alone."""
    made.add_tasks(store, "coco")
    return Site(store, made.coco(tmp_path / "set", zipped=True), "coco")


COCO = {"samples": "val2017.zip", "truth": "annotations_trainval2017.zip"}


def test_the_archives_vouch_for_what_is_read_from_them(coco: Site) -> None:
    *_, last = prepared(coco.store, "coco", coco.folder, coco.published(**COCO))
    said = "; ".join(f"{part}: {coco.md5(name)} ({name})" for part, name in COCO.items())
    assert (coco.origin, last.note) == (said, "")


def test_the_archives_vouch_for_what_is_unpacked_beside_them(coco: Site) -> None:
    known = coco.published(**COCO)
    for name in COCO.values():
        shutil.unpack_archive(coco.folder / name, coco.folder)
    prepared(coco.store, "coco", coco.folder, known)
    assert str(coco.origin).startswith("samples: md5:")
    for name in COCO.values():
        (coco.folder / name).unlink()
    *_, last = prepared(coco.store, "coco", coco.folder, known)
    assert coco.origin is not None, "it is the content that is vouched for"
    assert last.note == ""


def swap_image(folder: Path) -> None:
    path = sorted((folder / "val2017").iterdir())[0]
    Image.new("RGB", (8, 6), (1, 2, 3)).save(path)


def swap_boxes(folder: Path) -> None:
    path = folder / "annotations/instances_val2017.json"
    path.write_text(path.read_text().replace('"category_id": 7', '"category_id": 8'))


def image_not_published(folder: Path) -> None:
    """Have an archive with fewer images than are beside it."""
    with zipfile.ZipFile(folder / "val2017.zip", "w") as archive:
        for path in sorted((folder / "val2017").iterdir())[1:]:
            archive.write(path)


DIFFERENT: dict[Callable[[Path], None], str] = {
    swap_image: r"000000000139\.jpg differs from that in val2017\.zip",
    swap_boxes: r"instances_val2017\.json differs from that in annotations_trainval2017\.zip",
    image_not_published: r"000000000139\.jpg is not in val2017\.zip",
}


@pytest.mark.parametrize("spoil", DIFFERENT, ids=lambda spoil: spoil.__name__)
def test_a_file_that_differs_from_the_archive_s_is_refused_and_nothing_added(
    coco: Site, spoil: Callable[[Path], None]
) -> None:
    for name in COCO.values():
        shutil.unpack_archive(coco.folder / name, coco.folder)
    spoil(coco.folder)
    before = coco.store.contents()
    with pytest.raises(UserError, match=DIFFERENT[spoil]) as caught:
        prepared(coco.store, "coco", coco.folder, coco.published(**COCO))
    assert "\n" not in str(caught.value)
    assert (coco.store.contents(), coco.origin) == (before, None)


@pytest.mark.parametrize("name", COCO.values())
def test_an_archive_with_another_checksum_is_refused_before_it_is_opened(
    coco: Site, name: str
) -> None:
    known, before = coco.published(**COCO), coco.store.contents()
    with (coco.folder / name).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(UserError, match=rf"{name} is md5:\w+, not md5:.*https://a\.b/c"):
        prepared(coco.store, "coco", coco.folder, known)
    assert coco.store.contents() == before


def test_labels_come_from_the_kit_s_archive_whatever_other_list_is_there(imagenet: Site) -> None:
    (imagenet.folder / "val.txt").write_text(
        "".join(f"ILSVRC2012_val_{n:08d}.JPEG 5\n" for n in (1, 2, 3))
    )
    known = imagenet.published(samples=TAR, truth=KIT)
    with pytest.raises(UserError, match="they are of 3 classes, not 1000"):  # the kit's own
        prepared(imagenet.store, "imagenet", imagenet.folder, known)


def without_kit(site: Site) -> PublishedSets:
    """Return the table; the labels are of a list that anybody may have written."""
    known = site.published(samples=TAR, truth=KIT)
    (site.folder / KIT).unlink()
    made.numbered(site.folder)
    return known


def test_a_list_that_no_archive_has_makes_the_origin_unknown_and_names_what_to_get(
    imagenet: Site,
) -> None:
    known = without_kit(imagenet)
    wanted = known["imagenet"].truth[0].text
    *_, last = prepared(imagenet.store, "imagenet", imagenet.folder, known)
    assert imagenet.origin is None
    assert last.note == (
        "origin of the truth not known: runs with this set do not meet the suite's run rules. "
        f"Put {wanted} below {imagenet.folder} and prepare it again."
    )


def test_an_image_of_imagenet_is_compared_with_its_member(imagenet: Site) -> None:
    known = without_kit(imagenet)
    Image.new("RGB", (8, 6), (9, 9, 9)).save(imagenet.folder / "val" / IMAGE)
    with pytest.raises(UserError, match=rf"{IMAGE} differs from that in {TAR}"):
        prepared(imagenet.store, "imagenet", imagenet.folder, known)


def link(info: tarfile.TarInfo) -> None:
    info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0


def huge(info: tarfile.TarInfo) -> None:
    info.size = MAX_TRUTH_BYTES + 1


HOSTILE: dict[Callable[[tarfile.TarInfo], None], str] = {
    link: rf"{IMAGE} is not in {TAR}",
    huge: rf"{TAR}: its member '{IMAGE}' has 1073741825 bytes",
}


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_strange_members_are_refused_in_one_line(
    imagenet: Site, spoil: Callable[[tarfile.TarInfo], None]
) -> None:
    with tarfile.open(imagenet.folder / TAR, "w") as archive:
        for path in sorted((imagenet.folder / "val").iterdir()):
            info = archive.gettarinfo(path, path.name)
            if path.name == IMAGE:
                spoil(info)
                archive.addfile(info)
            else:
                archive.addfile(info, io.BytesIO(path.read_bytes()))
    with pytest.raises(UserError, match=HOSTILE[spoil]) as caught:
        prepared(imagenet.store, "imagenet", imagenet.folder, without_kit(imagenet))
    assert "\n" not in str(caught.value)
    assert imagenet.origin is None


def test_a_compressed_tar_and_a_zip_are_read_member_by_member(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name * 3)
    packed(tmp_path, "x.tar.gz", tmp_path / "a", tmp_path / "b")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.mkdir("top")
        archive.write(tmp_path / "a", "top/a")
        archive.write(tmp_path / "b", "top/b")
    for path in ("x.tar.gz", "x.zip"):
        found = [(m.name, m.size, m.open().read()) for m in members(tmp_path / path)]
        assert found == [("a", 3, b"aaa"), ("b", 3, b"bbb")]


# What is added by its key alone


def test_copies_of_one_image_under_the_key_of_a_set_that_counts_have_no_origin(
    store: Store, tmp_path: Path
) -> None:
    keys = made.add_tasks(store, "imagenet")
    site = Site(store, tmp_path / "set", "imagenet")
    for number in range(3):
        Image.new("RGB", (4, 4)).save(site.folder / f"ILSVRC2012_val_{number:08d}.JPEG")
    labels = tmp_path / "labels.txt"
    labels.write_text("0\n0\n0\n")
    (samples,) = catalogue.add(store, site.folder, f"{keys[0]}/samples")
    (truth,) = catalogue.add(store, labels, f"{keys[0]}/truth")
    assert site.origin is None
    for added, part in ((samples, "samples"), (truth, "truth")):
        assert added.note.startswith(f"origin of the {part} not known: runs with this set do not")
        assert "`benchfarm models prepare imagenet FOLDER`" in added.note


def test_other_content_under_a_key_that_was_prepared_has_no_origin(coco: Site) -> None:
    prepared(coco.store, "coco", coco.folder, coco.published(**COCO))
    assert coco.origin is not None
    images = coco.folder.parent / "images"
    shutil.unpack_archive(coco.folder / "val2017.zip", images)
    swap_image(images)
    catalogue.add(coco.store, images, "one/full/samples")
    assert coco.origin is None


def test_the_truth_s_files_are_no_samples_of_known_origin(coco: Site) -> None:
    prepared(coco.store, "coco", coco.folder, coco.published(**COCO))
    pinned = coco.store.pinned("one/full/truth")
    assert pinned is not None
    assert coco.store.origin("coco/truth", pinned)
    assert coco.store.origin("coco/samples", pinned) is None
    assert coco.store.origin("imagenet/truth", pinned) is None


@pytest.mark.parametrize("content", [b"", b"yes", b"\xff\xfe", b"md5:1 (a.zip)", b"x" * 10_000])
def test_a_damaged_record_says_nothing(coco: Site, content: bytes) -> None:
    prepared(coco.store, "coco", coco.folder, coco.published(**COCO))
    (record,) = (coco.store.folder / "origins/coco/samples").iterdir()
    assert coco.origin is not None
    record.write_bytes(content)
    assert coco.origin is None
    record.unlink()
    record.mkdir()
    assert coco.origin is None


def test_checksums_of_the_manifest_vouch_for_their_parts(store: Store) -> None:
    task = load_catalog().workloads["mobilebert"].on_device
    assert task is not None
    said = str(origin_of(store, "mobilebert", task, "lite", {}))
    assert said.startswith("samples: md5:3c9a1c4c373037889938d4b13d41f4c2; truth: md5:f9d6d209")
    assert origin_of(store, "mobilebert", task, "full", {}) is None
    assert origin_of(store, "mobilebert", task, None, {}) is None


# The published table


def test_the_table_agrees_with_the_manifests() -> None:
    table = load_published_sets()
    assert table.keys() == {"imagenet", "coco", "ade20k", "squad", "opensr"}
    bert = yaml.safe_load((MANIFESTS / "mobilebert.yaml").read_text())
    truth = bert["on_device"]["datasets"]["full"]["parts"]["truth"]
    (questions,) = table["squad"].truth
    assert (questions.checksum, questions.source) == (truth["checksum"], truth["source"])
    (small,) = table["opensr"].samples
    edsr = yaml.safe_load((MANIFESTS / "edsr.yaml").read_text())
    published = edsr["on_device"]["datasets"]["lite"]["parts"]["samples"]
    assert (small.checksum, small.source.partition(";")[0]) == (
        published["checksum"],
        published["source"],
    )
    assert table["opensr"].truth == (), "nobody has published a checksum of the large images"
    for name in ("imagenet", "coco", "ade20k"):
        assert all(one.is_archive for part in ("samples", "truth") for one in table[name].of(part))


def test_features_are_vouched_for_by_questions_and_vocabulary(store: Store, tmp_path: Path) -> None:
    from tests.unit.models import test_preparing_squad as squad

    add_tasks(store, "mobilebert", squad.SMALL_FEATURES)
    site = Site(store, tmp_path / "set", "squad")
    for name, content in (
        (QUESTIONS, squad.SAID),
        (VOCABULARY, squad.vocabulary_text()),
    ):
        (site.folder / name).write_bytes(content)
    questions, vocabulary = (
        PublishedFile(file=name, checksum=site.md5(name), source="https://a.b/c")
        for name in (QUESTIONS, VOCABULARY)
    )
    known = PublishedSet(samples=(questions, vocabulary), truth=(questions,))
    other = vocabulary.model_copy(update={"checksum": "md5:" + "0" * 32})
    unknown = PublishedSet(samples=(questions, other), truth=(questions,))
    *_, last = prepared(store, "squad", site.folder, {"squad": unknown})
    assert last.note.startswith("origin of the samples not known: ")
    assert other.text in last.note
    squad.archive(site.folder, vocab_txt=squad.vocabulary_text())
    *_, last = prepared(store, "squad", site.folder, {"squad": known})
    said = f"samples: {questions.text}, {vocabulary.text}; truth: {questions.text}"
    assert (site.origin, last.note) == (said, "")
