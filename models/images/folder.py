"""Folders of images with annotations, and where a host has them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.documents import load_json, read_limited
from controller.contracts.folders import named_folder
from controller.contracts.manifests import FOLDER_NAME
from controller.contracts.result import Environment
from models.images.annotations import Annotations, FieldWrong, annotations_of
from models.images.errors import unusable

KNOB: Final = "data"
MOST_BYTES: Final = 2**32
"""Largest file of annotations; reading it takes about ten times its size in memory."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a data set has its files."""

    annotations: str
    images: str
    crowds: bool = False
    """See `annotations_of`."""
    learnt: bool = False
    """Whether images are to learn from, and others of the same data set validate."""


LAYOUTS: Final = (
    Layout("annotations.json", "images"),
    Layout("labels/openimages-mlperf.json", "data", crowds=True),  # as MLCommons' script writes it
    Layout("annotations/instances_train2017.json", "train2017", learnt=True),
    Layout("annotations/instances_val2017.json", "val2017"),
)
"""Of those that a folder has, see `_layout_of`."""


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Images on disk and their boxes."""

    annotations: Annotations
    folder: Path
    """Of the images."""
    source: Path
    """The file of annotations."""
    sha256: str
    """Of that file, hex."""

    def path(self, image: int) -> Path:
        """Return where an image is."""
        return self.folder / self.annotations.files[image]

    def facts(self) -> Environment:
        """Return what it is, for results that were measured with it."""
        return {
            "data_sha256": self.sha256,
            "data_images": len(self.annotations.files),
            "data_boxes": len(self.annotations.labels),
        }


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the host's folder of data sets; raises HomeUnusable."""
    home = environ.get("BENCHFARM_HOME") or "~/.benchfarm"
    return named_folder("BENCHFARM_DATA", f"{home}/data", environ)


def set_folder(name: str, root: Path) -> Path:
    """Return the folder of a data set inside the host's; raises DataUnusable."""
    folder = root / name
    if not FOLDER_NAME.fullmatch(name):
        remedy = f"Name a folder inside {root}."
        raise unusable(root, f"knob {KNOB}", f"{name!r:.80} is no name of a data set", remedy)
    if not folder.is_dir():
        remedy = f"Put the data set there, or a link to it. A host's folder of data is {root}."
        raise unusable(folder, f"knob {KNOB}", "there is no such folder", remedy)
    return folder


def open_set(name: str, num_classes: int, root: Path, *, scored: bool = False) -> ImageSet:
    """Return a data set of the host's folder.

    name: a folder inside `root`; num_classes: see `annotations_of`.
    scored: with every image and every box, also around a crowd, as validation has them.

    Raises DataUnusable.
    """
    folder = set_folder(name, root)
    return _read(folder, _layout_of(folder, scored), num_classes, scored)


def _layout_of(folder: Path, scored: bool) -> Layout:
    """Return the first layout that a folder has with its images, or else without.

    scored: those to learn from come last.
    """
    ordered = sorted(LAYOUTS, key=lambda one: one.learnt) if scored else LAYOUTS
    found = [one for one in ordered if (folder / one.annotations).exists()]
    if not found:
        wanted = ", ".join(one.annotations for one in LAYOUTS)
        raise unusable(folder, f"knob {KNOB}", "it has no annotations", f"Add one of: {wanted}.")
    return min(found, key=lambda one: not (folder / one.images).is_dir())


def _read(folder: Path, layout: Layout, num_classes: int, scored: bool) -> ImageSet:
    source, images = folder / layout.annotations, folder / layout.images
    if not images.is_dir():
        raise unusable(images, f"knob {KNOB}", "there is no such folder", "Put the images there.")
    try:
        content = read_limited(source, MOST_BYTES)
        document = load_json(content, MOST_BYTES)
        crowds = layout.crowds or scored
        found = annotations_of(document, num_classes, crowds=crowds, every_image=scored)
    except FieldWrong as wrong:
        remedy = "Correct the file, or set another data set or num_classes."
        raise unusable(source, wrong.field, wrong.why, remedy) from wrong
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise unusable(source, f"knob {KNOB}", why, "Get the file again.") from error
    return ImageSet(found, images, source, hashlib.sha256(content).hexdigest())
