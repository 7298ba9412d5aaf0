"""Imported files as they come: beside other output, cut off, damaged, with steps that can't be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.contracts.profile import ProfileSummary
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.files import read, write
from controller.profiles.importing import import_file
from controller.profiles.verbose import MAX_EXAMPLE
from controller.reports.profile_tables import summary_lines
from tests.support.gpu_trace import step
from tests.support.planted_step import CONVOLUTION, REORDER

EXECUTION = "onednn_verbose,v1,primitive,exec,"
A, B = (f"{EXECUTION}{body},1.5\n" for body in (REORDER, CONVOLUTION))


def written(folder: Path, content: bytes | str, name: str = "verbose.log") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "beside",
    [
        "[W1023 12:00:00.1 socket.cpp:1] Warning: no address\n",
        "[rank0]: begun\n",
        "[2026-01-01 12:00:00,000] INFO: begun\n",
        "[] no devices\n",
        "{'loss': 0.5}\n",
        '{"level": "info", "message": "begun"}\n',
        '{"level": "info"}\n' * 70_000,
        '["info", "begun"]\n',
        '{"traceEvents": []}\n',
        "\n\n  {\n",
    ],
    ids=lambda text: text.strip()[:20],
)
def test_a_log_may_begin_with_what_others_printed(tmp_path: Path, beside: str) -> None:
    profile = import_file(written(tmp_path, beside + A + B))
    assert {row.primitive: row.calls for row in profile.primitives} == {
        "reorder": 1,
        "convolution": 1,
    }
    assert profile.summary.skipped == len(beside.strip().splitlines())


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("[W1023 12:00:00.1 socket.cpp:1] Warning\n", 'the log contains no "primitive,exec" line'),
        ('{"level": "info"}\n{"level": "info"}\n', "broken JSON"),
        ('{"traceEvents": [{"ph": "X", "name": "onednn_verbose,exec"}, {"ph"', "broken JSON"),
        ('{"traceEvents": [{"ph": "X", "name": "\\udc00"}]}', "broken JSON"),
        ('{"traceEvents": [{"name": "a\\nonednn_verbose,v1"}]}', "it has no events"),
    ],
)
def test_a_file_that_is_neither_says_why(tmp_path: Path, content: str, seen: str) -> None:
    with pytest.raises(ProfileUnreadable, match=seen):
        import_file(written(tmp_path, content))


@pytest.mark.parametrize("prefix", ["[0] ", "[1,0]<stdout>:", "[default0]:", "0: "])
def test_lines_with_something_before_the_marker_are_refused_for_that(
    tmp_path: Path, prefix: str
) -> None:
    """As mpirun, torchrun and srun mark which process has printed a line."""
    path = written(tmp_path, "begun\n" + "".join(f"{prefix}{line}" for line in (A, B)))
    with pytest.raises(ProfileUnreadable) as refused:
        import_file(path)
    assert str(refused.value) == (
        f"cannot read {path}: its lines have something before onednn_verbose, such as {prefix!r}. "
        "Give the lines of one process, each from onednn_verbose on."
    )


UNKNOWN = ("cpu,convolution,jit,forward,src_f32,,alg:direct,mb1", "npu,matmul,x,undef,,,,1x1:1x1")
STRANGE = [f"{EXECUTION}{body},1.5\n" for body in UNKNOWN]


def test_executions_whose_descriptions_are_all_unknown_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, "begun\n" + "".join(STRANGE) * 1000)
    with pytest.raises(ProfileUnreadable) as refused:
        import_file(path)
    assert str(refused.value) == (
        f"cannot read {path}: none of its 2,000 executions has a description that is known; the "
        f"first is {UNKNOWN[0]!r}. Give a log as oneDNN 1.x to 3.x has printed it, or a trace of "
        "torch.profiler."
    )


def test_the_first_execution_with_an_unknown_description_is_shown(tmp_path: Path) -> None:
    summary = import_file(written(tmp_path, A + B + "".join(STRANGE))).summary
    assert (summary.skipped, summary.example) == (2, UNKNOWN[0])
    assert f"skipped 2, the first: {UNKNOWN[0]}" in summary_lines(summary)


def test_a_long_description_that_is_unknown_is_cut(tmp_path: Path) -> None:
    long = f"{EXECUTION}{'x' * 100_000}{UNKNOWN[0]},1.5\n"
    assert import_file(written(tmp_path, A + long)).summary.example == "x" * MAX_EXAMPLE


def test_what_was_skipped_without_an_example_is_only_counted() -> None:
    assert "skipped 3" in summary_lines(ProfileSummary(steps=1, skipped=3))


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_log_may_begin_with_a_byte_order_mark(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    summary = import_file(written(tmp_path, pack(BOM + (A + B).encode()))).summary
    assert summary.skipped == 0
    assert sum(one.calls for one in summary.top) == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_trace_may_begin_with_a_byte_order_mark(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    ops = [op for number in range(3) for op in step(number)[0]]
    trace = json.dumps({"traceEvents": ops}).encode()
    marked, plain = (
        import_file(written(tmp_path, pack(text), "trace.json")) for text in (BOM + trace, trace)
    )
    assert marked == plain
    assert marked.kernels


LOG = (A + B) * 1000


@pytest.mark.parametrize(
    ("text", "steps", "seen", "remedy"),
    [
        (
            *(
                LOG,
                3,
                "the log is the same 2 executions 1,000 times, and 1,000 is no multiple of 3",
            ),
            "Give a number that divides 1,000, such as 2 or 4",
        ),
        (
            *(LOG, 7000),
            "the log is the same 2 executions 1,000 times, and 1,000 is no multiple of 7,000",
            "Give a number that divides 1,000, such as 1,000",
        ),
        (
            *(A + B, 3, "the log has 2 executions, which are less than one a step"),
            "Give another number",
        ),
    ],
    ids=["no divisor", "more than repeats", "more than executions"],
)
def test_steps_that_a_log_cannot_have_are_refused(
    tmp_path: Path, text: str, steps: int, seen: str, remedy: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as refused:
        import_file(path, steps)
    assert str(refused.value) == (
        f"cannot import {path} with --steps {steps}: {seen}. {remedy}, or leave --steps out."
    )


@pytest.mark.parametrize(("text", "steps"), [(LOG, 500), (LOG, 1), (A + B, 2), (A + B, 1)])
def test_steps_that_a_log_can_have_are_taken(tmp_path: Path, text: str, steps: int) -> None:
    profile = import_file(written(tmp_path, text), steps)
    assert sum(row.calls for row in profile.primitives) == text.count("\n") / steps


@pytest.mark.parametrize(
    ("digits", "threads"), [("16", 16), ("9" * 6, 999_999), ("9" * 5000, None)]
)
def test_threads_are_told_by_a_number_that_a_machine_may_have(
    tmp_path: Path, digits: str, threads: int | None
) -> None:
    header = f"onednn_verbose,info,cpu,runtime:OpenMP,nthr:{digits}\n"
    origin = import_file(written(tmp_path, header + A)).summary.origin
    assert origin
    assert origin.threads == threads
    assert origin.environment["onednn_runtime"] == "OpenMP"


def test_a_size_that_no_table_holds_is_no_parameter(tmp_path: Path) -> None:
    body = (
        "cpu,matmul,brg:avx2,undef,src:f32::blocked:abcd::f0 wei:f32::blocked:abcd::f0 "
        "dst:f32::blocked:abcd::f0,,,999999999999x999999999999x3x4:1x1x4x5"
    )
    profile = import_file(written(tmp_path, f"{EXECUTION}{body},1.5\n"))
    write(profile, tmp_path / "kept")
    (row,) = read(tmp_path / "kept").primitives
    assert row == profile.primitives[0]
    assert row.parameters == {"m": 3, "n": 5, "k": 4}


def test_bodies_that_are_read_as_the_same_text_are_added_up(tmp_path: Path) -> None:
    first, second = (
        EXECUTION.encode() + REORDER.replace("jit:", "j?:").encode().replace(b"?", odd) + ms
        for odd, ms in ((b"\xff", b",1.5\n"), (b"\xfe", b",2.5\n"))
    )
    profile = import_file(written(tmp_path, first + second))
    assert profile.summary.onednn_s == pytest.approx(4.0e-3)
    (row,) = profile.primitives
    assert row.calls == 2
    assert row.least_s == pytest.approx(1.5e-3)


def cut(path: Path, share: float) -> Path:
    """Return the file as gzip, of which so much is left."""
    packed = gzip.compress(path.read_bytes())
    return written(path.parent, packed[: int(share * len(packed))], f"{path.name}.gz")


DIFFERENT = "".join(
    f"{EXECUTION}{CONVOLUTION.replace('mb1', f'mb{n}')},1.{n}\n" for n in range(1, 500)
)


def test_a_log_whose_gzip_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    summary = import_file(cut(written(tmp_path, DIFFERENT), 0.5)).summary
    (kind,) = summary.top
    assert 100 < kind.calls < 400
    assert "verbose.log.gz ends in the middle of its gzip data" in summary.notes


def test_a_trace_whose_gzip_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    ops = [op for number in range(200) for op in step(number)[0]]
    path = written(tmp_path, json.dumps({"traceEvents": ops}), "trace.json")
    summary = import_file(cut(path, 0.5)).summary
    assert 50 < (summary.steps or 0) < 150
    assert "trace.json.gz ends in the middle of the trace" in summary.notes


@pytest.mark.parametrize("left", [5, 10])
def test_a_gzip_that_is_cut_off_before_its_content_is_not_called_empty(
    tmp_path: Path, left: int
) -> None:
    path = written(tmp_path, gzip.compress(A.encode())[:left])
    with pytest.raises(ProfileUnreadable, match="its gzip data ends before any content"):
        import_file(path)


def test_a_gzip_that_is_damaged_inside_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(DIFFERENT.encode()))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(ProfileUnreadable, match=r"cannot read .*\.log: "):
        import_file(written(tmp_path, bytes(packed)))
