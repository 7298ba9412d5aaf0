"""Logs as older releases print them: without results in the detail log, or without a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controller.loadgen.checks import Check, Verdict
from controller.loadgen.detail import read_detail
from controller.loadgen.early_stopping import estimate
from controller.loadgen.logs import DETAIL, SUMMARY, DetailLog, LogUnreadable, read
from controller.loadgen.releases import release
from controller.loadgen.rule_checks import round_of
from controller.loadgen.run_logs import read_run
from controller.loadgen.verifying import verify
from tests.support.altered_logs import (
    RECORDED,
    Change,
    alter,
    as_release,
    copied,
    in_summary,
    plus,
    times,
)

_OLD_VALUES = {"SingleStream": "Single Stream", "PerformanceOnly": "Performance"}
_HEAD = (
    "LoadgenVersionInfo:",
    "version : .5a1 @ 413dbabcb3",
    "git_log :\n\n413dbabcb30dc2ee Merge: seeds\n",
    "Date + time of test: 2019-10-10T21:26:21Z",
    "System Under Test (SUT) name: PySUT",
    "QSL total size: 5",
    "QSL performance size*: 3",
)
_UNITS = {"_ns": " (ns)", "_ms": " (ms)"}


def _labelled(key: str) -> str:
    return next((key[:-3] + unit for end, unit in _UNITS.items() if key.endswith(end)), key)


def _old_lines(values: Mapping[str, object]) -> Iterator[str]:
    yield from _HEAD
    for section in ("requested", "effective"):
        yield from ("", f"{section.title()} Settings:")
        for key, value in values.items():
            if key.startswith(f"{section}_"):
                name = _labelled(key.removeprefix(f"{section}_"))
                name = {"scenario": "Scenario", "test_mode": "Test mode"}.get(name, name)
                said = str(value).lower() if isinstance(value, bool) else str(value)
                yield f"{name} : {_OLD_VALUES.get(said, said)}"
    yield from ("", "Starting performance mode:")
    for end in ("begin", "end"):
        yield f'POWER_{end.upper()}: "mode" : Performance, "time" : {values[f"power_{end}"]}'


def as_old(folder: Path) -> Path:
    """Turn recorded logs of single_stream into those of 0.5: the same run, printed otherwise."""
    log = DetailLog.parse(read(folder, DETAIL))
    lines = _old_lines(log.values)
    text = "".join(f'"pid": 7, "tid": 7, "ts": 82553ns : {line}\n' for line in lines)
    (folder / DETAIL).write_text(text)
    kept = [
        line.replace("90.0th", "90th").replace("SingleStream", "Single Stream")
        for line in read(folder, SUMMARY).splitlines()
        if "arly stopping" not in line
        and not line.startswith((" *", " early", " least"))
        and "Early Stopping" not in line
    ]
    summary = "\n".join(kept).replace("PerformanceOnly", "Performance") + "\n"
    (folder / SUMMARY).write_text(summary)
    return folder


def checks_of(folder: Path) -> list[Check]:
    run = read_run(folder)
    return [*verify(run), round_of(run)]


def found(folder: Path) -> dict[str, Check]:
    return {check.figure: check for check in checks_of(folder)}


def differing(folder: Path) -> set[str]:
    return {check.figure for check in checks_of(folder) if check.verdict is Verdict.DIFFERS}


@pytest.mark.parametrize("name", ["single_stream", "single_stream_untraced"])
def test_nothing_differs_in_unaltered_logs_of_the_first_release(name: str, tmp_path: Path) -> None:
    folder = as_old(copied(name, tmp_path))
    detail = read_detail(folder / DETAIL)
    assert not detail.has_results
    assert release(detail.values["loadgen_version"]) == (0, 5)
    assert differing(folder) == set()
    checks = found(folder)
    assert checks["effective_scenario"].says == "SingleStream"
    assert checks["result_min_duration_met"].verdict is not Verdict.DIFFERS


@pytest.mark.parametrize(
    ("label", "change", "figure"),
    [
        ("Mean latency (ns)", plus(1), "result_mean_latency_ns"),
        ("90.00 percentile latency (ns)", plus(1), "result_90.00_percentile_latency_ns"),
        ("90th percentile latency (ns)", plus(1), "result_90.00_percentile_latency_ns"),
        ("QPS w/o loadgen overhead", times(1.01), "result_qps_without_loadgen_overhead"),
        ("min_query_count", plus(1), "effective_min_query_count"),
        ("qsl_rng_seed", plus(1), "effective_qsl_rng_seed"),
        ("Result is", lambda _: "INVALID", "result_validity"),
    ],
)
def test_an_altered_field_of_the_first_release_is_named(
    label: str, change: Change, figure: str, tmp_path: Path
) -> None:
    folder = as_old(copied("single_stream", tmp_path))
    in_summary(folder, label, change)
    assert figure in differing(folder)


def test_an_altered_setting_in_the_detail_log_of_the_first_release_is_named(
    tmp_path: Path,
) -> None:
    folder = as_old(copied("single_stream", tmp_path))
    pattern = r"schedule_rng_seed : (?P<value>\d+)"
    alter(folder / DETAIL, pattern, plus(1))
    assert "effective_schedule_rng_seed" in differing(folder)


def test_what_lacks_early_stopping_met_is_told_what_it_would_be(tmp_path: Path) -> None:
    """As the detail logs of MLPerf Mobile v2.0, whose LoadGen is 1.1."""
    folder = as_release(copied("single_stream", tmp_path), "1.1 @ NA")
    assert differing(folder) == set()
    in_summary(folder, "Early stopping satisfied", lambda _: "NO")
    assert differing(folder) == {"early_stopping_met"}
    path = folder / SUMMARY
    path.write_text("".join(n for n in path.read_text().splitlines(True) if "satisfied: " not in n))
    check = found(folder)["early_stopping_met"]
    assert check.verdict is Verdict.UNCHECKED
    assert check.by.endswith("it is: yes")
    assert differing(folder) == set()


@pytest.mark.parametrize("said", ["0.5", ".5a1 @ 4", "0.7", "1.1 @ NA", "2.0", "4.1", "5.1", "6.0"])
def test_known_releases_are_read(said: str, tmp_path: Path) -> None:
    assert differing(as_release(copied("offline", tmp_path), said)) == set()


def test_official_counts_come_out() -> None:
    """Queries and discarded ones of single_stream in published logs of rounds v2.1."""
    assert estimate(57_329, 0.9).discarded == 5_564
    assert estimate(700, 0.9).discarded == 50


def test_a_detail_log_alone_can_be_checked(tmp_path: Path) -> None:
    folder = copied("single_stream", tmp_path)
    (folder / SUMMARY).unlink()
    assert found(folder)["summary"].verdict is Verdict.UNCHECKED
    assert differing(folder) == set()
    (folder / DETAIL).unlink()
    with pytest.raises(LogUnreadable, match="no such file"):
        read_run(folder)


def test_recorded_logs_are_of_the_newest_release() -> None:
    assert release(read_detail(RECORDED / "server" / DETAIL).values["loadgen_version"])[0] == 6


@pytest.mark.parametrize(("version", "odd"), [("1.1", False), ("2.1", True)])
def test_multi_stream_at_a_fixed_rate_is_left_out(version: str, odd: bool, tmp_path: Path) -> None:
    path = copied("multi_stream", tmp_path) / DETAIL
    text = path.read_text().replace("6.0.16 @", f"{version} @").replace("_per_query_", "_")
    path.write_text(text)
    assert ("result_99.00_percentile_per_query_latency_ns" in differing(path.parent)) is odd
    assert (found(path.parent)["result_validity"].verdict is Verdict.UNCHECKED) is not odd


def test_a_verdict_that_knows_no_early_stopping_does_not_depend_on_it(tmp_path: Path) -> None:
    """Round v1.1 and before: late queries of a server may be as many as the percentile allows."""
    # Of 64 queries, too few for its percentile.
    folder = as_release(copied("server", tmp_path), "1.1 @ NA")
    path = folder / DETAIL
    path.write_text(path.read_text().replace('"INVALID"', '"VALID"'))
    (folder / SUMMARY).unlink()
    checks = found(folder)
    assert checks["early_stopping_met"].by.endswith("it is: no")
    assert checks["result_validity"].verdict is Verdict.SAME
