"""Any step: its modules, ops and kinds are the same parts, and come to the same time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import (
    kernel_rows,
    nested,
    primitive_rows,
    summarised,
    under_roofline,
)
from controller.profiles.attribution import PRIMITIVE, attribute
from controller.profiles.budget import budget_of
from controller.profiles.marks import MODULE, PHASE, STEP
from controller.profiles.model import KernelRow, Place, Profile
from controller.profiles.parts import NO_PHASE
from controller.profiles.trace import Event
from controller.reports.budget_lines import budget_lines
from controller.reports.profile_lines import Lines, kind_lines, module_lines, op_lines
from tests.support.planted_step import CONVOLUTION, REORDER

STEP_S = 0.25
PEAKS = Peaks(gemm_flops={"f32": 1e11}, copy_bytes=1e9)
NAMES = {
    "cpu_op": ("aten::conv2d", "aten::mkldnn_convolution", "aten::mm", "aten::relu"),
    "user_annotation": (f"{MODULE}head", f"{MODULE}body.0", f"{PHASE}loss", "mine"),
    "cuda_runtime": ("cudaStreamSynchronize",),
}
Tree = tuple[str, str, int, list["Tree"], bool]
"""Category, name, milliseconds before what follows in it, what is in it, and whether oneDNN is."""


def trees() -> st.SearchStrategy[list[Tree]]:
    """Return forests of events; a primitive may take longer than the kernel it runs in."""
    kinds = st.sampled_from(sorted((kind, name) for kind, of in NAMES.items() for name in of))
    leaf = st.builds(_node, kinds, st.integers(0, 40), st.just([]), st.booleans())
    return st.lists(
        st.recursive(
            leaf,
            lambda inner: st.builds(
                _node, kinds, st.integers(0, 40), st.lists(inner, max_size=4), st.booleans()
            ),
            max_leaves=12,
        ),
        max_size=6,
    )


def _node(kind: tuple[str, str], own_ms: int, inside: list[Tree], runs_onednn: bool) -> Tree:
    return (*kind, own_ms, [] if kind[0] == "cuda_runtime" else inside, runs_onednn)


def laid_out(forest: list[Tree], start: float, thread: int) -> Iterator[Event]:
    """Yield the events of a forest, one after the other from a start on."""
    for category, name, own_ms, inside, runs_onednn in forest:
        events = list(laid_out(inside, start + own_ms / 2e3, thread))
        end = max([start, *(one.start_s + one.seconds for one in events)]) + own_ms / 1e3
        inputs = "[[16, 16], [16, 16]]", '["float", "float"]'
        of_op = dict(zip(("dims", "dtypes"), inputs, strict=True)) if category == "cpu_op" else {}
        yield Event(name, category, thread, start, end - start, **of_op)  # type: ignore[arg-type]
        if runs_onednn and own_ms:
            body = CONVOLUTION if own_ms % 2 else REORDER
            yield Event(body, PRIMITIVE, 0, start + own_ms / 4e3, own_ms / 1e3)
        yield from events
        start = end


def profile_of(threads: list[list[Tree]], steps: int) -> Profile:
    """Return the profile of some steps that are alike; beside the first thread run others."""
    events: list[Event] = []
    start = 1.0
    for number in range(steps):
        inside = [list(laid_out(of, start, n)) for n, of in enumerate(threads, 1)]
        ends = [one.start_s + one.seconds for one in inside[0] if one.category != PRIMITIVE]
        end = max([start + 0.001, *ends]) + 0.001
        events.append(Event(f"{STEP}{number}", "user_annotation", 1, start, end - start))
        beside = [one for of in inside[1:] for one in of if one.category != PRIMITIVE]
        events += [*inside[0], *beside]
        start = end + 1
    found = attribute(sorted(events, key=lambda one: (one.start_s, -one.seconds)))
    scale = STEP_S * steps / sum(found.steps)
    primitives, strange = primitive_rows(found.primitives, steps, scale)
    assert strange.calls == 0
    kernels, primitives, _ = nested(kernel_rows(found, steps, scale), primitives)
    summary = ProfileSummary(steps=steps, step_s=STEP_S, scale=scale, op_threads=found.threads)
    return under_roofline(summarised(summary, kernels, primitives), PEAKS)


def totals(table: Lines) -> tuple[float, float, float]:
    lines = table.lines
    return (
        sum(line.seconds for line in lines),
        sum(line.headroom_s or 0.0 for line in lines),
        sum(line.share for line in lines),
    )


@given(trees(), st.integers(1, 3))
def test_all_tables_of_a_step_come_to_the_step(forest: list[Tree], steps: int) -> None:
    profile = profile_of([forest], steps)
    headroom_s = profile.summary.headroom_s or 0.0
    expected = (STEP_S, headroom_s, 1.0)
    assert headroom_s <= STEP_S
    assert totals(op_lines(profile)) == pytest.approx(expected)
    for table in (module_lines(profile), kind_lines(profile)):
        assert not table.lines or totals(table) == pytest.approx(expected)
    assert (profile.summary.onednn_s or 0.0) <= STEP_S * (1 + 1e-9)
    assert (profile.summary.waiting_s or 0.0) <= STEP_S * (1 + 1e-9)


@given(trees(), trees())
def test_sums_over_threads_agree_and_no_headroom_is_above_the_step(
    forest: list[Tree], beside: list[Tree]
) -> None:
    profile = profile_of([forest, beside], 1)
    ops = op_lines(profile)
    for table in (module_lines(profile), kind_lines(profile)):
        assert not table.lines or totals(table) == pytest.approx(totals(ops))
        assert ("sum over 2 threads" in table.title) == (profile.summary.op_threads == 2)
    assert (profile.summary.headroom_s or 0.0) <= STEP_S
    if totals(ops)[1] > STEP_S * (1 + 1e-6):
        assert profile.summary.headroom_s is None
        assert "more than the step" in profile.summary.notes[-1]


BETWEEN = ("at_peak_s", "above_roof_s", "no_roof_s", "waiting_s", "in_no_op_s")


@given(trees(), st.integers(1, 3))
def test_a_budget_adds_up_to_the_step_in_every_direction(forest: list[Tree], steps: int) -> None:
    profile = profile_of([forest], steps)
    found = budget_of(profile)
    assert found.step.seconds == pytest.approx(STEP_S)
    assert found.step.above_roof_s == pytest.approx(profile.summary.headroom_s or 0.0)
    assert found.step.waiting_s <= (profile.summary.waiting_s or 0.0) + 1e-9
    for line in (found.step, *found.phases, *found.operations):
        assert sum(getattr(line, name) for name in BETWEEN) == pytest.approx(line.seconds)
    for lines in (found.phases, found.operations):
        for name in ("seconds", *BETWEEN):
            whole = getattr(found.step, name)
            assert sum(getattr(line, name) for line in lines) == pytest.approx(whole, abs=1e-12)
    lost = [line.between_s for line in found.operations]
    assert lost == sorted(lost, reverse=True)


def test_a_budget_tells_what_is_in_between() -> None:
    """Two products of 10 ms in all need 1 ms each by the roofline; a sine has no known roof."""
    kernel = Place(phase="forward", op="aten::mm", kernel="aten::mm")
    sine = Place(phase="backward", op="aten::sin", kernel="aten::sin")
    waiting = Place(phase="backward", kernel="cudaStreamSynchronize")
    profile = Profile(
        summary=ProfileSummary(steps=1, step_s=0.04, op_threads=1),
        kernels=(
            KernelRow(place=kernel, calls=2, self_s=0.01, total_s=0.01, attainable_s=0.001),
            KernelRow(place=sine, calls=1, self_s=0.005, total_s=0.005),
            KernelRow(place=waiting, calls=1, self_s=0.015, total_s=0.015),
            KernelRow(place=Place(), calls=1, self_s=0.01, total_s=0.01),
        ),
        primitives=(),
    )
    found = budget_of(profile)
    phases = {line.phase: line for line in found.phases}
    assert list(phases) == ["forward", "backward", NO_PHASE]
    assert phases["forward"].at_peak_s == pytest.approx(0.002)
    assert phases["forward"].above_roof_s == pytest.approx(0.008)
    assert (phases["backward"].no_roof_s, phases["backward"].waiting_s) == (0.005, 0.015)
    assert phases[NO_PHASE].in_no_op_s == 0.01
    assert found.faster_at_peaks == pytest.approx(0.04 / 0.002)
    assert found.faster_without_headroom == pytest.approx(0.04 / 0.032)
    said = list(budget_lines(found, profile.summary))
    assert (
        said[0]
        == "at the measured peaks: 2 ms of 40 ms, 20.00 times as fast at this cell's threads and "
        "data types, if all else took no time"
    )
    assert said[1] == "without the 8 ms above known roofs alone: 1.25 times as fast"


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_budget_says_what_its_seconds_are_of(steps: int | None, threads: int) -> None:
    """Also as JSON, which has no other place for it."""
    summary = ProfileSummary(
        steps=steps, op_threads=threads, validity="DISTURBED", reasons=("a core was taken",)
    )
    row = KernelRow(place=Place(op="aten::mm"), calls=1, self_s=0.01, total_s=0.01)
    found = budget_of(Profile(summary=summary, kernels=(row,), primitives=()))
    told = found.model_dump(mode="json")
    assert (told["per_step"], told["op_threads"]) == (steps is not None, threads)
    assert (told["validity"], told["reasons"]) == ("DISTURBED", ["a core was taken"])


def test_a_budget_without_roofs_says_so() -> None:
    place = Place(phase="forward", op="aten::mm", kernel="aten::mm")
    profile = Profile(
        summary=ProfileSummary(
            steps=1, step_s=0.01, op_threads=1, validity="INVALID", reasons=("not quiet",)
        ),
        kernels=(KernelRow(place=place, calls=1, self_s=0.01, total_s=0.01),),
        primitives=(),
    )
    found = budget_of(profile)
    assert (found.validity, found.reasons) == ("INVALID", ("not quiet",))
    assert found.faster_at_peaks is None
    reason, none = budget_lines(found, profile.summary)
    assert reason == "INVALID: not quiet"
    assert none.startswith("no roof is known")
