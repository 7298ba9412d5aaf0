"""Events of a trace, by hand: what is an op, in which phase and module, and what stays over."""

from __future__ import annotations

import pytest

from controller.profiles.attribution import ENGINE, PRIMITIVE, Attribution, attribute
from controller.profiles.marks import MODULE, PHASE, STEP
from controller.profiles.model import Place
from controller.profiles.trace import Event


def event(name: str, start: float, seconds: float, **more: object) -> Event:
    given = {"category": "cpu_op", "thread": 1, **more}
    return Event(name=name, start_s=start, seconds=seconds, **given)  # type: ignore[arg-type]


def mark(name: str, start: float, seconds: float) -> Event:
    return event(name, start, seconds, category="user_annotation")


def places(found: Attribution) -> dict[tuple[str, str, str, str], float]:
    """Return the seconds of their own of (phase, module, op, kernel), without zeros."""
    return {
        (place.phase, place.module, place.op, place.kernel): spent.self_s
        for place, spent in found.kernels.items()
        if spent.self_s
    }


def test_a_step_is_taken_apart() -> None:
    found = attribute(
        [
            event("aten::before", 0, 1),
            mark(f"{STEP}0", 10, 10),
            mark(f"{PHASE}forward", 10, 4),
            mark(f"{MODULE}head.conv", 11, 2),
            event("aten::conv2d", 11, 2, sequence=7),
            event("aten::mkldnn_convolution", 11.5, 1),
            event(f"{ENGINE}ConvolutionBackward0", 14, 5, sequence=7, backward=True),
            event("ConvolutionBackward0", 14.5, 4, sequence=7, backward=True),
        ]
    )
    assert found.steps == [10]
    assert found.outside == 1
    assert places(found) == {
        ("", "", "", ""): 1,
        ("forward", "", "", ""): 2,
        ("forward", "head.conv", "aten::conv2d", "aten::conv2d"): 1,
        ("forward", "head.conv", "aten::conv2d", "aten::mkldnn_convolution"): 1,
        ("backward", "head.conv", "", ""): 1,
        ("backward", "head.conv", "ConvolutionBackward0", "ConvolutionBackward0"): 4,
    }
    assert found.explained == pytest.approx(0.6)


def test_threads_beside_each_other_explain_no_more_than_the_time() -> None:
    beside = [event("aten::mm", 0, 10, thread=thread) for thread in (1, 2, 3)]
    assert attribute(beside).explained == pytest.approx(1.0)


def test_what_is_compiled_counts_by_its_kernels() -> None:
    found = attribute(
        [
            mark(f"{STEP}0", 0, 10),
            mark(f"{PHASE}forward", 0, 4),
            mark(f"{MODULE}Net", 0, 4),
            event("Torch-Compiled Region: 0/0", 0, 4),
            event("CompiledFunction", 1, 3, sequence=3),
            event("graph_0_cpp_fused_relu_1", 2, 1),
            event(f"{ENGINE}CompiledFunctionBackward", 5, 4, sequence=3, backward=True),
            event("CompiledFunctionBackward", 5, 4, sequence=3, backward=True),
            event("aten::convolution_backward", 6, 2),
        ]
    )
    fused = "graph_0_cpp_fused_relu_1"
    assert found.explained == pytest.approx(0.3)
    named = {place: seconds for place, seconds in places(found).items() if place[2]}
    backward = "aten::convolution_backward"
    assert named == {
        ("forward", "Net", fused, fused): 1,
        ("backward", "Net", backward, backward): 2,
    }


def test_a_primitive_belongs_to_the_kernel_that_runs_at_its_middle() -> None:
    def ran(middle: float) -> Event:
        return event("body", middle, 0.5, category=PRIMITIVE, thread=0)

    found = attribute(
        [
            mark(f"{STEP}0", 0, 10),
            event("aten::a", 1, 2),
            ran(2.5),
            event("aten::b", 4, 2),
            ran(4.5),
            ran(5.5),
            ran(11),
        ]
    )
    calls = {(place.op, body): spent.calls for (place, body), spent in found.primitives.items()}
    assert calls == {("aten::a", "body"): 1, ("aten::b", "body"): 2}
    assert found.outside == 1


def test_events_out_of_order_are_left_out_and_counted() -> None:
    found = attribute([event("aten::a", 5, 10), event("aten::late", 1, 1)])
    assert found.disordered == 1
    assert found.steps == [10]
    assert list(found.kernels) == [Place(op="aten::a", kernel="aten::a")]


def test_an_event_is_in_what_runs_at_its_middle_and_no_time_counts_twice() -> None:
    found = attribute(
        [
            mark(f"{STEP}0", 0, 10),
            event("aten::a", 1, 3),
            event("aten::b", 3.5, 4),  # begins before the end of a
            event("aten::c", 7, 0.6),  # ends after the end of b
            event("aten::d", 9, 3),  # is after the step
        ]
    )
    assert found.steps == [9]
    assert found.outside == 1
    assert {place.kernel: spent.self_s for place, spent in found.kernels.items()} == pytest.approx(
        {"": 2.5, "aten::a": 2.5, "aten::b": 3.5, "aten::c": 0.5}
    )


def test_loading_a_batch_is_apart_where_the_step_leaves_it_out() -> None:
    events = [
        mark(f"{STEP}0", 0, 10),
        mark(f"{PHASE}load", 0, 4),
        event("aten::randn", 1, 2),
        event("aten::mm", 5, 3),
    ]
    apart, within = attribute(events, load_apart=True), attribute(events)
    assert (apart.steps, apart.load_s, apart.explained) == ([6], 4, 0.5)
    assert places(apart) == {("", "", "", ""): 3, ("", "", "aten::mm", "aten::mm"): 3}
    assert (within.steps, within.load_s, within.explained) == ([10], 0, 0.5)


def test_what_is_around_all_steps_is_in_none() -> None:
    """As `with_stack=True` has it: Python's own functions are around the steps."""
    around = event("train.py(1): main", 0, 100, category="python_function")
    steps = [
        each
        for start in (10, 20)
        for each in (mark(f"{STEP}{start}", start, 5), event("aten::mm", start, 4))
    ]
    found = attribute([around, *steps, event("aten::validate", 30, 60)])
    assert found.steps == [5, 5]
    assert places(found) == {("", "", "aten::mm", "aten::mm"): 8, ("", "", "", ""): 2}
    assert found.explained == pytest.approx(0.8)


def test_a_thread_whose_outer_function_is_older_than_the_step_counts_in_it() -> None:
    found = attribute(
        [
            event("worker", 0, 100, category="python_function", thread=2),
            mark(f"{STEP}0", 10, 10),
            event("aten::mm", 12, 4, thread=2),
            event("aten::mm", 40, 4, thread=2),
        ]
    )
    assert places(found) == {("", "", "aten::mm", "aten::mm"): 4, ("", "", "", ""): 10}
