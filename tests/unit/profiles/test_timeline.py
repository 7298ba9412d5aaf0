"""The timeline of a step: which step, which spans, in which lanes; kept, and on the page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from controller.profiles import timeline
from controller.profiles.attribution import PRIMITIVE, Attribution, attribute
from controller.profiles.capturing import profile_of
from controller.profiles.files import TIMELINE, read, write
from controller.profiles.importing import import_file
from controller.profiles.marks import PHASE, STEP
from controller.profiles.model import Place, Span
from controller.profiles.reading import TraceRead
from controller.profiles.trace import Event, TraceFacts
from controller.reports.html.profile import profile_html
from controller.reports.html.timeline import timeline_of
from tests.support.planted_profile import profile, step
from tests.support.planted_step import BODY, HEAD, LOAD_S, STEP_S, planted

ENGINE = "autograd::engine::evaluate_function: ConvolutionBackward0"


def told(spans: tuple[Span, ...]) -> list[tuple[str, str, int]]:
    return [(span.kind, span.name, span.lane) for span in spans]


def test_the_quickest_step_is_kept_with_all_that_ran_in_it(tmp_path: Path) -> None:
    spans = profile_of(planted(tmp_path, verbose=(1.2, 1.1, 1.3))).timeline
    assert told(spans) == [
        ("step", "step", 0),
        ("phase", "load", 1),
        ("op", "aten::randn", 2),
        ("phase", "forward", 1),
        ("module", HEAD, 2),
        ("op", "aten::conv2d", 3),
        ("op", "aten::mkldnn_convolution", 4),
        ("primitive", "reorder", 5),
        ("primitive", "convolution FWD_D", 5),
        ("module", BODY, 2),
        ("op", "aten::relu", 3),
    ]
    assert spans[0].seconds == pytest.approx(LOAD_S + 1.1 * STEP_S)
    by_name = {span.name: span for span in spans}
    assert by_name["forward"].start_s == pytest.approx(LOAD_S, abs=1e-6)
    for inner, outer in zip(spans[2:], spans[1:], strict=False):
        if inner.lane == outer.lane + 1:
            assert inner.start_s >= outer.start_s - 1e-6
            assert inner.start_s + inner.seconds <= outer.start_s + outer.seconds + 1e-6
    assert "mb1_ic16oc16" in by_name["convolution FWD_D"].detail
    assert HEAD in by_name["aten::conv2d"].detail


def event(
    name: str, start_s: float, seconds: float, category: str = "cpu_op", thread: int = 1
) -> Event:
    return Event(name=name, category=category, thread=thread, start_s=start_s, seconds=seconds)


def marked(*inside: Event, seconds: float = 1.0) -> list[Event]:
    return [event(f"{STEP}0", 0.0, seconds, "user_annotation"), *inside]


def test_phases_that_are_not_marked_are_what_follows_one_another() -> None:
    found = attribute(
        marked(
            event(f"{PHASE}loss", 0.1, 0.1, "user_annotation"),
            event(ENGINE, 0.3, 0.1),
            event("aten::convolution_backward", 0.3, 0.1),
            event(ENGINE, 0.45, 0.2),
            event("Optimizer.step#SGD.step", 0.7, 0.1, "user_annotation"),
        )
    )
    phases = [(s.name, s.start_s, s.seconds) for s in found.spans if s.kind == "phase"]
    assert [name for name, *_ in phases] == ["loss", "backward", "optimizer"]
    assert phases[1][1:] == pytest.approx((0.3, 0.35))
    assert ("region", ENGINE, 2) in told(found.spans)
    assert ("op", "aten::convolution_backward", 3) in told(found.spans)


def test_threads_have_lanes_of_their_own() -> None:
    found = attribute(
        marked(event("aten::mm", 0.1, 0.5), event("aten::add", 0.2, 0.1, thread=7), seconds=1.0)
    )
    assert [(s.name, s.thread, s.lane) for s in found.spans if s.kind == "op"] == [
        ("aten::mm", 0, 2),
        ("aten::add", 1, 2),
    ]


def test_a_thread_without_spans_has_no_number() -> None:
    marks = [event(f"{PHASE}loss", 0.1, 0.2, "user_annotation", thread=n) for n in range(3, 9)]
    found = attribute(marked(*marks, event("aten::add", 0.2, 0.1, thread=9)))
    assert {(s.name, s.thread) for s in found.spans} == {("step", 0), ("aten::add", 1)}


def test_a_primitive_stays_inside_its_kernel_though_clocks_differ() -> None:
    late = event("cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0,,,8x8", 0.599, 0.3, PRIMITIVE)
    found = attribute(marked(event("aten::mm", 0.1, 0.5), late))
    (span,) = (s for s in found.spans if s.kind == "primitive")
    assert span.start_s + span.seconds == pytest.approx(0.6)
    assert span.seconds == pytest.approx(0.3)


def test_a_trace_that_marks_no_steps_has_none() -> None:
    assert attribute([event("aten::mm", 0.1, 0.5)]).spans == ()


def test_of_very_many_spans_the_longest_are_kept_and_the_rest_is_counted() -> None:
    many = [
        event("aten::mm", 0.1 + n * 1e-5, 9e-6 if n % 2 else 5e-6)
        for n in range(timeline.MOST_SPANS + 100)
    ]
    found = attribute(marked(*many))
    assert len(found.spans) == timeline.MOST_SPANS
    assert found.short == 101  # the step itself is one, too
    assert [span.start_s for span in found.spans] == sorted(s.start_s for s in found.spans)
    assert min(span.seconds for span in found.spans) == pytest.approx(5e-6)


@dataclass
class Ran:
    """A frame by hand."""

    event: Event
    depth: int = 0
    place: Place = field(default_factory=lambda: Place(op="aten::mm", kernel="aten::mm"))

    @property
    def seconds(self) -> float:
        return self.event.seconds


@pytest.mark.parametrize(("count", "kept"), [(3, 4), (4, 0)])
def test_a_step_of_too_many_events_is_not_kept(count: int, kept: int) -> None:
    recorder = timeline.Recorder(most_frames=3)
    recorder.begin_step(Ran(event(f"{STEP}0", 0.0, 1.0)))
    for number in range(count):
        recorder.take(Ran(event("aten::mm", number * 0.1, 0.05)))
    assert len(recorder.spans()[0]) == kept


@pytest.mark.parametrize(
    ("spans", "steps", "notes"),
    [
        ((), [1.0], ("no timeline: every step has more than 400,000 events",)),
        ((Span("step", "step", "", 0, 0, 0.0, 1.0),), [1.0], ()),
        ((), [], ()),
    ],
)
def test_that_there_is_none_is_said(
    spans: tuple[Span, ...], steps: list[float], notes: tuple[str, ...]
) -> None:
    found = Attribution(steps=steps, spans=spans)
    assert TraceRead("trace.json", found, TraceFacts()).timeline_notes == notes


def test_it_is_kept_in_a_folder_and_read_again(tmp_path: Path) -> None:
    made = profile_of(planted(tmp_path / "planted"))
    write(made, tmp_path / "kept")
    assert read(tmp_path / "kept").timeline == made.timeline
    write(replace(made, timeline=()), tmp_path / "kept")
    assert not (tmp_path / "kept" / TIMELINE).exists()
    assert read(tmp_path / "kept").timeline == ()


def test_an_imported_trace_has_one(tmp_path: Path) -> None:
    captured = planted(tmp_path)
    spans = import_file(captured.trace).timeline
    assert ("module", HEAD, 2) in told(spans)


def test_the_page_has_its_data_once_and_escaped(tmp_path: Path) -> None:
    made = profile_of(planted(tmp_path))
    hostile = replace(made.timeline[-1], name="</script><b>\x1b")
    made = replace(made, timeline=(*made.timeline[:-1], hostile))
    page = profile_html(made, "it")
    assert "</script><b>" not in page
    found = re.search(r'id="timeline-data">(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found[1])
    shown = timeline_of(made)
    assert shown
    assert data == shown.data
    names = [data["texts"][row[1]] for row in data["spans"]]
    assert names[:3] == ["step", "load", "aten::randn"]
    assert "\x1b" not in names[-1]
    assert data["rows"] == [0, 6]
    lengths = {data["texts"][row[1]]: row[5] for row in data["spans"]}
    assert lengths["load"] == round(LOAD_S * 1e7)


def test_a_profile_without_one_has_no_section() -> None:
    page = profile_html(profile(step()), "it")
    assert 'id="timeline"' not in page
    assert "timeline-data" not in page


def test_python_s_functions_around_a_step_and_its_phases_take_no_lanes() -> None:
    around = [event(f"f{n}", -1.0, 9.0, "python_function") for n in range(30)]
    inside = [
        event("train.py(9): update", 0.1, 0.5, "python_function"),
        event("Optimizer.step#SGD.step", 0.2, 0.3, "user_annotation"),
        event("aten::add_", 0.3, 0.1),
    ]
    assert told(attribute([*around, *marked(*inside)]).spans) == [
        ("step", "step", 0),
        ("region", "train.py(9): update", 2),
        ("phase", "optimizer", 1),
        ("region", "Optimizer.step#SGD.step", 3),
        ("op", "aten::add_", 4),
    ]


@pytest.mark.parametrize(
    ("others", "loads", "said"),
    [
        (0.5, True, "The quickest watched step, 1.000 s as watched, with the batch that it loads:"),
        (0.5, False, "The quickest watched step, 1.000 s as watched: 3 spans."),
        (1.1, False, "Other threads go on for 900 ms after it."),
    ],
)
def test_the_page_tells_the_step_s_own_time(others: float, loads: bool, said: str) -> None:
    spans = (
        Span("step", "step", "", 0, 0, 0.0, 1.0),
        Span("phase", "load" if loads else "forward", "", 0, 1, 0.0, 0.1),
        Span("op", "aten::mm", "", 1, 2, 0.8, others - 0.3 if others < 1 else others),
    )
    shown = timeline_of(replace(profile(step()), timeline=spans))
    assert shown
    assert said in shown.caption
    assert ("go on" in shown.caption) == (others > 1)


def test_a_page_draws_so_many_rows_and_says_what_is_left_out() -> None:
    spans = [Span("step", "step", "", 0, 0, 0.0, 1.0)]
    spans += [Span("op", f"t{n}", "", n, lane, 0.1, 0.1) for n in range(1, 6) for lane in range(4)]
    made = replace(profile(step()), timeline=tuple(spans))
    whole, cut = timeline_of(made), timeline_of(made, most_rows=7)
    assert whole
    assert cut
    assert whole.data["rows"] == [0, 1, 5, 9, 13, 17, 21]
    assert "Left out" not in whole.caption
    assert cut.data["rows"] == [0, 1, 5, 7]
    drawn = [row[3] for row in cut.data["spans"] if isinstance(row, list)]
    assert drawn == [0, 1, 2, 3, 4, 5, 6]
    assert ": 7 spans. " in cut.caption
    assert cut.caption.endswith(
        "Left out: the last 14 rows of threads and of what is inside, with 14 spans."
    )
