"""Top-down shares out of what perf and PerfSpect print, whole, torn, foreign and false."""

from __future__ import annotations

import itertools
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.main import app
from controller.contracts.errors import UserError
from controller.contracts.topdown import TopDown
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.files import read as read_profile
from controller.profiles.files import write
from controller.profiles.topdown import MOST_BYTES, read_topdown
from controller.reports.html.profile import profile_html
from controller.reports.profile_tables import summary_lines
from tests.support.planted_profile import profile, step

LEVEL_1 = {
    "retiring": 0.30,
    "bad_speculation": 0.05,
    "frontend_bound": 0.15,
    "backend_bound": 0.50,
}
LEVEL_2 = {
    "light_operations": 0.26,
    "heavy_operations": 0.04,
    "branch_mispredicts": 0.04,
    "machine_clears": 0.01,
    "fetch_latency": 0.10,
    "fetch_bandwidth": 0.05,
    "memory_bound": 0.35,
    "core_bound": 0.15,
}
EVENTS = """\
1000000,,slots,250000,100.00,,
300000,,topdown-retiring,250000,100.00,30.0,% Retiring
50000,,topdown-bad-spec,250000,100.00,5.0,% Bad Speculation
150000,,topdown-fe-bound,250000,100.00,15.0,% Frontend Bound
500000,,topdown-be-bound,250000,100.00,50.0,% Backend Bound
"""
COUNTS = """\
# started on Thu Nov 26 12:00:00 2026
1000000,,cpu_core/slots/u,250000,100.00,,
300000,,cpu_core/topdown-retiring/u,250000,100.00,,
50000,,cpu_core/topdown-bad-spec/u,250000,100.00,,
150000,,cpu_core/topdown-fe-bound/u,250000,100.00,,
500000,,cpu_core/topdown-be-bound/u,250000,100.00,,
40000,,cpu_core/topdown-heavy-ops/u,250000,100.00,,
40000,,cpu_core/topdown-br-mispredict/u,250000,100.00,,
100000,,cpu_core/topdown-fetch-lat/u,250000,100.00,,
350000,,cpu_core/topdown-mem-bound/u,250000,100.00,,
740049,msec,task-clock,740049,100.00,0.265,CPUs utilized
"""
JSON = """\
{"counter-value" : "1000000.000000", "event" : "TOPDOWN.SLOTS", "event-runtime" : 55, \
"pcnt-running" : 100.00, "metric-value" : "50.0", "metric-unit" : "%  tma_backend_bound"}
{"metric-value" : "15.0", "metric-unit" : "%  tma_frontend_bound", "metric-threshold" : "bad"}
{"metric-value" : "5.0", "metric-unit" : "%  tma_bad_speculation"}
{"metric-value" : "30.0", "metric-unit" : "%  tma_retiring"}
{"metric-value" : "0.74", "metric-unit" : "of all branches"}
{"counter-value" : "<not supported>", "event" : "cycles", "metric-value" : 0.0, "metric-unit" : ""}
"""
AMD = """\
0,,ex_ret_ops,1,100.00,30.0,%  retiring
0,,x,1,100.00,5.0,%  bad_speculation
0,,x,1,100.00,15.0,%  frontend_bound
0,,x,1,100.00,50.0,%  backend_bound
0,,x,1,100.00,35.0,%  backend_bound_memory
0,,x,1,100.00,15.0,%  backend_bound_cpu
"""
PERFSPECT = """\
metric,mean,min,max,stddev
CPU utilization %,91.2,90,92,0.5
TMA_Frontend_Bound(%),15.0,14,16,0.2
TMA_..Fetch_Latency(%),10.0,9,11,0.2
TMA_..Fetch_Bandwidth(%),5.0,4,6,0.2
TMA_Bad_Speculation(%),5.0,4,6,0.1
TMA_..Branch_Mispredicts(%),4.0,3,5,0.1
TMA_..Machine_Clears(%),1.0,0,2,0.1
TMA_Backend_Bound(%),50.0,49,51,0.3
TMA_..Memory_Bound(%),35.0,34,36,0.3
TMA_....L1_Bound(%),7.0,6,8,0.3
TMA_..Core_Bound(%),15.0,14,16,0.3
TMA_Retiring(%),30.0,29,31,0.3
TMA_..Light_Operations(%),26.0,25,27,0.3
TMA_..Heavy_Operations(%),4.0,3,5,0.3
"""
GROUPED = """\
SKT,metric,mean,min,max,stddev
0,CPU utilization %,91.2,90,92,0.5
0,TMA_Frontend_Bound(%),20.0,14,96,0.2
0,TMA_Bad_Speculation(%),5.0,4,6,0.1
0,TMA_Backend_Bound(%),35.0,49,51,0.3
0,TMA_Retiring(%),40.0,29,31,0.3
1,CPU utilization %,91.2,90,92,0.5
1,TMA_Frontend_Bound(%),10.0,14,96,0.2
1,TMA_Bad_Speculation(%),5.0,4,6,0.1
1,TMA_Backend_Bound(%),65.0,49,51,0.3
1,TMA_Retiring(%),20.0,29,31,0.3
"""
"""PerfSpect's summary of `--granularity socket`."""
INTERVALS = """\
TS,SKT,CPU,CID,TMA_Retiring(%),TMA_Bad_Speculation(%),TMA_Frontend_Bound(%),TMA_Backend_Bound(%)
5,,,,20,5,15,60
10,,,,40,5,15,40
"""
COLUMNS = """\
# started on Thu Nov 26 12:00:00 2026

%  tma_retiring,%  tma_backend_bound,%  tma_frontend_bound,%  tma_bad_speculation,
 30.0,50.0,15.0,5.0,
"""
SPREAD = """\
1000000,,slots,0.50%,250000,100.00,,
300000,,topdown-retiring,0.50%,250000,100.00,30.0,% Retiring
50000,,topdown-bad-spec,0.50%,250000,100.00,5.0,% Bad Speculation
150000,,topdown-fe-bound,0.50%,250000,100.00,15.0,% Frontend Bound
500000,,topdown-be-bound,0.50%,250000,100.00,50.0,% Backend Bound
"""
"""`perf stat -r`: the spread over the runs comes behind the event."""
METRICS_ONLY = (
    '{"core" : "S0-D0-C0", "%  tma_retiring" : "30.0", "%  tma_backend_bound" : "50.0", '
    '"%  tma_frontend_bound" : "15.0", "%  tma_bad_speculation" : "5.0"}\n'
)
"""`perf stat -j --topdown`."""
IDLE_CORE = "".join(
    f"S0-D0-C{core},1,{row}"
    for core in (0, 1)
    for row in (EVENTS if core else re.sub(r"[0-9.]+,%", "NAN,%", EVENTS)).splitlines(keepends=True)
)
"""`perf stat --per-core`, of which the first core did nothing."""


def read(tmp_path: Path, text: str | bytes) -> TopDown:
    file = tmp_path / "counted.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_topdown(file)


@pytest.mark.parametrize(
    ("text", "tool", "expected"),
    [
        (EVENTS, "perf", LEVEL_1),
        (COUNTS, "perf", {**LEVEL_1, **LEVEL_2}),
        (COLUMNS, "perf", LEVEL_1),
        (SPREAD, "perf", LEVEL_1),
        (JSON, "perf", LEVEL_1),
        (JSON.replace('.0"', ',0"'), "perf", LEVEL_1),
        (re.sub("[0-9.]+,%", "nan,%", EVENTS), "perf", LEVEL_1),
        (METRICS_ONLY, "perf", LEVEL_1),
        (METRICS_ONLY.replace('.0"', ',0"'), "perf", LEVEL_1),
        (AMD, "perf", {**LEVEL_1, "memory_bound": 0.35, "core_bound": 0.15}),
        (PERFSPECT, "PerfSpect", {**LEVEL_1, **LEVEL_2}),
        (GROUPED, "PerfSpect", LEVEL_1),
        (
            re.sub("^([^,]*),([^,]*),([^,]*)", r"\3,\1,\2", GROUPED, flags=re.M),
            "PerfSpect",
            LEVEL_1,
        ),
        (INTERVALS, "PerfSpect", LEVEL_1),
    ],
    ids=[
        *("metrics", "events", "columns", "runs", "JSON", "JSON with decimal commas"),
        *("counts without metrics", "JSON of metrics only", "the same with decimal commas"),
        *("AMD", "summary", "summary of sockets", "its mean first", "intervals"),
    ],
)
def test_shares_are_the_tools(
    tmp_path: Path, text: str, tool: str, expected: dict[str, float]
) -> None:
    found = read(tmp_path, text)
    assert found.shares == pytest.approx(expected)
    assert found.source == f"{tool}, counted.csv"


@pytest.mark.parametrize(
    ("separator", "decimal"),
    [(",", "."), (";", "."), (";", ","), ("|", "."), ("|", ","), ("\t", "."), ("\t", ",")],
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EVENTS, LEVEL_1),
        (COUNTS, {**LEVEL_1, **LEVEL_2}),
        (COLUMNS, LEVEL_1),
        ("".join(f"1.5,{row}\n" for row in EVENTS.splitlines()), LEVEL_1),
    ],
    ids=["metrics", "events", "columns", "intervals"],
)
def test_fields_are_separated_as_perf_was_told(
    tmp_path: Path, text: str, expected: dict[str, float], separator: str, decimal: str
) -> None:
    fields = text.replace(".", "<").replace(",", separator).replace("<", decimal)
    assert read(tmp_path, fields).shares == pytest.approx(expected)


NOT_COUNTED = "not counted, not finite, or beside such a value"
OTHERS = "not counted in the same intervals, or groups of cores, as level 1"
MEANS_OF_TWO = "means of 2 intervals or groups of cores, each of which counts alike"


def test_of_several_intervals_it_is_the_mean_and_says_so(tmp_path: Path) -> None:
    assert read(tmp_path, INTERVALS).notes == (MEANS_OF_TWO,)
    assert read(tmp_path, GROUPED).notes == (MEANS_OF_TWO,)
    each = [f"{second}.0,{line}" for second in (1, 2) for line in COUNTS.splitlines()[1:]]
    found = read(tmp_path, "\n".join(each))
    assert found.shares == pytest.approx({**LEVEL_1, **LEVEL_2})
    assert found.notes == ("means of 2 intervals or groups of cores",)


@pytest.mark.parametrize("word", ["nan", "-nan", "inf", "1e999"])
@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (IDLE_CORE, [f"left out 4 of 8 values: {NOT_COUNTED}"]),
        (
            COUNTS + re.sub("^[0-9]+,,", "NAN,,", COUNTS, flags=re.MULTILINE),
            [f"left out 9 of 18 values: {NOT_COUNTED}"],
        ),
        (
            INTERVALS + "15,,,,NAN,NAN,NAN,NAN\n",
            [
                MEANS_OF_TWO,
                f"left out 4 of 12 values: {NOT_COUNTED}",
            ],
        ),
        (
            INTERVALS.replace("20,5,15,60", "NAN,5,15,50").replace("40,5,15,40", "30,5,15,50"),
            [
                MEANS_OF_TWO,
                f"left out 1 of 8 values: {NOT_COUNTED}",
            ],
        ),
    ],
    ids=["metrics", "events", "an interval", "a value"],
)
def test_values_that_are_not_finite_are_left_out_and_counted(
    tmp_path: Path, text: str, notes: list[str], word: str
) -> None:
    found = read(tmp_path, text.replace("NAN", word))
    assert {name: found.shares[name] for name in LEVEL_1} == pytest.approx(LEVEL_1)
    assert list(found.notes) == notes


def intervals(text: str, **missing: str) -> str:
    """Return three intervals of a text; `name`: in which of them an event is not counted."""
    lines = []
    for number in "012":
        for line in text.splitlines():
            event = line.split(",")[2:3]
            is_out = any(name in str(event) and number in of for name, of in missing.items())
            told = line.replace(line.split(",")[0], "<not counted>", 1) if is_out else line
            lines.append(f"{number}.0,{told}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("missing", "level_2", "notes"),
    [
        ({"slots": "1"}, LEVEL_2, ["left out 9 of 27 values: " + NOT_COUNTED]),
        ({"retiring": "1"}, LEVEL_2, ["left out 9 of 27 values: " + NOT_COUNTED]),
        ({"mem": "0", "retiring": "0"}, LEVEL_2, ["left out 9 of 27 values: " + NOT_COUNTED]),
        (
            {"mem": "1"},
            {n: of for n, of in LEVEL_2.items() if n not in ("memory_bound", "core_bound")},
            [
                f"left out memory_bound: {OTHERS}",
                "left out 3 of 27 values: " + NOT_COUNTED,
            ],
        ),
        (
            {"mem": "012"},
            {n: of for n, of in LEVEL_2.items() if n not in ("memory_bound", "core_bound")},
            ["left out 3 of 27 values: " + NOT_COUNTED],
        ),
    ],
    ids=["slots", "level 1", "both levels at once", "level 2", "level 2, never"],
)
def test_events_are_compared_where_all_of_level_1_is_counted(
    tmp_path: Path, missing: dict[str, str], level_2: dict[str, float], notes: list[str]
) -> None:
    found = read(tmp_path, intervals("\n".join(COUNTS.splitlines()[1:-1]), **missing))
    assert found.shares == pytest.approx({**LEVEL_1, **level_2})
    kept = 3 if any("memory_bound" in note for note in notes) or "012" in missing.values() else 2
    assert list(found.notes) == [f"means of {kept} intervals or groups of cores", *notes]


def test_an_event_of_fewer_rows_than_slots_is_left_out(tmp_path: Path) -> None:
    """Of all slots, it would be another share."""
    more = COUNTS + "".join(COUNTS.splitlines(keepends=True)[1:6])
    found = read(tmp_path, more)
    assert found.shares == pytest.approx(LEVEL_1)
    names = "heavy_operations, branch_mispredicts, fetch_latency, memory_bound"
    assert f"left out {names}: {OTHERS}" in found.notes


def test_a_metric_of_level_2_with_fewer_values_than_its_parent_is_left_out(tmp_path: Path) -> None:
    """The rest of the pair would be of other intervals."""
    busy = AMD.replace("35.0,%  backend_bound_memory", "10.0,%  backend_bound_memory")
    once = "".join(line for line in busy.splitlines(keepends=True) if "bound_" not in line)
    found = read(
        tmp_path, busy.replace("15.0,%  backend_bound_cpu", "40.0,%  backend_bound_cpu") + once
    )
    assert found.shares == pytest.approx(LEVEL_1)
    assert f"left out memory_bound, core_bound: {OTHERS}" in found.notes


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", "no top-down metric"),
        ("740049,msec,task-clock,740049,100.00,0.265,CPUs utilized\n", "no top-down metric"),
        (b"\x00\xff" * 100, "no top-down metric"),
        ("[" * 100_000, "no top-down metric"),
        ('{"metric-unit": ' * 10_000, "no top-down metric"),
        (COUNTS.replace("1000000,,cpu_core/slots", "0,,cpu_core/slots"), "no top-down metric"),
        (COUNTS.replace("1000000", "<not counted>"), "no top-down metric"),
        (COUNTS.replace("1000000", "nan"), "no top-down metric"),
        ("\n".join(COUNTS.splitlines()[:4]), "there is no frontend_bound, backend_bound"),
        (EVENTS.replace("50.0,%", "60.0,%"), "all of level 1 add up to 1.100, not 1.000"),
        (EVENTS.replace("50.0,%", "nan,%"), "there is no backend_bound"),
        (re.sub("[0-9.]+,%", "nan,%", AMD), "no top-down metric"),
        (EVENTS.replace("50.0,%", "1e308,%"), "backend_bound is 1e+306, not a share"),
        (EVENTS.replace("5.0,% Bad", "-40,% Bad"), "bad_speculation is -0.4, not a share"),
        (PERFSPECT.replace("Memory_Bound(%),35.0", "Memory_Bound(%),45.0"), "add up to 0.600"),
        (
            COUNTS.replace("40000,,cpu_core/topdown-heavy", "400000,,cpu_core/topdown-heavy"),
            "light",
        ),
        ('"' + "x" * 200 + ("\n" + "x" * 60_000) * 3, "no top-down metric"),
        ('"TMA_Retiring(%)' + ("\n" + "x" * 60_000) * 3, "no top-down metric"),
        (b"x" * (MOST_BYTES + 1), "more than 16 MiB"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    tmp_path: Path, text: str | bytes, seen: str
) -> None:
    with pytest.raises(ProfileUnreadable) as refused:
        read(tmp_path, text)
    assert seen in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("start", ['"', 'notes,"'])
def test_an_open_quote_hides_nothing_behind_its_line(tmp_path: Path, start: str) -> None:
    lines = [start + "x" * 60_000] * 3
    assert read(tmp_path, "\n".join([*lines, PERFSPECT])).shares == pytest.approx(
        {**LEVEL_1, **LEVEL_2}
    )


def calls_to_read(tmp_path: Path, text: str) -> int:
    """Return how many functions are called and returned from: the same on any machine."""
    events = itertools.count()
    former = sys.getprofile()
    sys.setprofile(lambda *_: next(events))
    try:
        with suppress(ProfileUnreadable):
            read(tmp_path, text)
    finally:
        sys.setprofile(former)
    return next(events)


@pytest.mark.parametrize(
    "line",
    ["," * 60_000, "," * 9, "1;" * 9, "740049,msec,task-clock,740049,100.00,0.265,CPUs utilized"],
    ids=["long", "short", "numbers", "another event"],
)
def test_lines_that_tell_nothing_cost_a_few_calls_each(tmp_path: Path, line: str) -> None:
    count = 480_000 // len(line)
    few, many = (
        calls_to_read(tmp_path, EVENTS + f"{line}\n" * lines) for lines in (count // 2, count)
    )
    assert many - few < 20 * count


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProfileUnreadable, match="No such file"):
        read_topdown(tmp_path / "none.csv")
    with pytest.raises(ProfileUnreadable, match="directory"):
        read_topdown(tmp_path)


def test_it_is_shown_and_kept_with_a_profile(tmp_path: Path) -> None:
    file, folder, page = tmp_path / "counted.csv", tmp_path / "profile", tmp_path / "page.html"
    file.write_text(PERFSPECT)
    write(profile(step()), folder)
    done = CliRunner().invoke(app, ["profile", "topdown", str(file), "--into", str(folder)])
    assert done.exit_code == 0, done.exception
    first = "retiring 30.0%, bad speculation 5.0%, frontend bound 15.0%, backend bound 50.0%"
    assert f"top-down, of all slots (PerfSpect, counted.csv): {first}" in done.stdout
    kept = read_profile(folder)
    assert kept.summary.topdown == read_topdown(file)
    assert kept.kernels == profile(step()).kernels
    assert any(first in line for line in summary_lines(kept.summary))
    for shown, text in (
        (kept, "memory bound"),
        (profile(step()), "None: this profile has no counters. Measure"),
    ):
        page.write_text(profile_html(shown, "it"))
        assert text in page.read_text().split('id="topdown"')[1].split("</section>")[0]


def test_a_file_that_is_refused_leaves_the_profile_alone(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    write(profile(step()), folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    command = ["profile", "topdown", str(tmp_path / "none"), "--into", str(folder)]
    assert isinstance(CliRunner().invoke(app, command).exception, ProfileUnreadable)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Refuse this process writes beyond a file size, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_profile_that_cannot_be_written_is_an_error_of_the_user(tmp_path: Path) -> None:
    file, folder = tmp_path / "counted.csv", tmp_path / "profile"
    file.write_text(EVENTS)
    write(profile(step()), folder)
    with files_end_at(100):
        done = CliRunner().invoke(app, ["profile", "topdown", str(file), "--into", str(folder)])
    assert isinstance(done.exception, UserError), done.exception
    assert str(done.exception).startswith(f"cannot write profile {folder}: ")
    assert str(done.exception).endswith("Name a folder that you can write to.")
    assert read_profile(folder) == profile(step()), "what was there is whole"
    assert {path.suffix for path in folder.iterdir()} == {".parquet", ".json"}
