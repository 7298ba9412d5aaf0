"""Where the rounds keep their logs, from v0.7 to v5.0."""

from __future__ import annotations

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.suite_rules import load_suites
from controller.imported.layout import INFERENCE, MOBILE, Place, place_of, round_of
from controller.imported.tasks import ACCURACY_METRIC, workload_of

FOUND = [
    # As in mobile_results_v2.1, v3.1, v4.0 and v5.0, and in inference_results_v*.
    (
        "closed/Q/results/SD8G3/EDSR/SingleStream/log_performance",
        ("closed", "Q", MOBILE, "SD8G3", "EDSR", "single_stream", "performance", 0),
    ),
    (
        "closed/Q/results/SD8G3/mobilenetV4/Offline/log_accuracy",
        ("closed", "Q", MOBILE, "SD8G3", "mobilenetV4", "offline", "accuracy", 0),
    ),
    (
        "closed/S/results/mobileBERT/SingleStream/log_performance",
        ("closed", "S", MOBILE, "", "mobileBERT", "single_stream", "performance", 0),
    ),
    (
        "closed/S/results/exynos2400/object_detection-performance",
        ("closed", "S", MOBILE, "exynos2400", "object_detection", None, "performance", 0),
    ),
    (
        "closed/S/results/object_detection-accuracy",
        ("closed", "S", MOBILE, "", "object_detection", None, "accuracy", 0),
    ),
    (
        "open/S/results/x/2025-11-16T15-50-55.588359/super_resolution-performance",
        ("open", "S", MOBILE, "x", "super_resolution", None, "performance", 0),
    ),
    (
        "closed/D/results/R760/bert-99/Server/performance/run_3",
        ("closed", "D", INFERENCE, "R760", "bert-99", "server", "performance", 2),
    ),
    (
        "closed/D/results/R760/resnet50/MultiStream/accuracy",
        ("closed", "D", INFERENCE, "R760", "resnet50", "multi_stream", "accuracy", 0),
    ),
    (
        "S/results/y/mosaic/singlestream/performance",
        ("", "S", INFERENCE, "y", "mosaic", "single_stream", "performance", 0),
    ),
]
NOT_FOUND = [
    "closed/Q/compliance/SD8G3/EDSR/SingleStream/TEST01/performance/run_1",
    "results/SD8G3/EDSR/SingleStream/log_performance",
    "closed/Q/results/SD8G3/EDSR/SingleStream",
    "closed/Q/results/SD8G3/EDSR/Sideways/log_performance",
    "closed/Q/results/log_performance",
    "closed/Q/results/SingleStream/log_performance",
    "closed/Q/results/a/b/EDSR/SingleStream/log_performance",
    "closed/Q/results/a/b/edsr-performance",
    "closed/Q/results/a/edsr-speed",
    "",
]


def _said(place: Place) -> tuple[object, ...]:
    owner = (place.owner.division, place.owner.submitter)
    rest = (place.benchmark, place.scenario, place.role, place.run)
    return (*owner, place.suite, place.system, *rest)


@pytest.mark.parametrize(("path", "said"), FOUND)
def test_a_folder_of_logs_says_whose_they_are(path: str, said: tuple[object, ...]) -> None:
    for parts in (path.split("/"), ["", "home", "results", *path.split("/")]):
        place = place_of(parts)
        assert place
        assert _said(place) == said


@pytest.mark.parametrize("path", NOT_FOUND)
def test_a_folder_of_another_form_says_nothing(path: str) -> None:
    assert place_of(path.split("/")) is None


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/x/mobile_results_v4.0/closed", (MOBILE, "v4.0")),
        ("/x/mobile_results_v0.7-main/closed", (MOBILE, "v0.7")),
        ("/inference_results_v3.1/closed", (INFERENCE, "v3.1")),
        ("/inference_results_v3.1/mobile_results_v5.0", (MOBILE, "v5.0")),
        ("/x/results_v4.0/closed", None),
        ("/mobile_results_v4", None),
    ],
)
def test_the_name_of_a_repository_says_the_round(path: str, said: tuple[str, str] | None) -> None:
    assert round_of(path.split("/")) == said


NAMES = {
    "mobilenet_edgetpu": (
        *("mobilenetEdgeTPU", "image_classification", "image_classification_offline"),
        *("IC_tpu_uint8", "IC_tpu_uint8_offline", "IC_tpu_float32"),
    ),
    "mobilenet_v4": (
        *("mobilenetV4", "mobileNetV4", "image_classification_v2"),
        "image_classification_offline_v2",
    ),
    "mobiledet": ("mobiledetSSD", "object_detection", "OD_uint8"),
    "mosaic": ("mosaic", "image_segmentation_v2", "IS_uint8_mosaic"),
    "deeplabv3_plus": ("deeplabv3", "image_segmentation", "IS_uint8"),
    "mobilebert": ("mobileBERT", "mobileBert", "natural_language_processing", "LU_float32"),
    "edsr": ("EDSR", "edsr", "super_resolution", "SR_int8"),
    "ssd_mobilenet_v2": ("ssd_mobilenet_v2",),
    "stable_diffusion": ("stable_diffusion", "stableDiffusion"),
}


@pytest.mark.parametrize(("task", "names"), NAMES.items())
def test_a_published_name_is_the_workload_that_does_it(task: str, names: tuple[str, ...]) -> None:
    assert {workload_of(MOBILE, name, "v4.0") for name in names} == {task}


def test_other_names_stay_what_they_are() -> None:
    assert workload_of(MOBILE, "object_detection", "v0.7") == "ssd_mobilenet_v2"
    assert workload_of(MOBILE, "Listening 2", "v9.0") == "listening_2"
    assert workload_of(INFERENCE, "resnet50", "v4.0") == "resnet50"
    assert workload_of(INFERENCE, "bert-99.9", "v4.0") == "mlperf_bert_99_9"
    assert workload_of(MOBILE, "???", "v9.0") == "unnamed"


def test_every_task_of_a_round_is_known_by_its_name_and_accuracy() -> None:
    catalog = load_catalog()
    for rules in load_suites():
        for name, task in rules.tasks.items():
            assert {target.metric for target in task.targets} <= {ACCURACY_METRIC[name]}
            assert name in catalog.workloads
