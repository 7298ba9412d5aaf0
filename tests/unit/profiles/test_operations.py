import json
from itertools import product

import pytest

from controller.profiles.assembling import kernel_rows
from controller.profiles.attribution import Attribution, Spent
from controller.profiles.model import Place
from controller.profiles.operation_flops import FORWARD, flops, taps_inside
from controller.profiles.operations import (
    ATTENTION,
    GEMMS,
    PART,
    input_bytes,
    keeps_type,
    main_dtype,
    output_bytes,
)


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


FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
QUERY, KEY = [2, 3, 8, 16], [2, 3, 5, 16]
PAIRS = 2 * 3 * 8 * 5 * 16
CAUSAL = 2 * 3 * (1 + 2 + 3 + 4 + 4 * 5) * 16
"""Each query sees the keys up to its own number."""


@pytest.mark.parametrize(
    ("backward", "causal", "expected"),
    [
        (False, "False", 4 * PAIRS),
        (False, "True", 4 * CAUSAL),
        (True, "False", 10 * PAIRS),
        (True, "True", 10 * CAUSAL),
    ],
)
def test_attention_is_two_products_and_its_gradients_five(
    backward: bool, causal: str, expected: int
) -> None:
    """As torch 2.13 records its inputs."""
    if backward:
        sizes = [QUERY, QUERY, KEY, KEY, QUERY, QUERY[:3], [], [], [], []]
        values = [*[""] * 6, "0.", causal, "", ""]
    else:
        sizes, values = [QUERY, KEY, KEY, [], [], [], []], ["", "", "", "0.", causal, "", ""]
    kernel = f"{FLASH}_backward" if backward else FLASH
    assert flops(kernel, json.dumps(sizes), json.dumps(values)) == expected
    assert flops(kernel, json.dumps(sizes), "") is None
    assert flops(kernel, "", json.dumps(values)) is None


@pytest.mark.parametrize(
    ("transposed", "sizes", "expected"),
    [
        ("True", [[1, 32, 64, 64], [1, 64, 32, 32], [64, 32, 2, 2]], 2 * 2 * 32**2 * 64 * 32 * 4),
        ("False", [[1, 64, 16, 16], [1, 32, 32, 32], [64, 32, 2, 2]], 2 * 2 * 16**2 * 64 * 32 * 4),
    ],
)
def test_a_convolutions_gradients_are_as_many_operations_as_two_passes(
    transposed: str, sizes: list[list[int]], expected: float
) -> None:
    """Of a transposed one, weights meet the pixels of its input, which are fewer."""
    lists = ["[32]", "[2, 2]", "[0, 0]", "[1, 1]"]
    values = json.dumps(["", "", "", *lists, transposed, "[0, 0]", "1", "[True, True, True]"])
    dims = json.dumps(sizes + [[]] * 8)
    assert flops("aten::convolution_backward", dims, values) == expected


@pytest.mark.parametrize(
    "kernel",
    [
        *("aten::embedding", "aten::_embedding_bag", "aten::index_select", "aten::index"),
        *("aten::gather", "aten::index_put_"),
    ],
)
def test_a_gather_doesnt_read_its_whole_table(kernel: str) -> None:
    assert input_bytes(kernel, "[[1000000, 64], [8]]", '["float", "long int"]') is None


@pytest.mark.parametrize(
    ("kernel", "sizes", "dtypes", "expected"),
    [
        ("aten::relu", [[4, 8]], ["float"], 4 * 32),
        ("aten::relu_", [[4, 8]], ["float"], 4 * 32),
        ("aten::add", [[4, 1], [8], []], ["c10::BFloat16", "c10::BFloat16", "Scalar"], 2 * 32),
        ("aten::mul", [[4, 8], []], ["float", "double"], 4 * 32),
        ("aten::threshold_backward", [[4, 8], [4, 8], []], ["float", "float", "Scalar"], 4 * 32),
        ("aten::add", [[4, 8]], ["of another"], 0),
        ("aten::add", [], [], 0),
        ("aten::copy_", [[4, 8], [4, 8]], ["float", "float"], 0),
        ("aten::sum", [[4, 8]], ["float"], 0),
    ],
)
def test_an_elementwise_kernel_writes_as_much_as_its_inputs_broadcast_to(
    kernel: str, sizes: list[list[int]], dtypes: list[str], expected: float
) -> None:
    assert output_bytes(kernel, json.dumps(sizes), json.dumps(dtypes)) == expected


@pytest.mark.parametrize(
    ("strides", "moved"),
    [
        ([[8, 1], [8, 1]], 2 * 32),
        ([[8, 1], [0, 0]], 32 + 1),
        ([[8, 1], [0, 1]], 32 + 8),
        ([[8, 1], [1, 0]], 32 + 4),
        ([[8, 1], []], 2 * 32),
        ([], 2 * 32),
    ],
)
def test_an_expanded_input_is_read_once(strides: list[list[int]], moved: int) -> None:
    """Such as the gradient of a mean, one element in all of a tensor's sizes."""
    sizes, dtypes = json.dumps([[4, 8], [4, 8]]), json.dumps(["float", "float"])
    assert input_bytes("aten::mul", sizes, dtypes, json.dumps(strides)) == 4 * moved
    assert input_bytes("aten::mul", sizes, dtypes) == 4 * 2 * 32


def test_the_inputs_of_a_kernel_s_row_are_as_they_lie() -> None:
    place = Place(
        op="aten::mul",
        kernel="aten::mul",
        dims="[[4, 8], [4, 8]]",
        strides="[[8, 1], [0, 0]]",
        dtypes='["float", "float"]',
    )
    found = Attribution()
    found.kernels[place] = Spent(calls=1, self_s=1.0, total_s=1.0)
    (row,) = kernel_rows(found)
    assert row.bytes == 4 * (32 + 1)


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
    [[10**400, 1], [1, 10**400], [1]],
    [[2, 10**400]] * 3,
    [[1, 3, 2], [4, 3, 9], [4, 3, 9]],
    [[[[[[1]]]]]] * 3,
    [1e308] * 3,
)
VALUES = (
    *(5, None, [5] * 4, ["[", "[0]", "[0, 0]"], ["[0, 0]"] * 3, ["", "[1, 1]", "[1, 1]"]),
    *(["[0]"] * 3, ["[" * 100_000] * 9, ["[" + "9" * 6000 + "]"] * 9),
)


@pytest.mark.parametrize("dims", HOSTILE)
def test_made_up_sizes_are_no_operations(dims: object) -> None:
    sizes = json.dumps(dims)
    kernels = (*GEMMS, PART, "aten::convolution_backward", *FORWARD, *ATTENTION)
    for kernel, values in product(kernels, VALUES):
        found = flops(kernel, sizes, json.dumps(values))
        assert found is None or 0 <= found < 1e60
        inside = taps_inside(kernel, sizes, json.dumps(values))
        assert inside is None or 0 <= inside <= 1
        for dtypes in (sizes, json.dumps(values), '["float", "float"]'):
            for strides in ("", sizes, dtypes):
                moved = input_bytes(kernel, sizes, dtypes, strides)
                assert moved is None or 0 <= moved < 1e60
            assert 0 <= output_bytes("aten::add", sizes, dtypes) < 1e60
            assert main_dtype(dtypes) in ("", "f32")


@pytest.mark.parametrize("text", ["float", "[" * 200_000, f"[{'9' * 6000}]", '{"a": 1}', "["])
def test_texts_that_are_no_lists_tell_nothing(text: str) -> None:
    kernels = (*GEMMS, PART, "aten::convolution_backward", *FORWARD, *ATTENTION)
    for kernel in kernels:
        assert flops(kernel, text, text) is None
        assert kernel in GEMMS or flops(kernel, json.dumps([[2, 3, 4, 4]] * 3), text) is None
        assert taps_inside(kernel, text, text) is None
    assert input_bytes("aten::sum", text, text) is None
    assert output_bytes("aten::add", text, text) == 0
    assert main_dtype(text) == ""
    assert not keeps_type(text)
