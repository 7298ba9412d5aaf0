"""Loaded samples, generated queries, times of entries and rates that were altered."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.loadgen.checks import Verdict
from controller.loadgen.logs import DETAIL, LogUnreadable
from controller.loadgen.run_logs import read_run
from controller.loadgen.verifying import verify
from tests.support.altered_logs import (
    RECORDED,
    Change,
    alter,
    copied,
    in_detail,
    in_summary,
    plus,
    times,
    worded,
)


def differing(folder: Path) -> set[str]:
    found = verify(read_run(folder))
    return {check.figure for check in found if check.verdict is Verdict.DIFFERS}


@pytest.mark.parametrize(
    ("name", "key", "change", "figure"),
    [
        ("single_stream", "loaded_qsl_set", worded(",1]", "]"), "loaded_qsl_set"),
        ("single_stream", "loaded_qsl_set", worded(",1]", ",2]"), "loaded_qsl_set"),
        ("single_stream", "loaded_qsl_set", worded(",1]", ",1,1]"), "loaded_qsl_set, all"),
        ("multi_stream", "loaded_qsl_set", worded("0]", "0,1,2]"), "loaded_qsl_set, all"),
        ("single_stream", "loaded_qsl_set", worded(",1]", ",9]"), "loaded_qsl_set, greatest"),
        ("accuracy", "loaded_qsl_set", lambda said: "[0,3]" if "3" in said else "[1,4]", None),
        ("single_stream", "generated_samples_per_query", plus(1), "generated_samples_per_query"),
        ("offline", "generated_samples_per_query", plus(1), "generated_samples_per_query"),
        ("single_stream", "generated_query_duration", times(2), "generated_query_duration"),
        ("multi_stream", "generated_query_duration", plus(1000), "generated_query_duration"),
        ("offline", "generated_query_duration", times(2), "generated_query_duration"),
        ("server", "generated_query_duration", times(0.5), "generated_query_duration"),
        ("accuracy", "generated_query_count", plus(1), "generated_query_count"),
        ("accuracy", "generated_query_duration", plus(1000), "generated_query_duration"),
    ],
)
def test_an_altered_set_or_generated_query_is_named(
    name: str, key: str, change: Change, figure: str | None, tmp_path: Path
) -> None:
    folder = copied(name, tmp_path)
    in_detail(folder, key, change)
    assert (figure or key) in differing(folder)


@pytest.mark.parametrize("value", ['"all"', "[-1,0,1]", '["0"]', "[true,0]", "[[0],1]", "3"])
def test_what_is_no_list_of_samples_is_refused(value: str, tmp_path: Path) -> None:
    folder = copied("single_stream", tmp_path)
    in_detail(folder, "loaded_qsl_set", lambda _: value)
    with pytest.raises(LogUnreadable, match="no list of samples"):
        verify(read_run(folder))


def at(key: str) -> str:
    """Return the pattern of when the last entry of a key was logged."""
    return rf'"key": "{key}", "value": .*?, "time_ms": (?P<value>[^,]+),'


@pytest.mark.parametrize("key", ["power_end", "result_validity", "effective_scenario", "sut_name"])
@pytest.mark.parametrize("time", ["0.000001", "-1", '"soon"', "null", "[1]", "true"])
def test_an_entry_from_before_those_above_it_is_named(key: str, time: str, tmp_path: Path) -> None:
    folder = copied("single_stream", tmp_path)
    alter(folder / DETAIL, at(key), lambda _: time)
    assert "time_ms" in differing(folder)


def test_an_entry_without_a_time_is_named(tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / DETAIL
    *lines, end = path.read_text().splitlines(keepends=True)
    path.write_text("".join((*lines, end.replace('"time_ms"', '"time"'))))
    assert differing(path.parent) == {"time_ms"}


@pytest.mark.parametrize("name", ["single_stream", "multi_stream", "offline", "server"])
def test_times_that_are_too_short_for_the_clock_times_are_named(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    alter(folder / DETAIL, r'"time_ms": (?P<value>[^,]+),', lambda time: repr(float(time) / 4))
    assert "time_ms of power_end" in differing(folder)


@pytest.mark.parametrize("factor", [0.25, 0.9, 1.01, 3])
@pytest.mark.parametrize(
    ("name", "key", "label"),
    [
        ("single_stream", "result_qps_with_loadgen_overhead", "QPS w/ loadgen overhead"),
        ("server", "result_scheduled_samples_per_sec", "Scheduled samples per second"),
        ("server", "result_completed_samples_per_sec", "Completed samples per second"),
        ("server_late", "result_scheduled_samples_per_sec", "Scheduled samples per second"),
        ("server_late", "result_completed_samples_per_sec", "Completed samples per second"),
    ],
)
def test_a_rate_that_the_trace_does_not_show_is_named(
    name: str, key: str, label: str, factor: float, tmp_path: Path
) -> None:
    folder = copied(name, tmp_path)
    in_detail(folder, key, times(factor))
    in_summary(folder, label, lambda value: f"{float(value) * factor:.2f}")
    assert key in differing(folder)


def test_the_parts_of_every_recorded_run_are_checked() -> None:
    for folder in RECORDED.iterdir():
        figures = {check.figure for check in verify(read_run(folder))}
        assert figures >= {"loaded_qsl_set", "generated_query_duration", "time_ms of power_end"}
