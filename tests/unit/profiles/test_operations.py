import json

import pytest

from controller.profiles.operations import flops


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
