"""ILSVRC2012's validation images, and their labels from any of the lists in use.

Models number the 1,000 classes by their sorted WordNet ids, from 0; the development kit numbers
them otherwise, from 1, and its `meta.mat` says which is which (its readme.txt, section 2.2).
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from models.mobile.preparing.archives import BROKEN, members
from models.mobile.preparing.published import Made, Published, Say, files_of, no_complaint

CLASSES: Final = 1000
_IMAGE: Final = re.compile(r"ILSVRC2012_val_(\d{8})\.jpe?g", re.IGNORECASE)
_WORDNET_ID: Final = re.compile(r"n\d{8}")
_KIT, _META = "ILSVRC2012_validation_ground_truth.txt", "meta.mat"
_IDS, _CSV = "imagenet_2012_validation_synset_labels.txt", "LOC_val_solution.csv"
_LISTS: Final = ("val.txt", "val_map.txt")
KIT_ARCHIVE: Final = "ILSVRC2012_devkit_t12.tar.gz"
_REMEDY: Final = (
    f"Put one of these there: {KIT_ARCHIVE}, {_KIT} with {_META} of it, "
    f"{', '.join(_LISTS)}, {_IDS}, {_CSV}, or the images in a folder for each WordNet id."
)
Labels = Mapping[str, int]
"""File name without suffix → class number from 0."""


def make(published: Published, work: Path, say: Say) -> Made:
    """Return the images where they are, and write their labels; raises UserError."""
    images = published.images(lambda name: bool(_IMAGE.fullmatch(name)), "images ILSVRC2012_val_…")
    kit = _kit(published, work)
    labels = labels_of(published, images.names, kit=kit)
    names = [PurePosixPath(name).stem for name in images.names]
    published.require_same(names, labels, "the list of labels")
    published.check(images, no_complaint, say)
    truth = work / "labels.txt"
    truth.write_text("".join(f"{name} {labels[name]}\n" for name in names))
    used = {
        "samples": files_of(images),
        "truth": {name: path.read_bytes for name, path in kit.items()},
    }
    return Made("imagenet", images.source, truth, len(names), used)


def _kit(published: Published, work: Path) -> dict[str, Path]:
    """Return the kit's two files, unpacked if only its archive has them; empty without a kit.

    Raises UserError.
    """
    found = {**published.files(_KIT, _META, KIT_ARCHIVE)}
    archive = found.pop(KIT_ARCHIVE, None)
    if archive is None or found.keys() == {_KIT, _META}:
        return found if _KIT in found else {}
    try:
        for member in members(archive):
            if member.name in (_KIT, _META):
                found[member.name] = work / member.name
                with member.open() as packed, found[member.name].open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
    except BROKEN as error:
        raise published.unusable(f"{KIT_ARCHIVE}: {error}", "Get the archive again.") from error
    return found


def labels_of(
    published: Published,
    names: Sequence[str],
    classes: int = CLASSES,
    kit: Mapping[str, Path] = MappingProxyType({}),
) -> Labels:
    """Return the label of each image, from the first list that is there; raises UserError.

    kit: files of the development kit in place of those that are there.
    """
    found = {**published.files(_KIT, _META, _IDS, _CSV, *_LISTS), **kit}
    try:
        if _KIT in found:
            labels = _of_kit(published, found, classes)
        elif _IDS in found:
            labels = _of_ids(_numbered(found[_IDS]), classes)
        elif _CSV in found:
            labels = _of_ids(_of_csv(found[_CSV]), classes)
        elif listed := next((found[name] for name in _LISTS if name in found), None):
            # Last: Kaggle's val.txt numbers the images; their classes are in LOC_val_solution.csv.
            labels = _of_list(listed)
        else:
            labels = _of_ids(_of_folders(published, names), classes)
    except (OSError, ValueError, LookupError) as error:
        raise published.unusable(f"its labels: {error}", _REMEDY) from error
    for name, label in labels.items():
        if not 0 <= label < classes:
            seen = f"the label {label} of {name} is not one of 0 to {classes - 1}"
            raise published.unusable(seen, _REMEDY)
    return labels


def _of_kit(published: Published, found: Mapping[str, Path], classes: int) -> Labels:
    if _META not in found:
        seen = (
            f"{_KIT} has the kit's own class numbers, and {_META}, which explains them, is missing"
        )
        raise published.unusable(seen, "Copy it from the folder data of ILSVRC2012_devkit_t12.")
    ids = _leaves(found[_META])
    numbers = _class_numbers(ids.values(), classes)
    kit = _numbered(found[_KIT])
    return {name: numbers[ids[int(number)]] for name, number in kit.items()}


def _leaves(meta: Path) -> dict[int, str]:
    """Return the WordNet id of each of the kit's numbers; groups of classes are left out."""
    from scipy.io import loadmat

    try:
        synsets: Any = loadmat(str(meta), squeeze_me=True)["synsets"]
        columns = (synsets[name] for name in ("ILSVRC2012_ID", "WNID", "num_children"))
        rows = zip(*columns, strict=True)
        return {int(number): str(word) for number, word, children in rows if not int(children)}
    except Exception as error:  # a damaged file makes SciPy raise whatever
        raise ValueError(f"{meta.name} can't be read: {error}") from error


def _of_list(path: Path) -> Labels:
    pairs = (line.split() for line in path.read_text().splitlines() if line.strip())
    return {PurePosixPath(name).stem: int(label) for name, label in pairs}


def _of_csv(path: Path) -> dict[str, str]:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        try:
            return {row["ImageId"]: row["PredictionString"].split()[0] for row in rows}
        except (csv.Error, AttributeError, IndexError) as error:  # no value, or an empty one
            seen = f"line {rows.reader.line_num} of {path.name} is damaged"
            raise ValueError(seen) from error


def _of_folders(published: Published, names: Iterable[str]) -> dict[str, str]:
    found = {PurePosixPath(name).stem: PurePosixPath(name).parent.name for name in names}
    if not all(_WORDNET_ID.fullmatch(folder) for folder in found.values()):
        raise published.lacks("list of labels", _REMEDY)
    return found


def _of_ids(ids: Mapping[str, str], classes: int) -> Labels:
    numbers = _class_numbers(ids.values(), classes)
    return {name: numbers[word] for name, word in ids.items()}


def _class_numbers(ids: Iterable[str], classes: int) -> dict[str, int]:
    found = sorted(set(ids))
    if len(found) != classes:
        raise ValueError(f"they are of {len(found)} classes, not {classes}")
    return {word: number for number, word in enumerate(found)}


def _numbered(path: Path) -> dict[str, str]:
    """Return the lines of a file by the image whose number is that of the line."""
    lines = path.read_text().split()
    return {f"ILSVRC2012_val_{number:08d}": line for number, line in enumerate(lines, 1)}
