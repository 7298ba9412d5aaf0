import json
from itertools import product

import pytest

from controller.profiles.operations import FORWARD, GEMMS, PART, flops, input_bytes, main_dtype


@pytest.mark.parametrize("kernel", ["aten::mm", "aten::addmm", "aten::bmm"])
@pytest.mark.parametrize("dims", ["", "[]", "[[]]", "[[], []]", "[[2, 3]]"])
def test_a_trace_without_shapes_tells_no_operations(kernel: str, dims: str) -> None:
    assert flops(kernel, dims, "") is None


def test_a_matrix_product_is_two_operations_a_term() -> None:
    assert flops("aten::mm", "[[2, 3], [3, 5]]", "") == 2 * 2 * 3 * 5
    assert flops("aten::addmm", "[[5], [2, 3], [3, 5]]", "") == 2 * 2 * 3 * 5


def test_inputs_that_are_no_text_are_no_lists_of_numbers() -> None:
    sizes = json.dumps([[1, 3, 8, 8], [4, 3, 3, 3]])
    values = json.dumps([None, 1, "[1, 1]", "[1, 1]", "[1, 1]"])
    assert flops("aten::mkldnn_convolution", sizes, values) == 2 * (4 * 3 * 3 * 3) * 8 * 8


HOSTILE = (
    5,
    None,
    {"a": 1},
    ["x"] * 4,
    [[2, 3], [4, "x"]],
    [[2, 3], [None, 5], [1]],
    [[-2, 3], [3, -4]],
    [[2, 3, 4, 4], [2, 3, 1, 1], [5]],
    [[2**40, 2**40, 2**40, 2**40]] * 3,
    [[[[[[1]]]]]] * 3,
    [1e308] * 3,
)
VALUES = (5, None, [5] * 4, ["[", "[0]", "[0, 0]"], ["[0, 0]"] * 3, ["", "[1, 1]", "[1, 1]"])


@pytest.mark.parametrize("dims", HOSTILE)
def test_made_up_sizes_are_no_operations(dims: object) -> None:
    sizes = json.dumps(dims)
    kernels = (*GEMMS, PART, "aten::convolution_backward", *FORWARD)
    for kernel, values in product(kernels, VALUES):
        found = flops(kernel, sizes, json.dumps(values))
        assert found is None or 0 <= found < 1e60
        for dtypes in (sizes, json.dumps(values), '["float", "float"]'):
            moved = input_bytes(kernel, sizes, dtypes)
            assert moved is None or 0 <= moved < 1e60
            assert main_dtype(dtypes) in ("", "f32")
