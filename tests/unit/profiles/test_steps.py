"""Imported files: whose step the times are, what creations took, and where a log is cut off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from controller.contracts.errors import UserError
from controller.contracts.profile import Creation
from controller.profiles.importing import import_file
from controller.profiles.repeating import Order, Repeats
from controller.reports.profile_lines import kind_lines, tables_of
from controller.reports.profile_tables import summary_lines
from tests.support.gpu_trace import STEPS, write_gpu_trace
from tests.support.planted_step import CONVOLUTION, REORDER

RECORDED = Path(__file__).with_name("logs") / "onednn-3.12.log"
LINES = RECORDED.read_text().splitlines(keepends=True)
EXECUTIONS = "".join(line for line in LINES if ",exec," in line)
MS = sum(float(line.rpartition(",")[2]) for line in EXECUTIONS.splitlines())
A, B, C = (
    f"onednn_verbose,v1,primitive,exec,{body},1.5\n"
    for body in (REORDER, CONVOLUTION, REORDER.replace("1x16", "2x16"))
)


def log(folder: Path, text: str) -> Path:
    path = folder / "verbose.log"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "given", "steps", "how"),
    [
        pytest.param(EXECUTIONS, None, None, None, id="once"),
        pytest.param(EXECUTIONS * 2, None, None, None, id="twice, which one step may be, too"),
        pytest.param(EXECUTIONS * 3, None, 3, "3 steps: the log is the same 20 executions", id="3"),
        pytest.param("".join(LINES) * 5, None, 5, "5 steps: the log is the same 20", id="headers"),
        pytest.param(EXECUTIONS * 4 + A, None, None, None, id="one more at the end"),
        pytest.param(A + EXECUTIONS * 4, None, None, None, id="one more at the start"),
        pytest.param((EXECUTIONS * 4)[:-40], None, None, None, id="cut off"),
        pytest.param(A * 100, None, None, None, id="one primitive"),
        pytest.param(
            (A + B + C) * 2 + A + C + B,
            None,
            3,
            "3 steps: the log is the same 3 executions over and over, in other orders; if",
            id="another order",
        ),
        pytest.param((A + B + C) * 2 + A + C + C, None, None, None, id="another primitive"),
        pytest.param((A + B) * 6, None, 6, "6 steps: the log is the same 2 executions", id="short"),
        pytest.param((A + B) * 6, 3, 3, "3 steps, as given with --steps", id="given"),
        pytest.param(EXECUTIONS, 2, 2, "2 steps, as given with --steps", id="given of one"),
    ],
)
def test_steps_are_told_only_when_they_are_certain(
    tmp_path: Path, text: str, given: int | None, steps: int | None, how: str | None
) -> None:
    profile = import_file(log(tmp_path, text), given)
    summary = profile.summary
    assert summary.steps == steps
    assert [note for note in summary.notes if "steps" in note] == (
        [] if how is None else [note for note in summary.notes if note.startswith(how)]
    )
    assert how is None or summary.notes
    of = "in all" if steps is None else "a step"
    assert all(found.title.endswith(of) for found in tables_of(profile))
    told = "\n".join(summary_lines(summary))
    assert f" {of} in primitives" in told
    assert ("give --steps" in told) == (steps is None)
    counted = text.count(",exec,") - (not text.endswith("\n"))
    calls = sum(line.calls for line in kind_lines(profile).lines)
    assert calls == pytest.approx(counted / (steps or 1))


def test_the_time_of_a_step_is_the_log_s_by_its_steps(tmp_path: Path) -> None:
    assert import_file(log(tmp_path, EXECUTIONS * 7)).summary.onednn_s == pytest.approx(MS / 1e3)


def created(how: str, ms: float, release: str = "onednn_verbose,v1,17.5,primitive") -> str:
    return f"{release},{how},{CONVOLUTION},{ms}\n"


def test_creations_are_counted_apart(tmp_path: Path) -> None:
    told = (
        created("create:cache_miss", 13.25)
        + created("create:cache_hit", 0.0625)
        + created("create:cache_hit", 0.0625)
        + created("create:cache_miss", 1.75, "dnnl_verbose")
        + created("create", 4.0, "mkldnn_verbose")
        + "onednn_verbose,v1,primitive,create:dispatch,brgemm_matmul,unsupported,a.cpp:12\n"
    )
    found = import_file(log(tmp_path, told + EXECUTIONS * 3)).summary
    assert found.created == (
        Creation(kind="cache_miss", calls=2, seconds=0.015),
        Creation(kind="", calls=1, seconds=0.004),
        Creation(kind="cache_hit", calls=2, seconds=0.000125),
    )
    assert found.skipped == 0
    assert found.onednn_s == pytest.approx(MS / 1e3)
    (line,) = [line for line in summary_lines(found) if line.startswith("creating")]
    assert line == (
        "creating primitives, in all and in no figure above: "
        "2 cache_miss 15 ms, 1 creations 4 ms, 2 cache_hit 0.125 ms"
    )


@pytest.mark.parametrize(
    ("text", "torn"),
    [
        (EXECUTIONS, False),
        (EXECUTIONS[:-1], True),
        (EXECUTIONS[:-3], True),
        (EXECUTIONS[:-60], True),
        (EXECUTIONS + "onednn_ver", True),
        (EXECUTIONS + "done\n", False),
    ],
)
def test_a_log_that_is_cut_off_says_so(tmp_path: Path, text: str, torn: bool) -> None:
    notes = import_file(log(tmp_path, text)).summary.notes
    assert any("ends in the middle of a line" in note for note in notes) is torn


def test_a_trace_knows_its_steps_or_is_told_them(tmp_path: Path) -> None:
    marked = write_gpu_trace(tmp_path / "marked.json")
    assert import_file(marked, STEPS).summary == import_file(marked).summary
    with pytest.raises(UserError, match=r"--steps 7: the trace marks 2 steps itself\. Leave"):
        import_file(marked, 7)
    op = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "name": "aten::mm", "ts": 0, "dur": 6000}
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({"traceEvents": [op]}))
    for given, seconds in ((None, 6e-3), (3, 2e-3)):
        profile = import_file(bare, given)
        assert profile.summary.steps == given
        assert profile.summary.traced_step_s == pytest.approx(seconds)
        (table,) = tables_of(profile)
        assert table.lines[0].seconds == pytest.approx(seconds)
        assert table.title.endswith("in all" if given is None else "a step")


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ((), None),
        (([0, 1], [0, 1], [0, 1]), Repeats(2, 3)),
        (([0, 1, 0], [1, 0, 1]), Repeats(2, 3)),
        (([0, 0, 1], [0, 0, 1], [0, 0, 1]), Repeats(3, 3)),
        (([0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 0]), None),
        (([0, 1, 2], [0, 2, 1], [0, 1, 2]), Repeats(3, 3, in_order=False)),
        (([0, 1, 1, 2], [0, 1, 2, 1], [0, 1, 1, 2]), Repeats(4, 3, in_order=False)),
        (([0, 1, 2], [0, 2, 1]), None),
        (([0, 0, 1], [1, 2, 2], [0, 1, 2]), None),
    ],
)
def test_repeats_are_found_across_chunks(
    chunks: Sequence[Sequence[int]], expected: Repeats | None
) -> None:
    order = Order()
    for chunk in chunks:
        # Each chunk numbers the bodies that appear in it in its own way.
        bodies = sorted({str(one).encode() for one in chunk}, reverse=len(chunk) % 2 == 0)
        order.add(bodies, np.array([bodies.index(str(one).encode()) for one in chunk]))
    assert order.repeats() == expected
