"""Folders that hold no profile, or a part of one: the complaint names the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import primitive_rows, under_roofline
from controller.profiles.attribution import Spent
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.files import (
    KERNELS,
    MAX_TABLE_BYTES,
    MOST_ROWS,
    PRIMITIVES,
    SUMMARY,
    TIMELINE,
    read,
    write,
)
from controller.profiles.model import Place, Profile, Span
from controller.profiles.timeline import MOST_SPANS
from controller.profiles.trace import MOST_S
from tests.support.planted_profile import profile, step


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(Profile(ProfileSummary(steps=1), (), ()), tmp_path)
    return tmp_path


def complaint(folder: Path) -> str:
    with pytest.raises(ProfileUnreadable) as caught:
        read(folder)
    return caught.value.seen


@pytest.mark.parametrize("name", [SUMMARY, KERNELS, PRIMITIVES])
def test_a_file_that_is_missing_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert complaint(folder) == f"{name}: No such file or directory"


@pytest.mark.parametrize("name", [SUMMARY, KERNELS, PRIMITIVES])
def test_a_file_that_cannot_be_opened_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    assert complaint(folder) == f"{name}: Is a directory"


def test_a_file_that_may_not_be_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(
            13, "Failed to open local file: Permission denied"
        )  # as pyarrow has it

    monkeypatch.setattr(pq, "ParquetFile", refused)
    assert complaint(folder) == f"{KERNELS}: Failed to open local file: Permission denied"


@pytest.mark.parametrize("name", [SUMMARY, KERNELS, PRIMITIVES])
def test_a_broken_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"PAR1 nonsense PAR1")
    assert complaint(folder).startswith(f"{name}: ")


@pytest.mark.parametrize("name", [SUMMARY, KERNELS, PRIMITIVES, TIMELINE])
def test_what_has_no_end_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert complaint(folder) == f"{name}: it is no regular file"
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert complaint(folder) == f"{name}: it is no regular file"


@pytest.mark.parametrize("name", [KERNELS, PRIMITIVES, TIMELINE])
def test_a_table_that_is_too_large_is_refused_before_it_is_read(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.truncate(MAX_TABLE_BYTES + 1)
    assert complaint(folder) == f"{name}: it has more than {MAX_TABLE_BYTES} bytes"


def test_a_linked_file_is_read(rows: Path) -> None:
    before = read(rows)
    (rows / KERNELS).rename(rows / "elsewhere")
    (rows / KERNELS).symlink_to("elsewhere")
    assert read(rows) == before


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """The folder of a profile that has some."""
    write(profile(step()), tmp_path)
    return tmp_path


def rewrite(
    folder: Path, change: Callable[[pa.Table], pa.Table], name: str = KERNELS, **how: int
) -> None:
    """Write a table again, changed."""
    table = pq.read_table(folder / name)
    pq.write_table(change(table), folder / name, write_page_checksum=True, **how)


def test_what_was_cut_off_a_primitive_is_kept_and_nothing_by_an_earlier_release(
    tmp_path: Path,
) -> None:
    made = profile(step())
    cut = tuple(replace(row, kept=0.25) for row in made.primitives)
    write(replace(made, primitives=cut), tmp_path)
    assert [row.kept for row in read(tmp_path).primitives] == [0.25] * len(cut)
    rewrite(tmp_path, lambda table: table.drop_columns(["kept"]), PRIMITIVES)
    assert [row.kept for row in read(tmp_path).primitives] == [1.0] * len(cut)


def test_columns_of_a_later_release_are_empty_in_an_earlier_one(rows: Path) -> None:
    before = read(rows)
    rewrite(rows, lambda table: table.drop_columns(["values", "strides", "flops"]))
    found = read(rows).kernels
    assert [row.place.op for row in found] == [row.place.op for row in before.kernels]
    told = {(row.place.values, row.place.strides, row.flops) for row in found}
    assert told == {("", "", None)}


def test_several_groups_of_rows_are_one_table(rows: Path) -> None:
    before = read(rows)
    rewrite(rows, lambda table: table, row_group_size=2)
    assert pq.ParquetFile(rows / KERNELS).num_row_groups > 2
    assert read(rows) == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda t: t.append_column("op", t.column("op")), "two of its columns have one name"),
        (lambda t: t.set_column(0, t.column_names[0], pa.array([[1]] * len(t))), ""),
        (lambda t: t.set_column(0, t.column_names[0], pa.array([{"x": "y"}] * len(t))), ""),
        (
            lambda t: t.set_column(
                t.column_names.index("calls"), "calls", pa.array(["many"] * len(t))
            ),
            "",
        ),
    ],
    ids=["twice", "a list", "a structure", "words for numbers"],
)
def test_a_table_of_other_columns_is_named(
    rows: Path, change: Callable[[pa.Table], pa.Table], why: str
) -> None:
    rewrite(rows, change)
    assert complaint(rows).startswith(f"{KERNELS}: {why}")


WITHOUT_RATES: list[dict[str, Any]] = [
    {"gemm_flops": {"f32": 0.0}, "copy_bytes": 1e10},
    {"gemm_flops": {"f32": -1e11}, "copy_bytes": 1e10},
    {"gemm_flops": {}, "copy_bytes": 0.0},
    {"gemm_flops": {}, "copy_bytes": 1e10, "update_bytes": 0.0},
    {"gemm_flops": {"f32": 1e300}, "copy_bytes": 1e10},
    {"gemm_flops": {}, "copy_bytes": 5e-324},
]
NUMBERS = [
    *((KERNELS, name) for name in ("calls", "self_s", "total_s", "primitive_s")),
    *((PRIMITIVES, name) for name in ("calls", "seconds", "least_s")),
    *((TIMELINE, name) for name in ("thread", "lane", "start_s", "seconds")),
]


def with_first(name: str, value: float | None) -> Callable[[pa.Table], pa.Table]:
    """Return a change of the first value of a column."""

    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        values = [value, *table.column(name).to_pylist()[1:]]
        return table.set_column(place, name, pa.array(values))

    return change


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """The folder of a profile with a timeline."""
    made = profile(step())
    spans = tuple(Span("op", "aten::mm", "", 0, lane, 0.0, 1.0) for lane in range(3))
    write(replace(made, timeline=spans), tmp_path)
    return tmp_path


@pytest.mark.parametrize(("file", "name"), NUMBERS)
def test_a_number_that_is_missing_is_named(watched: Path, file: str, name: str) -> None:
    rewrite(watched, with_first(name, None), file)
    assert complaint(watched) == f'{file}: column "{name}" lacks values'
    rewrite(watched, lambda table: table.drop_columns([name]), file)
    assert complaint(watched) == f'{file}: column "{name}" lacks values'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("file", "name"),
    [
        *(each for each in NUMBERS if each[1] not in ("thread", "lane")),
        *((file, name) for file in (KERNELS, PRIMITIVES) for name in ("flops", "replay_s")),
    ],
)
def test_a_number_that_is_none_is_named(watched: Path, file: str, name: str, value: float) -> None:
    rewrite(watched, with_first(name, value), file)
    assert complaint(watched) == f'{file}: column "{name}" has values that are no numbers'


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("thread", value) for value in (-1, -7, 4, 10_000_000)),
        *(("lane", value) for value in (-1, -7, 7, 10_000_000)),  # 6: under steps, phases and 3
        *(("start_s", value) for value in (1e305, -1e305, 2 * MOST_S)),
        *(("seconds", value) for value in (1e305, -0.5, 2 * MOST_S)),
    ],
)
def test_a_span_that_no_step_has_is_refused(watched: Path, name: str, value: float) -> None:
    rewrite(watched, with_first(name, value), TIMELINE)
    assert complaint(watched) == f'{TIMELINE}: column "{name}" has values that no step has'


@pytest.mark.parametrize(
    ("name", "value"), [("lane", 3), ("thread", 2), ("start_s", -0.5), ("seconds", -1e-9)]
)
def test_spans_of_other_threads_and_rounded_ones_are_read(
    watched: Path, name: str, value: float
) -> None:
    rewrite(watched, with_first(name, value), TIMELINE)
    assert getattr(read(watched).timeline[0], name) == value


def test_a_primitive_straight_in_the_step_is_read(watched: Path) -> None:
    """Its lane is under those of the step, of phases and of operations, whether there are any."""
    spans = Span("step", "", "", 0, 0, 0.0, 1.0), Span("primitive", "matmul", "", 0, 3, 0.0, 1.0)
    write(replace(profile(step()), timeline=spans), watched)
    assert read(watched).timeline == spans


def test_more_spans_than_a_timeline_has_are_refused(watched: Path) -> None:
    rewrite(watched, lambda table: pa.concat_tables([table] * (MOST_SPANS // 3 + 1)), TIMELINE)
    assert complaint(watched).startswith(f"{TIMELINE}: it has 20,001 spans, more than the 20,000")


@pytest.mark.parametrize("name", [KERNELS, PRIMITIVES])
def test_more_rows_than_a_profile_has_are_refused_before_they_are_read(
    watched: Path, name: str
) -> None:
    """A constant column of any length takes a few bytes of a file."""
    rewrite(watched, lambda _: pa.table({"op": pa.repeat("aten::mm", MOST_ROWS + 1)}), name)
    assert (watched / name).stat().st_size < 10_000
    why = f"{name}: it has 1,000,001 rows, more than the 1,000,000 that are read"
    assert complaint(watched) == why


def test_a_file_that_tells_of_fewer_rows_than_it_has_is_refused(watched: Path) -> None:
    """Arrow reads as many as the chunks of its columns tell."""
    rewrite(watched, lambda _: pa.table({"op": pa.repeat("aten::mm", MOST_ROWS + 1)}))
    content = (watched / KERNELS).read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    first = content.index(_encoded(MOST_ROWS + 1), footer)
    few = _encoded(12_345)
    (watched / KERNELS).write_bytes(content[:first] + few + content[first + len(few) :])
    assert pq.read_metadata(watched / KERNELS).num_rows == 12_345
    assert complaint(watched).startswith(f"{KERNELS}: it has 1,000,001 rows")


def _encoded(number: int) -> bytes:
    """Return a number as a Parquet file has it: zigzag, seven bits a byte."""
    left, found = 2 * number, []
    while left > 127:
        found.append(128 | left & 127)
        left >>= 7
    return bytes([*found, left])


SECONDS = [
    *((KERNELS, name) for name in ("self_s", "total_s", "primitive_s")),
    *((PRIMITIVES, name) for name in ("seconds", "least_s")),
    *((file, name) for file in (KERNELS, PRIMITIVES) for name in ("replay_s", "replay_high_s")),
]
OTHERS = [
    (file, name)
    for file in (KERNELS, PRIMITIVES)
    for name in ("calls", "flops", "bytes", "attainable_s")
]


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        *((*each, value) for each in SECONDS for value in (-5.0, 1e30, 1e308, 5e-324, -1e-200)),
        *((*each, value) for each in OTHERS for value in (-5.0, -1e-9, 1e308, 1e-200)),
        *((PRIMITIVES, "kept", value) for value in (-0.5, 1.5, 1e-200)),
        *((file, "replay_runs", -1.0) for file in (KERNELS, PRIMITIVES)),
    ],
)
def test_a_number_that_no_step_has_is_refused(
    rows: Path, file: str, name: str, value: float
) -> None:
    rewrite(rows, with_first(name, value), file)
    assert complaint(rows) == f'{file}: column "{name}" has values that no step has'


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        (KERNELS, "total_s", -1e-7),  # of events that clocks have begin at once
        (KERNELS, "self_s", 30 * MOST_S),  # in all, of many threads
        (PRIMITIVES, "seconds", 30 * MOST_S),
        (PRIMITIVES, "flops", 1e30),  # by sizes of a log that is damaged
        (PRIMITIVES, "attainable_s", 1e20),
        (PRIMITIVES, "kept", 0.0),  # a primitive whose kernel took no time
        (PRIMITIVES, "kept", 1e-14),
    ],
)
def test_a_number_that_a_profile_may_have_is_read(
    rows: Path, file: str, name: str, value: float
) -> None:
    rewrite(rows, with_first(name, value), file)
    found = read(rows)
    row = (found.kernels if file == KERNELS else found.primitives)[0]
    assert getattr(row, name) == value


@pytest.mark.parametrize(
    "told",
    [
        *({name: -1.0} for name in ("step_s", "traced_step_s", "verbose_step_s", "load_s")),
        *({name: -1.0} for name in ("scale", "waiting_s", "onednn_s", "headroom_s")),
        *({"scale": value} for value in (1e-200, 1e200)),
        *({"peaks": Peaks.model_construct(**each)} for each in WITHOUT_RATES),
    ],
)
def test_a_summary_with_times_or_rates_that_no_machine_has_is_refused(
    rows: Path, told: dict[str, object]
) -> None:
    made = profile(step())
    write(replace(made, summary=made.summary.model_copy(update=told)), rows)
    assert complaint(rows).startswith(f"{SUMMARY}: {min(told)}")


@pytest.mark.parametrize("size", ["-2", "999999999999999"])
def test_what_is_written_of_a_damaged_log_can_be_read(tmp_path: Path, size: str) -> None:
    """By its sizes, it has FLOPs and bytes that no call has."""
    body = (
        "cpu,{kind},jit:avx2,forward_training,src:f32::blocked:abcd::f0 "
        "wei:f32::blocked:abcd::f0 dst:f32::blocked:abcd::f0,,,{problem}"
    )
    sides = "x".join([size] * 9)
    problems = {
        "convolution": "".join(
            f"{name}{size}" for name in ("mb", "ic", "oc", "ih", "oh", "kh", "iw", "ow", "kw")
        ),
        "matmul": f"{sides}:{sides}",
    }
    bodies = [body.format(kind=kind, problem=problem) for kind, problem in problems.items()]
    spent = Spent(calls=1, self_s=1.0, total_s=1.0, least_s=1.0)
    rows, _ = primitive_rows({(Place(), one): spent for one in bodies}, 1)
    peaks = Peaks(gemm_flops={"f32": 1e11}, copy_bytes=1e10)
    made = under_roofline(Profile(ProfileSummary(steps=1), (), tuple(rows)), peaks)
    write(made, tmp_path)
    assert read(tmp_path) == made
