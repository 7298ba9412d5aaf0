"""Differences of profiles: each second is in one change, and what was planted is named first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.contracts.profile_diff import ChangeKind, ProfileDiff
from controller.profiles.diffing import diff
from controller.profiles.importing import import_file
from controller.profiles.model import KernelRow, PrimitiveRow, Profile
from controller.profiles.parts import parts_of
from controller.reports.profile_diff_lines import answer_lines, is_same
from tests.support.gpu_trace import record
from tests.support.planted_profile import (
    BODY,
    HEAD,
    Rows,
    convolution,
    kernel,
    primitive,
    profile,
    step,
    up_to,
)


def altered(change: Callable[[KernelRow | PrimitiveRow], KernelRow | PrimitiveRow]) -> Rows:
    return [change(row) for row in step()]


def _in_bf16(row: KernelRow | PrimitiveRow) -> KernelRow | PrimitiveRow:
    if isinstance(row, PrimitiveRow):
        return (
            row
            if row.primitive == "reorder"
            else replace(row, dtype="bf16", body="bf16", seconds=0.05)
        )
    return row


def _of_more_classes(row: KernelRow | PrimitiveRow) -> KernelRow | PrimitiveRow:
    if row.place.module != HEAD or not isinstance(row, KernelRow):
        return row
    return replace(row, place=replace(row.place, dims="[[2, 264]]"), self_s=0.15)


def _by_reference(row: KernelRow | PrimitiveRow) -> KernelRow | PrimitiveRow:
    if isinstance(row, PrimitiveRow) and row.primitive == "convolution":
        return replace(row, implementation="ref:any", body="ref", seconds=1.0)
    return row


def _channels_last(row: KernelRow | PrimitiveRow) -> KernelRow | PrimitiveRow:
    if isinstance(row, PrimitiveRow) and row.primitive == "convolution":
        return replace(row, layout="src:acdb dst:acdb", body="acdb", seconds=0.1)
    return row


def _optimizer_called_more(row: KernelRow | PrimitiveRow) -> KernelRow | PrimitiveRow:
    if row.place.phase != "optimizer" or not isinstance(row, KernelRow):
        return row
    return replace(row, calls=6.0, self_s=0.12)


def _slow_relu(row: KernelRow | PrimitiveRow) -> KernelRow | PrimitiveRow:
    if row.place.op != "aten::relu" or not isinstance(row, KernelRow):
        return row
    return replace(row, self_s=0.8)


def _with_reorders() -> Rows:
    rows = step()
    for row in step():
        if isinstance(row, PrimitiveRow) and row.primitive == "convolution":
            rows.append(primitive(row.place, "reorder", 0.11, problem="forced", calls=3.0))
    return rows


def _with_copies() -> Rows:
    """Convolutions that copy their input into another layout first."""
    rows = step()
    for row in step():
        if isinstance(row, KernelRow) and row.place.module in BODY:
            copy = replace(row.place, kernel="aten::copy_")
            rows.append(replace(row, place=copy, calls=2.0, self_s=0.1, primitive_s=0.0))
    return rows


def _called(calls: float, kernel: str) -> Rows:
    """A step whose optimizer also calls this so often."""
    (added,) = (row for row in step() if row.place.phase == "optimizer")
    assert isinstance(added, KernelRow)
    place = replace(added.place, kernel=kernel)
    return [*step(), replace(added, place=place, calls=calls, self_s=calls * 1e-3)]


PLANTED = {
    "copies": (
        _with_copies(),
        ChangeKind.COPIES,
        "+200 ms  aten::conv2d: copies 0 → 4, forward of 2 modules in body: 0 ms → 200 ms",
    ),
    "reorders": (
        _with_reorders(),
        ChangeKind.REORDERS,
        "+220 ms  aten::conv2d: reorders 2 → 8, forward of 2 modules in body: 20 ms → 240 ms",
    ),
    "fp32 island": (
        altered(_in_bf16),
        ChangeKind.DATA_TYPE,
        (
            "−198 ms  aten::conv2d: data type f32 → bf16, forward of 2 modules in body: "
            "320 ms → 122 ms"
        ),
    ),
    "classes": (
        altered(_of_more_classes),
        ChangeKind.SHAPES,
        (
            "+90 ms  aten::mm: shapes aten::mm [[2, 16, 32, 32]] → aten::mm [[2, 264]], "
            "forward of head: 60 ms → 150 ms"
        ),
    ),
    "fallback": (
        altered(_by_reference),
        ChangeKind.IMPLEMENTATION,
        (
            "+1.702 s  aten::conv2d: implementation jit:avx2 → ref:any, forward of 2 modules in "
            "body: 320 ms → 2.022 s"
        ),
    ),
    "layout": (
        altered(_channels_last),
        ChangeKind.LAYOUT,
        (
            "−98 ms  aten::conv2d: layout src:abcd dst:abcd → src:acdb dst:acdb, forward of "
            "2 modules in body: 320 ms → 222 ms"
        ),
    ),
    "unfrozen stage": (
        [*step(), *convolution("body.0", 0.2, "backward")],
        ChangeKind.ONLY_B,
        "+201 ms  aten::conv2d: only in B, 1 calls, backward of body.0: 0 ms → 201 ms",
    ),
    "frozen": (
        [row for row in step() if row.place.module != HEAD],
        ChangeKind.ONLY_A,
        "−60 ms  aten::mm: only in A, 1 calls, forward of head: 60 ms → 0 ms",
    ),
    "more calls": (
        altered(_optimizer_called_more),
        ChangeKind.CALLS,
        "+80 ms  aten::add_: calls 2 → 6, optimizer: 40 ms → 120 ms",
    ),
    "slow": (
        altered(_slow_relu),
        ChangeKind.SAME_WORK,
        "+720 ms  aten::relu: same work, 10.00× the time, forward of act: 80 ms → 800 ms",
    ),
}


@pytest.mark.parametrize(("rows", "kind", "line"), PLANTED.values(), ids=PLANTED)
def test_what_was_planted_is_named_first(rows: Rows, kind: ChangeKind, line: str) -> None:
    found = diff(profile(step()), profile(rows))
    assert [change.kind for change in found.changes if change.resolved] == [kind]
    assert answer_lines(found, 3)[1] == line
    assert not is_same(found)


def test_an_op_of_another_name_that_runs_the_same_primitive_is_the_same_op() -> None:
    rows = [replace(row, place=replace(row.place, op="ipex::conv")) for row in step()]
    ours = [row for row in rows if row.place.module in BODY]
    found = diff(profile(r for r in step() if r.place.module in BODY), profile(ours))
    assert {(change.op, change.op_b) for change in found.changes} == {
        ("aten::conv2d", "ipex::conv")
    }
    assert {change.difference_s for change in found.changes} == {0.0}


def test_a_log_without_ops_is_compared_by_primitive() -> None:
    def of_log(factor: float) -> Profile:
        rows = [r for r in step() if isinstance(r, PrimitiveRow)]
        bare = replace(rows[0].place, phase="", module="", op="", kernel="", dims="", dtypes="")
        return profile(replace(row, place=bare, seconds=row.seconds * factor) for row in rows)

    found = diff(of_log(1.0), of_log(2.0))
    assert {change.op for change in found.changes} == {"convolution FWD_D", "reorder"}
    assert answer_lines(found, 3)[0] == "B is 318 ms slower: 636 ms a step against 318 ms, 2.00×"


@pytest.mark.parametrize(
    ("given_b", "line"),
    [
        ({"threads": 1}, "differs: threads 2 → 1"),
        ({"knobs": {"malloc": "jemalloc"}}, "differs: malloc glibc → jemalloc"),
        ({"load_s": 0.5}, "+490 ms  loading a batch, beside the step: 10 ms → 500 ms"),
        ({"threads": None}, "differs: threads 2 → not known"),
    ],
    ids=["threads", "malloc", "loader", "unknown"],
)
def test_conditions_that_differ_are_named(given_b: dict[str, object], line: str) -> None:
    knobs = {"malloc": "glibc"}
    known: dict[str, object] = {"knobs": knobs, "load_s": 0.01}
    one = profile(step(), **known)  # type: ignore[arg-type]
    other = profile(step(), **{**known, **given_b})  # type: ignore[arg-type]
    found = diff(one, other)
    assert answer_lines(found, 3)[1] == line
    assert not is_same(found)


@pytest.mark.parametrize(("share", "is_told"), [(0.02, True), (1e-4, False), (None, False)])
def test_denormal_numbers_are_named_if_there_are_many(share: float | None, is_told: bool) -> None:
    clean = profile(step())
    assert clean.summary.origin
    facts = {"environment": {"denormal_share": share}}
    origin = clean.summary.origin.model_copy(update=facts)
    other = replace(clean, summary=clean.summary.model_copy(update={"origin": origin}))
    lines = answer_lines(diff(clean, other), 3)
    assert ("differs: denormal_share not known → 0.02" in lines) is is_told
    assert is_same(diff(clean, other)) is not is_told


def test_a_profile_against_itself_has_no_difference() -> None:
    found = diff(profile(step()), profile(step()))
    assert is_same(found)
    (line,) = answer_lines(found, 3)
    assert line.startswith("no difference shown: B took 1.00× the time of A, 500 ms a step")


@pytest.mark.parametrize("share", [0.0, 0.05, 0.09])
def test_noise_is_no_difference(share: float) -> None:
    rows = [
        replace(row, self_s=row.self_s * (1 + share)) if isinstance(row, KernelRow) else row
        for row in step()
    ]
    assert is_same(diff(profile(step()), profile(rows)))


@pytest.mark.parametrize(
    ("loads", "line"),
    [
        ((None, 0.3), "note: loading a batch takes 60% of a step more in B, beside the step; the"),
        ((0.3, None), "note: loading a batch takes 60% of a step more in A, beside the step; the"),
        ((None, 0.001), None),
        ((0.000055, 0.000124), None),
        ((0.0, 0.019), None),
        ((0.0, 0.023), "+23 ms  loading a batch, beside the step: 0 ms → 23 ms"),
    ],
)
def test_loading_is_told_by_a_share_of_the_step(
    loads: tuple[float | None, float | None], line: str | None
) -> None:
    one, other = (profile(step(), load_s=load_s) for load_s in loads)
    found = diff(one, other)
    told = [of for of in answer_lines(found, 3) if "loading" in of]
    assert [of[: len(line or "")] for of in told] == ([line] if line else [])
    assert found.load_resolved is (line is not None and "note" not in line)


@pytest.mark.parametrize(
    ("ones", "others"),
    [
        pytest.param(_called(1.0, "aten::mul_"), _called(1.4, "aten::mul_"), id="some windows"),
        pytest.param(_called(75.6, "aten::item"), _called(74.8, "aten::item"), id="few of many"),
        pytest.param(_called(26.6, "detach"), _called(28.4, "detach"), id="not always called"),
    ],
)
def test_calls_that_differ_from_step_to_step_are_no_difference(ones: Rows, others: Rows) -> None:
    assert is_same(diff(profile(ones), profile(others)))


def test_what_is_not_valid_is_said_first() -> None:
    one = profile(step())
    told = {"validity": "INVALID", "reasons": ("it was not quiet",)}
    other = replace(one, summary=one.summary.model_copy(update=told))
    assert answer_lines(diff(one, other), 3)[1] == "note: B is INVALID: it was not quiet"


def on_threads(folder: Path, forward_us: float, backward_us: float, step_us: float) -> Profile:
    """Import a trace of one step, whose gradients are computed beside it, on another thread."""
    events = [
        record("user_annotation", "ProfilerStep#0", 0, step_us, 1),
        record("cpu_op", "aten::linear", 0, forward_us, 1),
        record("cpu_op", "aten::mm", step_us - backward_us, backward_us, 2),
    ]
    path = folder / f"{step_us}.json"
    path.write_text(json.dumps({"traceEvents": sorted(events, key=lambda of: str(of["ts"]))}))
    return import_file(path)


def test_a_step_as_traced_is_compared_and_not_the_sum_over_its_threads(tmp_path: Path) -> None:
    one = on_threads(tmp_path, 60e3, 60e3, 90e3)
    other = on_threads(tmp_path, 30e3, 30e3, 60e3)
    found = diff(one, other)
    assert found.seconds == pytest.approx((0.09, 0.06))
    first, note, *changes = answer_lines(found, 3)
    assert first == "B is 30 ms faster: 60 ms a step against 90 ms, 1.50×"
    assert note == (
        "note: times of changes, phases and modules are sums over threads (2 in A, 2 in B): they "
        "need not add up to the difference of the steps"
    )
    assert changes == [
        "−30 ms  aten::linear: same work, 0.50× the time: 60 ms → 30 ms",
        "−30 ms  aten::mm: same work, 0.50× the time: 60 ms → 30 ms",
        "+0 ms  1 changes too small to tell",
    ]


def test_of_a_trace_that_marks_no_steps_only_its_ops_are_compared(tmp_path: Path) -> None:
    """What is between them is in no part, so that changes would not add up to it."""
    path = tmp_path / "trace.json"
    ops = [record("cpu_op", "aten::mm", start, 1e6, 1) for start in (0, 9e6)]
    path.write_text(json.dumps({"traceEvents": ops}))
    found = diff(import_file(path), import_file(path))
    assert found.seconds == pytest.approx((2.0, 2.0))
    assert sum(change.seconds[0] for change in found.changes) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("threads", "told"), [((1, 1), None), ((1, 2), "1 in A, 2 in B"), ((3, 1), "3 in A, 1 in B")]
)
def test_sums_over_threads_are_called_so(threads: tuple[int, int], told: str | None) -> None:
    plain = profile(step())
    one, other = (
        replace(plain, summary=plain.summary.model_copy(update={"op_threads": count}))
        for count in threads
    )
    notes = [note for note in diff(one, other).notes if "sums over threads" in note]
    assert [told for note in notes if f"({told})" in note] == ([told] if told else notes)


def some_rows() -> st.SearchStrategy[Rows]:
    """Return rows of few places and kinds, so that many of two draws meet."""
    phases, modules = st.sampled_from(["forward", "backward"]), st.sampled_from(["", "a", "b"])
    seconds, calls = up_to(10), up_to(9)
    ops = st.sampled_from(["aten::conv2d", "aten::mm", ""])
    made = st.builds(
        lambda op, s, **told: kernel(op, s, **told), ops, seconds, phase=phases, module=modules
    )
    kinds = st.sampled_from(["convolution", "reorder", "matmul"])
    inside = st.builds(
        lambda row, kind, s, n, dtype: primitive(row.place, kind, s, calls=n, dtype=dtype),
        *(made, kinds, seconds, calls, st.sampled_from(["f32", "bf16"])),
    )
    return st.lists(st.one_of(made, inside), max_size=12)


def summed(found: ProfileDiff, side: int) -> list[float]:
    return [
        sum(of.seconds[side] for of in them)
        for them in (found.changes, found.phases, found.modules)
    ]


@given(some_rows(), some_rows())
def test_every_second_is_in_one_change_one_phase_and_one_module(a: Rows, b: Rows) -> None:
    profiles = profile(a), profile(b)
    found, back = diff(*profiles), diff(profiles[1], profiles[0])
    for side, of in enumerate(profiles):
        whole = sum(part.seconds for part in parts_of(of))
        assert summed(found, side) == pytest.approx([whole] * 3)
        assert summed(back, 1 - side) == pytest.approx([whole] * 3)
    assert is_same(diff(profiles[0], profiles[0]))
