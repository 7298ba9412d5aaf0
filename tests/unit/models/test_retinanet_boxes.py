"""Anchors and the box coder."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernels.reference.detection import decode
from models.retinanet.anchors import SIZES, anchors_by_level, cell_anchors, grid_shapes
from models.retinanet.box_coder import encode


def test_sizes_are_cut_to_whole_pixels() -> None:
    assert SIZES == (
        (32, 40, 50),
        (64, 80, 101),
        (128, 161, 203),
        (256, 322, 406),
        (512, 645, 812),
    )


@pytest.mark.parametrize(
    ("side", "cells_by_level"),
    [(256, [1024, 256, 64, 16, 4]), (96, [144, 36, 9, 4, 1]), (800, [10000, 2500, 625, 169, 49])],
)
def test_nine_anchors_for_each_cell(side: int, cells_by_level: list[int]) -> None:
    levels = anchors_by_level(side, side)
    assert [len(level) for level in levels] == [9 * cells for cells in cells_by_level]


def test_totals() -> None:
    assert sum(map(len, anchors_by_level(256, 256))) == 12_276
    assert sum(map(len, anchors_by_level(800, 800))) == 120_087


def test_cell_anchors_of_p3_by_hand() -> None:
    # Half sides: size * sqrt(2) / 2 and size / sqrt(2) / 2, e.g. 22.6 and 11.3 for 32.
    half_sides = [(23, 11), (28, 14), (35, 18), (16, 16), (20, 20), (25, 25)]
    half_sides += [(11, 23), (14, 28), (18, 35)]
    expected = torch.tensor([(-w, -h, w, h) for w, h in half_sides], dtype=torch.float32)
    torch.testing.assert_close(cell_anchors(SIZES[0]), expected, rtol=0, atol=0)


def test_halves_of_pixels_round_to_even() -> None:
    squares = [cell_anchors(sizes)[3:6, 2].tolist() for sizes in SIZES[1:3]]
    assert squares == [[32, 40, 50], [64, 80, 102]]  # halves of 64, 80, 101 and 128, 161, 203


def test_anchors_stand_row_by_row_then_by_cell() -> None:
    p3 = anchors_by_level(256, 256)[0]
    first_square_of_row_1_column_2 = p3[(1 * 32 + 2) * 9 + 3]
    assert first_square_of_row_1_column_2.tolist() == [0, -8, 32, 24]  # centre (16, 8)


def test_wide_images_and_sides_the_strides_do_not_divide() -> None:
    assert grid_shapes(96, 160) == [(12, 20), (6, 10), (3, 5), (2, 3), (1, 2)]
    p6 = anchors_by_level(96, 160)[3]
    centres = ((p6[:, :2] + p6[:, 2:]) / 2)[::9].tolist()
    assert centres == [[0, 0], [53, 0], [106, 0], [0, 48], [53, 48], [106, 48]]


def test_offsets_by_hand() -> None:
    anchor = torch.tensor([[0.0, 0.0, 10.0, 20.0]])
    box = torch.tensor([[5.0, 5.0, 10.0, 25.0]])
    torch.testing.assert_close(encode(box, anchor), torch.tensor([[0.25, 0.25, -math.log(2), 0]]))


coordinates = st.floats(-500, 500, width=32)
sides = st.floats(1, 800, width=32)
boxes = st.tuples(coordinates, coordinates, sides, sides)


@settings(deadline=None, derandomize=True)
@given(boxes, boxes)
def test_decode_inverts_encode(box: tuple[float, ...], anchor: tuple[float, ...]) -> None:
    corners = torch.tensor([box, anchor], dtype=torch.float64)
    corners[:, 2:] += corners[:, :2]
    box_side, anchor_side = (corners[:, 2:] - corners[:, :2]).unbind()
    assume(bool((box_side < 62.5 * anchor_side).all()))  # within the clamp
    restored = decode(encode(corners[:1], corners[1:]), corners[1:])
    torch.testing.assert_close(restored, corners[:1], rtol=1e-9, atol=1e-9)


def test_decoded_sides_are_bounded() -> None:
    anchor = torch.tensor([[0.0, 0.0, 2.0, 4.0]])
    box = decode(torch.tensor([[0.0, 0.0, 100.0, 100.0]]), anchor)
    torch.testing.assert_close(box, torch.tensor([[-61.5, -123.0, 63.5, 127.0]]))
