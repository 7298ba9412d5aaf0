"""Which measurements of a machine's peaks count and are kept, and what raises a peak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.contracts.peaks import (
    BEYOND_CACHES,
    COPY,
    MOVING,
    UPDATE,
    MeasuredPeaks,
    Peaks,
    Rate,
)
from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import nested, primitive_rows, under_roofline
from controller.profiles.attribution import Spent
from controller.profiles.model import KernelRow, Place, Profile
from controller.profiles.roofs import (
    KEPT,
    above_roof,
    peaks_of,
    raised_by,
    raises_told,
    taps_inside,
    with_measured,
)
from tests.support.planted_profile import kernel

BODY = (
    "cpu,matmul,{implementation},undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
    "dst:f32::blocked:ab::f0,,,1000x1000:1000x1000"
)
FLOPS = 2e9
CALL_S = 5e-3
RATE = FLOPS / CALL_S


def measured(
    flops: float, copied: float = 1e10, stack: str = "torch", day: int = 1
) -> MeasuredPeaks:
    """A measurement whose median is a tenth lower."""
    rates = {
        name: Rate(best=rate, median=0.9 * rate, runs=8)
        for name, rate in (("f32", flops), (COPY, copied))
    }
    return MeasuredPeaks(rates=rates, stack=stack, date=f"2026-11-{day:02}T00:00:00+00:00")


def profile(
    call_s: float = CALL_S, summary: ProfileSummary | None = None, implementation: str = "brg"
) -> Profile:
    """Two calls of a matrix product of 1000 x 1000."""
    spent = Spent(calls=2, self_s=2 * call_s, total_s=2 * call_s, least_s=call_s)
    body = BODY.format(implementation=implementation)
    rows, _ = primitive_rows({(Place(op="aten::mm", kernel="aten::mm"), body): spent}, 1)
    return Profile(summary or ProfileSummary(steps=1), (), tuple(rows))


def cut_to(share: float) -> Profile:
    """The same, in a kernel that took a share of the primitives' time."""
    whole = profile()
    kernel = KernelRow(
        place=whole.primitives[0].place, calls=2, self_s=2 * CALL_S * share, total_s=1.0
    )
    kernels, primitives, _ = nested([kernel], whole.primitives)
    return replace(whole, kernels=tuple(kernels), primitives=tuple(primitives))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param([measured(119e9)], (119e9, "stack torch", 1), id="alone"),
        pytest.param(
            [measured(119e9), measured(378e9, stack="ipex", day=2)],
            (378e9, "stack ipex", 2),
            id="another stack",
        ),
        pytest.param(
            [measured(378e9), measured(119e9, day=2)], (378e9, "stack torch", 1), id="an older one"
        ),
        pytest.param(
            [measured(119e9), measured(378e9, day=2)], (378e9, "stack torch", 2), id="a newer one"
        ),
    ],
)
def test_the_best_over_stacks_and_time_counts(
    known: list[MeasuredPeaks], expected: tuple[float, str, int]
) -> None:
    flops, source, day = expected
    found = peaks_of(known)
    assert found
    assert found.gemm_flops == {"f32": flops}
    roof = found.roofs["f32"]
    assert (roof.source, roof.date) == (source, f"2026-11-{day:02}T00:00:00+00:00")
    assert roof.median == 0.9 * flops


def test_each_rate_is_the_best_of_its_own() -> None:
    found = peaks_of([measured(1e11, copied=2e10), measured(2e11, copied=1e10, stack="ipex")])
    assert found
    assert (found.gemm_flops["f32"], found.copy_bytes) == (2e11, 2e10)
    assert {name: roof.source for name, roof in found.roofs.items()} == {
        "f32": "stack ipex",
        COPY: "stack torch",
    }


def moving(measured: MeasuredPeaks, update: float, array_bytes: int) -> MeasuredPeaks:
    """The same with an update, and arrays of another size."""
    rates = {**measured.rates, UPDATE: Rate(best=update, median=update, runs=8)}
    sized = {n: rates[n].model_copy(update={"array_bytes": array_bytes}) for n in MOVING}
    return measured.model_copy(update={"rates": {**rates, **sized}})


def test_rates_of_arrays_that_caches_may_have_held_give_way() -> None:
    cached = measured(3e11, copied=9e10)
    beyond = moving(measured(2e11, copied=2e10, day=2), 3e10, 2 * BEYOND_CACHES)
    for known in ([cached, beyond], [beyond, cached]):
        found = peaks_of(known)
        assert found
        assert (found.copy_bytes, found.update_bytes) == (2e10, 3e10)
        assert found.gemm_flops == {"f32": 3e11}, "products have no arrays of a size"
        assert found.roofs[COPY].array_bytes == 2 * BEYOND_CACHES
    alike = peaks_of([cached, moving(beyond, 3e10, BEYOND_CACHES)])
    assert alike
    assert alike.copy_bytes == 9e10, "of earlier releases, with arrays as large"


def test_nothing_is_a_peak_before_copying_was_measured() -> None:
    assert peaks_of([]) is None
    of_primitive = MeasuredPeaks(
        rates={"f32": Rate(best=1e11, median=1e11, runs=2)}, stack="torch", date=None, primitive="m"
    )
    assert peaks_of([of_primitive]) is None


def test_what_counts_is_kept_however_old() -> None:
    known: tuple[MeasuredPeaks, ...] = (measured(378e9), measured(1e9, copied=3e10, day=2))
    for _ in range(2 * KEPT):
        known = with_measured(known, measured(119e9, day=3))
    last = measured(118e9, day=4)
    known = with_measured(known, last)
    assert len(known) == KEPT
    assert known[:2] == (measured(378e9), measured(1e9, copied=3e10, day=2))
    assert known[-1] == last


VALID = ProfileSummary(steps=1)
INVALID = ProfileSummary(steps=1, validity="INVALID", reasons=("steps apart",))
DISTURBED = ProfileSummary(steps=1, validity="DISTURBED", reasons=("others were busy",))


@pytest.mark.parametrize(
    ("peak", "beating", "raises"),
    [
        pytest.param(RATE / 2, profile(), True, id="faster"),
        pytest.param(RATE / 1.05, profile(), False, id="within what is tolerated"),
        pytest.param(RATE / 2, profile(summary=INVALID), False, id="INVALID"),
        pytest.param(RATE / 2, profile(summary=DISTURBED), False, id="DISTURBED"),
        pytest.param(RATE / 2, profile(implementation="jit_wino_4x3"), False, id="winograd"),
        pytest.param(RATE / 2, profile(call_s=5e-5), False, id="too short to tell"),
        pytest.param(
            RATE / 1.05,
            replace(profile(), summary=VALID.model_copy(update={"scale": 0.5})),
            False,
            id="by scaling alone",
        ),
        pytest.param(RATE / 1.05, cut_to(0.25), False, id="by cutting alone"),
        pytest.param(RATE / 2, cut_to(0.25), True, id="faster, and cut"),
    ],
)
def test_a_primitive_of_a_valid_profile_raises_the_peak(
    peak: float, beating: Profile, raises: bool
) -> None:
    known = measured(peak)
    peaks = peaks_of([known])
    assert peaks
    new = raised_by(beating, peaks, "run-1")
    assert bool(new) is raises
    if not raises:
        return
    assert new[0].source == "primitive matmul of run run-1, stack None"
    raised = peaks_of([known, *new])
    assert raised
    assert raised.gemm_flops["f32"] == pytest.approx(RATE)
    assert above_roof(beating, raised) == {}
    found = under_roofline(beating, raised).summary
    assert found.headroom_s == pytest.approx(0)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("call_s", "megabytes", "op", "raises"),
    [
        pytest.param(0.02, 600, "aten::_fused_sgd_", True, id="faster"),
        pytest.param(0.029, 600, "aten::_fused_sgd_", False, id="within what is tolerated"),
        pytest.param(0.004, 100, "aten::_fused_sgd_", False, id="in caches"),
        pytest.param(0.02, 600, "aten::add_", False, id="no update"),
    ],
)
def test_an_update_of_a_valid_profile_raises_its_peak(
    call_s: float, megabytes: int, op: str, raises: bool
) -> None:
    row = replace(kernel(op, call_s, phase="optimizer"), bytes=megabytes * 1e6)
    step = Profile(ProfileSummary(steps=3), (row,), ())
    known = measured(RATE)
    slow = known.model_copy(
        update={"rates": {**known.rates, UPDATE: Rate(best=2e10, median=2e10, runs=8)}}
    )
    peaks = peaks_of([slow])
    assert peaks
    assert len(under_roofline(step, peaks).summary.notes) == raises
    new = raised_by(step, peaks, "run-1")
    assert bool(new) is raises
    if not raises:
        return
    (note,) = raises_told(new, peaks)
    assert note == (
        "kernel aten::_fused_sgd_ of run run-1, stack None reached 30 GB/s: the machine's peak of "
        "20 is raised to it"
    )
    raised = peaks_of([slow, *new])
    assert raised
    assert raised.update_bytes == pytest.approx(3e10)
    assert under_roofline(step, raised).summary.notes == ()
    assert raised_by(replace(step, summary=DISTURBED), peaks, "run-1") == []


@pytest.mark.parametrize(("times", "raises"), [(2, True), (4, False)])
def test_an_update_that_large_caches_may_hold_raises_no_peak(times: int, raises: bool) -> None:
    moved = 3 * BEYOND_CACHES
    row = replace(kernel("aten::_fused_sgd_", 0.02, phase="optimizer"), bytes=float(moved))
    step = Profile(ProfileSummary(steps=1), (row,), ())
    known = moving(measured(RATE), 2e10, times * BEYOND_CACHES)
    peaks = peaks_of([known])
    assert peaks
    new = raised_by(step, peaks, "run-1")
    assert [one.rates[UPDATE].array_bytes for one in new] == [times * BEYOND_CACHES] * raises
    raised = peaks_of([known, *new])
    assert raised
    assert raised.update_bytes == pytest.approx(moved / 0.02 if raises else 2e10)


@pytest.mark.parametrize(
    ("problem", "inside"),
    [
        ({"ih": 7, "oh": 7, "kh": 3, "ph": 1, "iw": 7, "ow": 7, "kw": 3, "pw": 1}, 361 / 441),
        ({"ih": 7, "oh": 5, "kh": 3, "iw": 7, "ow": 5, "kw": 3}, 1.0),
        ({"ih": 8, "oh": 4, "kh": 3, "sh": 2, "ph": 1}, 11 / 12),
        ({"ih": 5, "oh": 5, "kh": 3, "dh": 1, "ph": 2}, 11 / 15),
        ({"ih": 7, "oh": 7, "kh": 10**9, "ph": 1}, None),
    ],
)
def test_taps_in_the_padding_are_no_work(problem: dict[str, int], inside: float | None) -> None:
    (row,) = profile().primitives
    row = replace(row, primitive="convolution", parameters=problem)
    assert taps_inside(row) == (None if inside is None else pytest.approx(inside))
    if inside != 1:
        assert taps_inside(replace(row, primitive="deconvolution")) is None


CONVOLUTION = (
    "cpu,convolution,brg_conv:avx512_core_amx,{direction},src:{src}::blocked:acdb::f0 "
    "wei:{wei}::blocked:Acdb16a::f0 bia:undef::undef::: dst:{dst}::blocked:acdb::f0,,"
    "alg:convolution_direct,mb8_ic256oc256_ih64oh64kh1sh1dh0ph0_iw64ow64kw1sw1dw0pw0"
)
PRODUCT = BODY.format(implementation="brg").replace(",,,1000", ",{},,1000")


def convolution_body(direction: str, types: str) -> str:
    """Return a convolution of a source, weights and destination of these types."""
    src, wei, dst = types.split()
    return CONVOLUTION.format(direction=direction, src=src, wei=wei, dst=dst)


@pytest.mark.parametrize(
    ("body", "raises"),
    [
        pytest.param(PRODUCT.format("attr-fpmath:bf16"), set(), id="rounded to bf16"),
        pytest.param(PRODUCT.format("attr-fpmath:any:true"), set(), id="rounded to any type"),
        pytest.param(PRODUCT.format("attr-fpmath:strict:true"), {"f32"}, id="strict"),
        pytest.param(PRODUCT.format("attr-scratchpad:user"), {"f32"}, id="another attribute"),
        pytest.param(
            convolution_body("backward_data", "f32 bf16 bf16"), set(), id="weights in bf16"
        ),
        pytest.param(
            convolution_body("backward_weights", "bf16 f32 bf16"), {"bf16"}, id="gradients in f32"
        ),
        pytest.param(convolution_body("forward_training", "f32 f32 bf16"), {"f32"}, id="output"),
    ],
)
def test_a_product_in_a_narrower_type_than_its_first_tensors_has_no_roof(
    body: str, raises: set[str]
) -> None:
    spent = Spent(calls=1, self_s=5e-3, total_s=5e-3, least_s=5e-3)
    rows, _ = primitive_rows({(Place(op="aten::mm", kernel="aten::mm"), body): spent}, 1)
    step = Profile(ProfileSummary(steps=1), (), tuple(rows))
    peaks = Peaks(gemm_flops={"f32": 1e11, "bf16": 1e11}, copy_bytes=1e10)
    assert {name for one in raised_by(step, peaks, "run-1") for name in one.rates} == raises
    (found,) = under_roofline(step, peaks).primitives
    assert (found.attainable_s is not None) is bool(raises)
