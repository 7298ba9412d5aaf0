"""Files of traces as torch.profiler writes them: in which order, and what is told if one is cut."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from controller.profiles.capturing import profile_of
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
    expected = {"aten::conv2d": "Net_0/Conv2d_0", "aten::relu": "Net_0/ReLU_0"}
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
