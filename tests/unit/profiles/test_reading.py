"""Files of traces as torch.profiler writes them: in which order, and what is told if one is cut."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from controller.profiles.capturing import profile_of
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.importing import import_file
from controller.profiles.trace import MOST_CATEGORIES
from tests.support.recorded_profiles import captured

VERBOSE = (
    "onednn_verbose,v1,1000000.5,primitive,exec,cpu,reorder,jit:uni,undef,"
    "src:f32::blocked:ab::f0 dst:f32::blocked:ba::f0,,,2x3,0.1\n"
)


def event(category: str, name: str, started_us: float, us: float) -> dict[str, object]:
    args = {"Sequence number": 7} if name == "aten::conv2d" else {}
    known = {"ph": "X", "pid": 1, "tid": 1, "cat": category, "name": name, "args": args}
    return {**known, "ts": started_us, "dur": us}


WITH_STACK = [
    event("cpu_op", "aten::conv2d", 20, 30),
    event("cpu_op", "aten::relu", 60, 10),
    event("python_function", "train.py(3): step", 0, 100),
    event("python_function", "nn.Module: Net_0", 10, 80),
    event("python_function", "nn.Module: Conv2d_0", 20, 32),
    event("python_function", "nn.Module: ReLU_0", 58, 20),
]
"""`with_stack=True`: Python's functions come after all ops, though they began before them."""


def written(path: Path, events: list[dict[str, object]], cut: int = 0) -> Path:
    text = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    path.write_bytes(text[: len(text) - cut])
    return path


def modules(path: Path) -> dict[str, str]:
    return {row.place.kernel: row.place.module for row in import_file(path).kernels if row.place.op}


def test_modules_of_torch_itself_are_found(tmp_path: Path) -> None:
    plain = written(tmp_path / "trace.json", WITH_STACK)
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    expected = {"aten::conv2d": "Net_0.Conv2d_0", "aten::relu": "Net_0.ReLU_0"}
    assert modules(plain) == modules(packed) == expected
    summary = import_file(plain).summary
    assert (summary.skipped, summary.notes) == (0, ())
    assert summary.traced_step_s == pytest.approx(100e-6)


def test_what_is_broken_is_counted_once(tmp_path: Path) -> None:
    broken = event("python_function", "f", 0, 1) | {"dur": "long"}
    path = written(tmp_path / "trace.json", [*WITH_STACK, broken, {"ph": "X", "name": "no kind"}])
    assert import_file(path).summary.skipped == 2


def test_categories_without_end_are_counted_together(tmp_path: Path) -> None:
    others = [event(f"made up {number}", "x", 30, 1) for number in range(1000)]
    path = written(tmp_path / "trace.json", [*WITH_STACK, *others])
    left_out = import_file(path).summary.left_out
    assert len(left_out) == MOST_CATEGORIES + 1
    assert sum(left_out.values()) == 1000


def test_an_event_out_of_order_is_shown(tmp_path: Path) -> None:
    late = event("cpu_op", "aten::late", 1, 2)
    summary = import_file(written(tmp_path / "trace.json", [*WITH_STACK, late])).summary
    assert (summary.skipped, summary.example) == (1, "aten::late")


@pytest.mark.parametrize("watched", ["trace", "verbose_trace"])
def test_a_capture_that_a_full_disk_cut_says_so(tmp_path: Path, watched: str) -> None:
    ops = [event("cpu_op", f"aten::{name}", start, 5) for start, name in enumerate("abc")]
    written(tmp_path / "trace.json", ops)
    cut = written(tmp_path / "cut.json", [*ops[::-1], ops[0]], cut=20)
    (tmp_path / "verbose.log").write_text(VERBOSE)
    files = captured(tmp_path)
    of_trace, of_verbose = replace(files, trace=cut), replace(files, verbose_trace=cut)
    found = profile_of(of_trace if watched == "trace" else of_verbose).summary
    assert found.notes == (
        "cut.json ends in the middle of the trace",
        "2 events of cut.json are out of order, and left out",
    )
    assert (found.skipped, found.example) == (2, "aten::b")


STEPS = [
    one
    for start in (0, 100)
    for one in (
        event("user_annotation", f"ProfilerStep#{start}", start, 90),
        event("cpu_op", "aten::mm", start, 80),
    )
]


HALF = "'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte"
BROKEN = "trace.json has broken JSON, behind which it is not read"


@pytest.mark.parametrize(
    ("end", "note"),
    [
        (b"", "trace.json ends in the middle of the trace"),
        (
            b'{"ph": "X", "dur": inf}]}',
            f"{BROKEN}: lexical error: invalid char in json text.",
        ),
        (
            rb'{"ph": "X", "name": "\udc00"}]}',
            f"{BROKEN}: {HALF}",
        ),
    ],
)
def test_the_step_in_which_a_trace_is_cut_does_not_count(
    tmp_path: Path, end: bytes, note: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(json.dumps({"traceEvents": STEPS[:3]}).encode()[:-2] + b", " + end)
    found = import_file(path)
    assert found.summary.notes == (
        note,
        "last steps of trace.json that may lack events are left out: 1",
    )
    assert found.summary.steps == 1
    assert found.summary.explained == pytest.approx(80 / 90)
    assert {row.place.op: row.calls for row in found.kernels if row.place.op} == {"aten::mm": 1}


def test_one_step_that_is_cut_is_better_than_none(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", STEPS[:2], cut=2)
    summary = import_file(path).summary
    assert (summary.steps, summary.notes) == (1, ("trace.json ends in the middle of the trace",))


@pytest.mark.parametrize(
    "told",
    [{"dur": -500}, {"dur": 1e308}, {"dur": 1e12}, {"ts": 1e300}, {"ts": -1e20}, {"dur": "NaN"}],
    ids=str,
)
def test_times_that_no_program_takes_are_skipped(tmp_path: Path, told: dict[str, object]) -> None:
    strange = event("cpu_op", "aten::t", 10, 1) | told
    found = import_file(written(tmp_path / "trace.json", [*STEPS[:2], strange]))
    assert found.summary.skipped == 1
    assert '"aten::t"' in str(found.summary.example)
    assert {row.place.op: row.self_s for row in found.kernels} == {
        "": pytest.approx(10e-6),
        "aten::mm": pytest.approx(80e-6),
    }


def test_traces_of_two_processes_in_one_file_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", [*STEPS[:2], *(one | {"pid": 2} for one in STEPS[2:])])
    with pytest.raises(ProfileUnreadable) as refused:
        import_file(path)
    assert "it has ops of two processes, 1 and 2. Give a trace of one process." in str(
        refused.value
    )


def test_steps_whose_python_functions_are_cut_off_do_not_count(tmp_path: Path) -> None:
    """Ops of four steps, and functions of three: the third may have had more of them."""
    starts = range(0, 400, 100)
    steps = [event("user_annotation", f"ProfilerStep#{start}", start, 80) for start in starts]
    ops = [event("cpu_op", "aten::mm", start + 10, 60) for start in starts]
    python = [event("python_function", "nn.Module: Net_0", start, 80) for start in starts]
    both = [one for pair in zip(steps, ops, strict=True) for one in pair]
    cut = written(tmp_path / "trace.json", [*both, *python], cut=60)
    assert import_file(cut, steps=4) == import_file(cut)
    found = import_file(cut)
    assert found.summary.steps == 2
    assert found.summary.notes == (
        "trace.json ends in the middle of the trace",
        "last steps of trace.json that may lack events are left out: 2",
        "trace.json may lack modules and waiting: Python's functions are its end",
    )
    assert modules(cut) == {"aten::mm": "Net_0"}
