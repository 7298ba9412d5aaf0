"""Logs, traces and measured profiles of the same steps: what only one records is no difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.contracts.errors import UserError
from controller.profiles.diffing import diff
from controller.profiles.model import KernelRow, Place, PrimitiveRow, Profile
from controller.profiles.parts import parts_of
from controller.reports.profile_diff_lines import answer_lines, is_same
from tests.support.planted_profile import Rows, convolution, kernel, profile, step


def of_log(rows: Rows) -> Profile:
    """Return the profile of a log: primitives alone, without places."""
    inside = [replace(row, place=Place()) for row in rows if isinstance(row, PrimitiveRow)]
    found = profile(inside)
    return replace(found, summary=found.summary.model_copy(update={"step_s": None}))


def of_trace(rows: Rows) -> Profile:
    """Return the profile of a trace, which tells kernels alone and times no step."""
    found = profile([row for row in rows if isinstance(row, KernelRow)])
    # Its primitives are in its kernels' own time.
    kernels = tuple(replace(row, primitive_s=0.0) for row in found.kernels)
    whole = sum(row.self_s for row in kernels)
    told = {"step_s": None, "traced_step_s": whole}
    return replace(found, summary=found.summary.model_copy(update=told), kernels=kernels)


def rows() -> Rows:
    """Return a step whose kernels' time has their reorders in it, as traces do."""
    return [
        replace(row, self_s=row.self_s + 0.01, primitive_s=row.primitive_s + 0.01)
        if isinstance(row, KernelRow) and row.place.op == "aten::conv2d"
        else row
        for row in step()
    ]


@pytest.mark.parametrize("log_is", ["A", "B"])
def test_of_a_log_only_primitives_are_compared(log_is: str) -> None:
    measured, log = profile(rows(), load_s=0.5), of_log(rows())
    pair = (log, measured) if log_is == "A" else (measured, log)
    found = diff(*pair)
    assert found.seconds == pytest.approx((0.318, 0.318))
    assert not any("timed unwatched" in note for note in found.notes), "neither timed step counts"
    assert not any(change.resolved for change in found.changes)
    assert {change.op for change in found.changes} == {"convolution FWD_D", "reorder"}
    assert not found.load_resolved
    first, *notes = answer_lines(found, 3)
    assert first.startswith("no difference shown: B took 1.00× the time of A, 318 ms a step")
    assert notes[0] == (
        f"note: {log_is} has primitives alone, so only primitives are compared, wherever they ran: "
        "the whole is their sum"
    )


@pytest.mark.parametrize("log_is", ["A", "B"])
def test_a_log_is_compared_with_times_as_they_were_watched(log_is: str) -> None:
    """A profile scales them to its plain step, and cuts off what is longer than its kernel."""
    watched = [
        replace(row, seconds=row.seconds * 0.8 * 0.5, least_s=row.least_s * 0.8 * 0.5, kept=0.5)
        if isinstance(row, PrimitiveRow)
        else row
        for row in rows()
    ]
    measured, log = profile(watched), of_log(rows())
    measured = replace(measured, summary=measured.summary.model_copy(update={"scale": 0.8}))
    pair = (log, measured) if log_is == "A" else (measured, log)
    found = diff(*pair)
    assert found.seconds == pytest.approx((0.318, 0.318))
    assert is_same(found)


def test_what_changed_in_a_log_is_named() -> None:
    slower = [
        replace(row, problem="mb4", body="mb4", seconds=0.4)
        if isinstance(row, PrimitiveRow) and row.primitive == "convolution"
        else row
        for row in rows()
    ]
    found = diff(profile(rows()), of_log(slower))
    assert "+502 ms  convolution FWD_D: shapes convolution FWD_D mb2_ic16oc16 → " in "\n".join(
        answer_lines(found, 3)
    )


def test_a_log_and_a_trace_cannot_be_compared() -> None:
    log, trace = of_log(rows()), of_trace(rows())
    with pytest.raises(UserError, match="cannot diff x and y: x has primitives alone, and the"):
        diff(log, trace, ("x", "y"))
    with pytest.raises(UserError, match="cannot diff x and y: y has primitives alone, and the"):
        diff(trace, log, ("x", "y"))


@pytest.mark.parametrize("trace_is", ["A", "B"])
def test_a_trace_has_no_fewer_reorders_than_a_profile(trace_is: str) -> None:
    measured, trace = profile(rows()), of_trace(rows())
    pair = (trace, measured) if trace_is == "A" else (measured, trace)
    found = diff(*pair)
    assert is_same(found)
    assert [change.kind for change in found.changes if change.kind != "same work"] == []
    assert sum(change.seconds[0] for change in found.changes) == pytest.approx(found.seconds[0])
    assert sum(change.seconds[1] for change in found.changes) == pytest.approx(found.seconds[1])
    other = "AB".replace(trace_is, "")
    assert answer_lines(found, 3)[2] == (
        f"note: {trace_is} doesn't tell primitives: in {other}, their time is in the kernels that "
        "ran them, too"
    )


def test_no_primitive_in_a_verbose_run_is_a_fact() -> None:
    plain = [kernel("aten::mm", 0.3)]
    one = profile(plain)
    told = {"verbose_step_s": 0.31}
    watched = replace(one, summary=one.summary.model_copy(update=told))
    found = diff(watched, profile([*plain, *convolution("body.0", 0.2)]))
    assert not any("doesn't tell primitives" in note for note in found.notes)
    found = diff(one, profile([*plain, *convolution("body.0", 0.2)]))
    assert any("A doesn't tell primitives" in note for note in found.notes)


def test_primitives_that_are_in_no_kernel_keep_their_time() -> None:
    matched = profile(rows())
    strange = replace(matched.primitives[0], place=Place(phase="forward"), seconds=0.2)
    measured = replace(matched, primitives=(*matched.primitives, strange))
    found = diff(of_trace(rows()), measured)
    whole = sum(part.seconds for part in parts_of(measured))
    assert sum(change.seconds[1] for change in found.changes) == pytest.approx(whole)


def test_loading_in_a_traced_step_is_not_counted_twice() -> None:
    loading = kernel("", 0.05, phase="load")
    trace = of_trace([*rows(), loading])
    measured = profile(rows(), load_s=0.05)
    for pair in ((trace, measured), (measured, trace)):
        found = diff(*pair)
        assert found.load_s == pytest.approx((0.05, 0.05))
        assert found.seconds == pytest.approx((0.5, 0.5))
        assert is_same(found)
        assert not any(phase.name == "load" for phase in found.phases)
    assert any("A was traced with the loading" in note for note in diff(trace, measured).notes)


def test_loading_that_both_steps_wait_for_is_a_phase() -> None:
    loading = kernel("", 0.05, phase="load")
    found = diff(of_trace([*rows(), loading]), profile([*rows(), loading]))
    assert [phase.seconds for phase in found.phases if phase.name == "load"] == [
        pytest.approx((0.05, 0.05))
    ]
    assert found.load_s == (None, None)
