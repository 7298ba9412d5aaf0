"""Calls of an operation: those of itself, whatever it calls inside and in however many sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.profiles.sites import sites_of
from tests.support.planted_profile import Rows, kernel, primitive, profile


def rows_of(op: str, calls: Mapping[tuple[str, str], float]) -> Rows:
    """Return the rows of an operation: kernel and sizes → calls."""
    row = kernel(op, 0.01)
    return [
        replace(row, place=replace(row.place, kernel=name, dims=dims), calls=times)
        for (name, dims), times in calls.items()
    ]


@pytest.mark.parametrize(
    ("op", "calls", "counted"),
    [
        (
            "AddmmBackward0",
            {("AddmmBackward0", "a"): 1.0, ("aten::t", "a"): 3.0, ("aten::mm", "a"): 2.0},
            1.0,
        ),
        (
            "aten::addcdiv_",
            {("aten::addcdiv_", "a"): 3.2, ("aten::addcdiv_", "b"): 2.8, ("aten::to", "a"): 5.0},
            6.0,
        ),
        (
            "aten::linear",
            {("aten::mm", "a"): 2.0, ("aten::mm", "b"): 2.0, ("aten::t", "a"): 3.0},
            4.0,
        ),
    ],
    ids=["inner kernels are called more often", "several sizes", "not recorded itself"],
)
def test_calls_are_those_of_the_operation_itself(
    op: str, calls: Mapping[tuple[str, str], float], counted: float
) -> None:
    rows = rows_of(op, calls)
    inside = primitive(rows[0].place, "matmul", 0.01, calls=9.0)
    for made in (rows, rows[::-1], [*rows, inside]):
        (site,) = sites_of(profile(made))
        assert site.calls == pytest.approx(counted)


def test_of_primitives_alone_all_calls_count() -> None:
    place = kernel("aten::conv2d", 0.0).place
    inside: Rows = [
        primitive(place, kind, 0.01, calls=of) for kind, of in (("reorder", 2.0), ("matmul", 1.0))
    ]
    (site,) = sites_of(profile(inside))
    assert site.calls == 3.0
