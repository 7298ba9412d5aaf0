"""Published names of benchmarks, and the workloads of ours that are the same task. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.manifests import defaults_of
from controller.contracts.records import PRECISION_KNOBS
from controller.contracts.suite_version import SUITE_VERSION
from controller.contracts.weights import KNOB
from controller.imported.layout import MOBILE

_EXACT: Final[Mapping[str, str]] = {
    # Folders of the rounds; ids of the app from v3.0 on; ids of the app before.
    **dict.fromkeys(("mobilenetedgetpu", "imageclassification"), "mobilenet_edgetpu"),
    **dict.fromkeys(("mobilenetv4", "imageclassificationv2"), "mobilenet_v4"),
    **dict.fromkeys(("mobiledetssd", "mobiledet", "objectdetection"), "mobiledet"),
    **dict.fromkeys(("ssdmobilenetv2", "mobilenetssdv2", "ssdmobilenet"), "ssd_mobilenet_v2"),
    **dict.fromkeys(("deeplabv3", "deeplabv3plus", "imagesegmentation"), "deeplabv3_plus"),
    **dict.fromkeys(("mosaic", "imagesegmentationv2"), "mosaic"),
    **dict.fromkeys(("mobilebert", "naturallanguageprocessing"), "mobilebert"),
    **dict.fromkeys(("edsr", "superresolution", "snusr"), "edsr"),
    **dict.fromkeys(("stablediffusion",), "stable_diffusion"),
}
_OLD_IDS: Final[tuple[tuple[str, str], ...]] = (
    (r"ictpu\w*", "mobilenet_edgetpu"),
    (r"is\w*mosaic", "mosaic"),
    (r"is(u?int8|float\d+)", "deeplabv3_plus"),
    (r"od(u?int8|float\d+)", "mobiledet"),
    (r"lu(u?int8|float\d+)?", "mobilebert"),
    (r"sr(u?int8|float\d+)?", "edsr"),
)
"""Ids of the app before v3.0, which have the number format in them."""
_FIRST_ROUND: Final = "v0.7"
ACCURACY_METRIC: Final[Mapping[str, str]] = {
    "mobilenet_edgetpu": "top1",
    "mobilenet_v4": "top1",
    "mobiledet": "mAP",
    "ssd_mobilenet_v2": "mAP",
    "deeplabv3_plus": "mIoU",
    "mosaic": "mIoU",
    "mobilebert": "F1",
    "edsr": "PSNR",
    "resnet50": "top1",
}


class Published(NamedTuple):
    """The names of one of MLPerf Mobile's tasks."""

    folder: str
    """In a round's tree."""
    app: str
    """Id in the app, from 3.0 on."""
    app_offline: str = ""
    """… of its offline scenario; empty if the app has none."""


PUBLISHED: Final[Mapping[str, Published]] = {
    "mobilenet_edgetpu": Published(
        "mobilenetEdgeTPU", "image_classification", "image_classification_offline"
    ),
    "mobilenet_v4": Published(
        "mobilenetV4", "image_classification_v2", "image_classification_offline_v2"
    ),
    "mobiledet": Published("mobiledetSSD", "object_detection"),
    "ssd_mobilenet_v2": Published("ssdMobilenetV2", "object_detection"),
    "deeplabv3_plus": Published("deeplabv3plus", "image_segmentation"),
    "mosaic": Published("mosaic", "image_segmentation_v2"),
    "mobilebert": Published("mobileBERT", "natural_language_processing"),
    "edsr": Published("EDSR", "super_resolution"),
}
"""Workload → what the rounds call it."""
_INFERENCE: Final[Mapping[str, str]] = {"resnet": "resnet50", "resnet50": "resnet50"}
_TRAINED: Final[Mapping[str, str]] = {"resnet50": "imagenet_v1"}
"""Workload → the weights beside which published results stand: theirs are trained, not random."""
_LITE: Final = 100
"""Samples of SQuAD's first part, by which the rounds judge MobileBERT."""


def workload_of(suite: str, benchmark: str, round_: str) -> str:
    """Return the workload that a published benchmark is; one of no catalogue has its own name."""
    plain = re.sub(r"[^a-z0-9]", "", benchmark.lower())
    own = re.sub(r"[^a-z0-9]+", "_", benchmark.lower()).strip("_") or "unnamed"
    if suite != MOBILE:
        return _INFERENCE.get(plain, f"mlperf_{own}")
    plain = plain.replace("offline", "")
    if round_ == _FIRST_ROUND and plain == "objectdetection":
        return "ssd_mobilenet_v2"
    if plain in _EXACT:
        return _EXACT[plain]
    old = (task for pattern, task in _OLD_IDS if re.fullmatch(pattern, plain))
    return next(old, own)


def knobs_of(
    catalog: Catalog, workload: str, round_: str, accuracy_samples: int | None
) -> dict[str, Scalar]:
    """Return the knobs that say what was computed, at the values of the round.

    The number format is left out: what was published does not say it. accuracy_samples: of the
    accuracy run, if known; MobileBERT's rounds take either of two data sets.
    """
    known = catalog.workloads.get(workload)
    knobs = defaults_of(known.knobs) if known else {}
    chosen = {name: value for name, value in knobs.items() if name not in PRECISION_KNOBS}
    if SUITE_VERSION in chosen:
        chosen[SUITE_VERSION] = round_
    if KNOB in chosen and workload in _TRAINED:
        chosen[KNOB] = _TRAINED[workload]
    choices = known.knobs["dataset"].choices if known and "dataset" in known.knobs else ()
    if accuracy_samples == _LITE and "lite" in (choices or ()):
        chosen["dataset"] = "lite"
    return chosen
