"""The quality column of a ranking shows the target that all its rows are held to."""

from __future__ import annotations

import pytest

from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Measurement
from controller.contracts.suite_version import SUITE_VERSION
from controller.contracts.units import Unit
from controller.reports.groups import Group
from controller.reports.views.columns import columns_of
from controller.scheduling.suite_plan import Place
from tests.support.suite_sessions import BEGIN, ID, result

CATALOG = load_catalog()


def edsr(numerics: str, version: str | None) -> Group:
    """Return a result of a version; None: it is older than the knob."""
    knobs: dict[str, Scalar] = {"numerics": numerics, "dataset": "full"}
    changes = {
        "workload": "edsr",
        "knobs": knobs | ({SUITE_VERSION: version} if version else {}),
        "metrics": {"PSNR": Measurement(value=33.2, unit=Unit.DECIBELS)},
    }
    return Group([result(Place(ID, 1, 0), 1.0, BEGIN).model_copy(update=changes)], [])


@pytest.mark.parametrize(
    ("formats", "version", "target"),
    [
        (("int8",), "v5.0", 33.0),
        (("fp32",), "v5.0", 33.58),
        (("int8", "fp32"), "v5.0", None),
        (("int8", "int8"), "v6.0", 33.0),
    ],
)
def test_the_target_is_shown_if_it_is_one(
    formats: tuple[str, ...], version: str, target: float | None
) -> None:
    quality = columns_of([edsr(one, version) for one in formats], CATALOG).quality
    assert quality
    assert (quality.metric.name, quality.target) == ("PSNR", target)


def test_the_accuracy_of_a_result_of_no_known_version_is_a_figure_like_others() -> None:
    columns = columns_of([edsr("int8", None)], CATALOG)
    assert columns.quality is None
    assert [metric.name for metric in columns.details] == ["PSNR"]
