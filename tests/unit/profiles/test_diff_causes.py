"""What an operation does more often, or otherwise, is named with its counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.contracts.profile_diff import ChangeKind
from controller.profiles.diffing import diff
from controller.profiles.model import Profile
from controller.reports.profile_diff_lines import answer_lines
from tests.support.planted_profile import BODY, Rows, kernel, primitive, profile


def _with_gradient_of_input() -> tuple[Rows, Rows]:
    """Gradients of weights alone, and of inputs, too."""
    rows: list[Rows] = []
    for times in (1.0, 2.0):
        rows.append([])
        for module in BODY:
            row = kernel("ConvolutionBackward0", 0.1 * times, phase="backward", module=module)
            row = replace(row, primitive_s=0.09 * times)
            rows[-1] += [row, primitive(row.place, "convolution", 0.09, direction="BWD_W")]
            if times > 1:
                rows[-1].append(primitive(row.place, "convolution", 0.09, direction="BWD_D"))
    return rows[0], rows[1]


def test_of_calls_the_work_inside_that_differs_is_counted() -> None:
    ones, others = _with_gradient_of_input()
    found = diff(profile(ones), profile(others))
    (change,) = found.changes
    assert (change.kind, change.detail) == (ChangeKind.CALLS, "convolution BWD_D 0 → 2")
    assert answer_lines(found, 3)[1] == (
        "+200 ms  ConvolutionBackward0: calls convolution BWD_D 0 → 2, backward of 2 modules in "
        "body: 200 ms → 400 ms"
    )


def test_what_only_converts_on_one_side_is_told_as_reorders() -> None:
    """As torch's own conversions and the nodes of their gradients are, planted between layers."""
    copy = replace(kernel("ToDenseBackward0", 0.02, phase="backward"), primitive_s=0.0)
    inside = replace(copy, place=replace(copy.place, kernel="aten::to_mkldnn"), self_s=0.05)
    both = [kernel("aten::conv2d", 0.2)]
    found = diff(profile(both), profile([*both, copy, inside]))
    (change,) = (one for one in found.changes if one.kind is not ChangeKind.SAME_WORK)
    assert (change.kind, change.calls) == (ChangeKind.REORDERS, (0.0, 1.0))
    assert "ToDenseBackward0: reorders 0 → 1, backward" in answer_lines(found, 3)[1]
    new = diff(profile(both), profile([*both, replace(copy, self_s=0.2), inside]))
    assert ChangeKind.ONLY_B in {one.kind for one in new.changes}


def _of_sizes(counts: dict[str, float], **told: str) -> Rows:
    row = replace(kernel("aten::conv2d", 0.2), primitive_s=0.2)
    inside = (
        primitive(row.place, "convolution", 0.1 * calls, problem=problem, calls=calls, **told)
        for problem, calls in counts.items()
    )
    return [row, *inside]


def test_calls_of_other_sizes_are_counted_by_size() -> None:
    found = diff(
        profile(_of_sizes({"mb1": 2.0, "mb2": 1.0})), profile(_of_sizes({"mb1": 1.0, "mb2": 2.0}))
    )
    (change,) = found.changes
    assert (change.kind, change.detail) == (ChangeKind.CALLS, "convolution FWD_D mb2 1 → 2")


def test_implementations_that_take_turns_are_counted() -> None:
    def of(by_reference: float) -> Profile:
        row = replace(kernel("aten::conv2d", 0.2), primitive_s=0.2)
        by = {"ref:any": by_reference, "jit:avx2": 4.0 - by_reference}
        inside = (
            primitive(row.place, "convolution", 0.1, implementation=name, calls=calls)
            for name, calls in by.items()
        )
        return profile([row, *inside])

    (change,) = diff(of(1.0), of(3.0)).changes
    assert change.kind is ChangeKind.IMPLEMENTATION
    assert change.detail in ("ref:any 1 → 3", "jit:avx2 3 → 1")


def test_sizes_of_some_windows_are_no_other_sizes() -> None:
    """What differs here by a call is a view, which does nothing."""

    def of(views: float, sometimes: float) -> Profile:
        row = kernel("aten::index", 0.2, calls=2.0)
        view = replace(row.place, kernel="aten::view")
        rare = replace(row.place, dims="[[7]]")
        rows: Rows = [row, replace(row, place=view, calls=views, self_s=0.001)]
        return profile([*rows, replace(row, place=rare, calls=sometimes, self_s=0.01)])

    other = of(4.0, 0.2)
    without = replace(other, kernels=other.kernels[:-1])
    (change,) = diff(of(3.0, 0.2), without).changes
    assert change.kind is ChangeKind.SAME_WORK


def test_calls_that_go_opposite_ways_in_two_modules_are_two_changes() -> None:
    def of(gradients: tuple[float, float]) -> Profile:
        rows: Rows = []
        for module, calls in zip(BODY, gradients, strict=True):
            row = kernel("ConvolutionBackward0", 0.2, phase="backward", module=module)
            rows += [replace(row, primitive_s=0.19)]
            rows.append(primitive(row.place, "convolution", 0.1, direction="BWD_W"))
            if calls:
                inputs = primitive(row.place, "convolution", 0.09, direction="BWD_D", calls=calls)
                rows.append(inputs)
        return profile(rows)

    found = diff(of((2.0, 0.0)), of((0.0, 2.0)))
    assert {change.detail for change in found.changes} == {
        "convolution BWD_D 2 → 0",
        "convolution BWD_D 0 → 2",
    }


def _kernels_of(calls: dict[str, float], strides: dict[str, str] | None = None) -> Profile:
    """Return a kernel that is called with several sizes, each so often a step."""
    row = kernel("aten::x", 0.0)
    rows: Rows = [
        replace(
            row,
            place=replace(row.place, dims=dims, strides=(strides or {}).get(dims, "")),
            calls=times,
            self_s=0.05 * times,
            total_s=0.05 * times,
        )
        for dims, times in calls.items()
    ]
    return profile(rows)


def test_a_size_of_a_few_windows_hides_no_other_calls() -> None:
    (change,) = diff(
        _kernels_of({"[[4]]": 10.0}), _kernels_of({"[[4]]": 5.0, "[[7]]": 0.2})
    ).changes
    assert change.kind is ChangeKind.CALLS
    assert change.calls == (10.0, 5.2)


def test_calls_of_one_implementation_are_no_other_one() -> None:
    """Each of thirty sizes is called 0.3 times more, which tells nothing."""
    sizes = [f"[[{size}]]" for size in range(30)]
    strides = dict.fromkeys(sizes, "[[1]]")
    one = _kernels_of(dict.fromkeys(sizes, 1.0), strides)
    other = _kernels_of(dict.fromkeys(sizes, 1.3), strides | {sizes[0]: "[[2]]"})
    (change,) = diff(one, other).changes
    assert change.kind is not ChangeKind.IMPLEMENTATION
    assert change.detail != " 30 → 39"


def test_calls_that_hardly_differ_by_name_are_counted_by_size() -> None:
    few, many = {"mb1": 100.0, "mb2": 900.0}, {"mb1": 50.0, "mb2": 951.0}
    (change,) = diff(profile(_of_sizes(few)), profile(_of_sizes(many))).changes
    assert (change.kind, change.detail) == (ChangeKind.CALLS, "convolution FWD_D mb2 900 → 951")


def test_many_calls_are_no_power_of_ten() -> None:
    named, by_size = (
        diff(profile(_of_sizes(few)), profile(_of_sizes(many))).changes
        for few, many in (
            ({"mb1": 1_234_567.0}, {"mb1": 2_345_678.0}),
            ({"mb1": 1_234_567.0, "mb2": 2_000_000.0}, {"mb1": 2_000_000.0, "mb2": 1_234_567.0}),
        )
    )
    assert [change.detail for change in named] == ["convolution FWD_D 1,234,567 → 2,345,678"]
    assert [change.detail for change in by_size] == ["convolution FWD_D mb1 1,234,567 → 2,000,000"]
    few, many = kernel("aten::mm", 1.0, calls=1_234_567.0), kernel("aten::mm", 2.0, calls=2e6)
    add = kernel("aten::add", 1.0)
    pairs = (profile([few, add]), profile([many, add])), (profile([add]), profile([few, add]))
    said = " ".join(line for pair in pairs for line in answer_lines(diff(*pair), 3))
    assert "aten::mm: calls 1,234,567 → 2,000,000" in said
    assert "aten::mm: only in B, 1,234,567 calls" in said
    assert "e+06" not in said


def test_copies_that_another_data_type_spares_are_told_with_it() -> None:
    """As of a layer that no longer runs in autocast's type."""
    site = {"phase": "forward", "module": "decoder"}
    cast = replace(kernel("aten::linear", 0.1, calls=4.0, **site), self_s=0.1)
    cast = replace(cast, place=replace(cast.place, kernel="aten::copy_"))
    product = kernel("aten::linear", 0.05, **site)
    types = [
        replace(product, place=replace(product.place, kernel="aten::addmm", dtypes=f'["{type_}"]'))
        for type_ in ("c10::BFloat16", "float")
    ]
    found = diff(profile([types[0], cast]), profile([types[1]]))
    first = answer_lines(found, 3)[1]
    assert first == (
        "−100 ms  aten::linear: copies 4 → 0 with data type bf16 → f32, forward of decoder: "
        "100 ms → 0 ms"
    )


@pytest.mark.parametrize("only_in", [0, 1])
def test_gradients_of_casts_that_another_data_type_spares_are_told_with_it(only_in: int) -> None:
    """They are an operation of their own, which the other side has not."""
    site = {"phase": "backward", "module": "decoder"}
    node = replace(kernel("ToCopyBackward0", 0.12, calls=4.0, **site), self_s=0.02)
    copy = replace(node, place=replace(node.place, kernel="aten::copy_"), self_s=0.1)
    product = kernel("AddmmBackward0", 0.05, **site)
    ones, others = (
        [replace(product, place=replace(product.place, kernel="aten::mm", dtypes=f'["{type_}"]'))]
        for type_ in ("c10::BFloat16", "float")
    )
    sides = [ones, others]
    sides[only_in] += [node, copy]
    first = answer_lines(diff(profile(sides[0]), profile(sides[1])), 3)[1]
    assert "ToCopyBackward0: copies " + ("4 → 0", "0 → 4")[only_in] in first
    assert "with data type bf16 → f32, backward of decoder: " in first
    elsewhere = [replace(row, place=replace(row.place, module="encoder")) for row in (node, copy)]
    sides[only_in] = [sides[only_in][0], *elsewhere]
    assert (
        "ToCopyBackward0: only in "
        in answer_lines(diff(profile(sides[0]), profile(sides[1])), 3)[1]
    )
