"""One altered field of LoadGen's logs is named, wherever it was altered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.contracts.records import StoredResult
from controller.loadgen.checks import Check, Verdict
from controller.loadgen.logs import ACCURACY, DETAIL, SUMMARY, TRACE
from controller.loadgen.rule_checks import round_of
from controller.loadgen.run_logs import read_run
from controller.loadgen.stored_checks import stored_checks
from controller.loadgen.verifying import verify
from tests.support.altered_logs import (
    RECORDED,
    Change,
    alter,
    copied,
    flipped,
    in_detail,
    in_summary,
    plus,
    times,
    worded,
)
from tests.support.audits import original_result

ALL = ("detail", "summary", "both")
SS, MS, OFF, SERVER, LATE = (
    "single_stream",
    "multi_stream",
    "offline",
    "server",
    "server_late",
)


@dataclass(frozen=True)
class Planted:
    """A field, how it is altered, and under which name that has to come out."""

    name: str
    key: str
    label: str | None
    change: Change
    figure: str | None = None

    @property
    def expected(self) -> str:
        return self.figure or self.key


def percentile(of: str, share: str, *, query: bool = False) -> Planted:
    key = f"result_{share}_percentile{'_per_query' if query else ''}_latency_ns"
    return Planted(of, key, f"{share} percentile latency (ns)", plus(1))


def latency(of: str, which: str, *, query: bool = False) -> Planted:
    key = f"result_{which.lower()}{'_query' if query else ''}_latency_ns"
    return Planted(of, key, f"{which} latency (ns)", plus(1))


def setting(name: str, change: Change, label: str | None = None, of: str = SS) -> Planted:
    return Planted(of, f"effective_{name}", label or name, change)


PLANTED = (
    *(percentile(SS, p) for p in ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")),
    *(percentile(MS, p, query=True) for p in ("50.00", "90.00", "99.00", "99.90")),
    *(percentile(SERVER, p) for p in ("50.00", "99.00")),
    *(latency(SS, which) for which in ("Min", "Max", "Mean")),
    *(latency(MS, which, query=True) for which in ("Min", "Max", "Mean")),
    *(latency(OFF, which) for which in ("Min", "Max", "Mean")),
    Planted(
        SS,
        "result_90.00_percentile_latency_ns",
        "90.0th percentile latency (ns)",
        plus(1),
    ),
    Planted(SS, "result_qps_with_loadgen_overhead", "QPS w/ loadgen overhead", times(3)),
    Planted(SS, "result_qps_without_loadgen_overhead", "QPS w/o loadgen overhead", times(1.01)),
    Planted(OFF, "result_samples_per_second", "Samples per second", times(1.01)),
    Planted(SERVER, "result_completed_samples_per_sec", "Completed samples per second", times(2)),
    Planted(SERVER, "result_scheduled_samples_per_sec", "Scheduled samples per second", times(2)),
    *(Planted(of, "result_validity", "Result is", flipped) for of in (SS, MS, OFF, SERVER, LATE)),
    *(
        Planted(of, "result_min_duration_met", "Min duration satisfied", flipped)
        for of in (SS, MS, OFF, SERVER)
    ),
    *(
        Planted(of, "result_min_queries_met", "Min queries satisfied", flipped)
        for of in (SS, MS, OFF, SERVER)
    ),
    *(
        Planted(of, "early_stopping_met", "Early stopping satisfied", flipped)
        for of in (SS, MS, SERVER, LATE)
    ),
    *(
        Planted(of, "result_perf_constraints_met", "Performance constraints satisfied", flipped)
        for of in (SERVER, LATE)
    ),
    *(setting(f"{name}_rng_seed", plus(1)) for name in ("qsl", "sample_index", "schedule")),
    setting("min_duration_ms", plus(1), "min_duration (ms)"),
    setting("max_duration_ms", plus(1), "max_duration (ms)"),
    setting("min_query_count", plus(1)),
    setting("max_query_count", plus(1)),
    setting("samples_per_query", plus(1)),
    setting("samples_per_query", plus(1), of=MS),
    setting("samples_per_query", plus(9), of=OFF),
    setting("target_qps", times(1.01)),
    setting("target_latency_ns", plus(1), "target_latency (ns)", SERVER),
    setting("accuracy_log_rng_seed", plus(1)),
    setting("accuracy_log_sampling_target", plus(1)),
    setting("performance_sample_count", plus(1)),
    setting("accuracy_sample_count", plus(1)),
    setting("performance_issue_unique", flipped),
    setting("performance_issue_same", flipped),
    setting("performance_issue_same_index", plus(1)),
    setting("print_timestamps", flipped),
    Planted(SS, "effective_scenario", "Scenario", worded("SingleStream", "Offline")),
    Planted(OFF, "effective_scenario", "Scenario", worded("Offline", "SingleStream")),
    Planted(SS, "effective_test_mode", "Mode", worded("PerformanceOnly", "FindPeakPerformance")),
)
IN_ONE = (
    Planted(SS, "sut_name", "SUT name", worded("PySUT", "other")),
    Planted(SS, "sut_name", None, worded("PySUT", "other")),
    *(Planted(of, "result_query_count", None, plus(1)) for of in (SS, MS, OFF, SERVER)),
    Planted(LATE, "result_overlatency_query_count", None, plus(1)),
    Planted(SS, "early_stopping_latency_ss", None, plus(1)),
    Planted(SS, "early_stopping_latency_ms", None, plus(1)),
    Planted(SS, "early_stopping_result", None, worded("(64)", "(65)")),
    Planted(SS, "early_stopping_result", None, worded("discard 0", "discard 1")),
    Planted(LATE, "early_stopping_result", None, worded("Processed 64", "Processed 65")),
    Planted(LATE, "result_invalid_reason", None, worded("Reduce", "Increase")),
    Planted(SS, "effective_min_sample_count", None, plus(1)),
    Planted(SS, "effective_target_latency_percentile", None, times(0.5)),
    Planted(SS, "generated_query_count", None, lambda _: "1"),
    Planted(SS, "num_errors", None, plus(1)),
    *(Planted(of, "effective_max_async_queries", None, plus(1)) for of in (SS, MS, OFF, SERVER)),
    *(Planted(of, "effective_target_duration_ms", None, plus(1)) for of in (SS, MS, OFF, SERVER)),
    *(Planted(of, "effective_target_latency_ns", None, plus(1)) for of in (SS, MS, OFF)),
    Planted(OFF, "effective_target_latency_percentile", None, times(0.5)),
    Planted(OFF, "early_stopping_result", None, lambda _: '" * Run successful."'),
    *(
        Planted(SS, f"power_{end}", None, worded("2026", "2025"), "power_begin to power_end (s)")
        for end in ("begin", "end")
    ),
    Planted(SS, "test_datetime", None, lambda _: '"2025-01-01T00:00:00Z"'),
)
CASES = [(planted, where) for planted in PLANTED for where in ALL]
CASES += [(p, "summary" if p.label else "detail") for p in IN_ONE]


def differing(folder: Path) -> dict[str, Check]:
    run = read_run(folder)
    checks = [*verify(run), round_of(run)]
    return {check.figure: check for check in checks if check.verdict is Verdict.DIFFERS}


def test_there_are_forty_kinds_and_more() -> None:
    assert len({(p.name, p.key, where) for p, where in CASES}) >= 150
    assert len({p.key for p, _ in CASES}) >= 40


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.iterdir()))
def test_nothing_differs_in_unaltered_logs(name: str) -> None:
    assert differing(RECORDED / name) == {}


@pytest.mark.parametrize("name", [SS, MS, OFF, SERVER, LATE, "accuracy"])
def test_every_figure_of_a_traced_run_is_worked_out_again(name: str) -> None:
    """To its last digit; nothing is left that can't be checked."""
    checks = verify(read_run(RECORDED / name))
    assert [check for check in checks if check.verdict is not Verdict.SAME] == []
    exact = [check for check in checks if check.by == "mlperf_log_trace.json"]
    assert name == "accuracy" or len(exact) >= 9


@pytest.mark.parametrize(
    ("planted", "where"), CASES, ids=[f"{p.name}-{p.label or p.key}-{w}" for p, w in CASES]
)
def test_an_altered_field_is_named(planted: Planted, where: str, tmp_path: Path) -> None:
    folder = copied(planted.name, tmp_path)
    if where in ("detail", "both"):
        in_detail(folder, planted.key, planted.change)
    if where in ("summary", "both"):
        in_summary(folder, planted.label or planted.key, planted.change)
    assert planted.expected in differing(folder)


@pytest.mark.parametrize("seed", ["qsl", "sample_index", "schedule"])
def test_a_seed_altered_wherever_it_stands_is_named_by_its_round(seed: str, tmp_path: Path) -> None:
    folder = copied(SS, tmp_path)
    for kind in ("effective", "requested"):
        in_detail(folder, f"{kind}_{seed}_rng_seed", plus(1))
    in_summary(folder, f"{seed}_rng_seed", plus(1))
    assert set(differing(folder)) == {f"effective_{seed}_rng_seed"}


@pytest.mark.parametrize(
    ("line", "altered", "figure"),
    [
        ("No errors encountered", "1 ERROR encountered. See detailed log", "errors"),
        ("No warnings encountered", "2 warnings encountered. See detailed log", "warnings"),
        ("queries (64)", "queries (65)", "early_stopping_result"),
        ("50.00 percentile latency", "51.00 percentile latency", "result_50.00"),
    ],
)
def test_an_altered_line_of_a_summary_is_named(
    line: str, altered: str, figure: str, tmp_path: Path
) -> None:
    path = copied(SS, tmp_path) / SUMMARY
    text = path.read_text()
    assert line in text
    path.write_text(text.replace(line, altered))
    run = read_run(path.parent)
    told = [check for check in verify(run) if check.verdict is not Verdict.SAME]
    assert any(check.figure.startswith(figure) or "51.00" in check.figure for check in told)


def test_a_figure_that_is_there_twice_is_named(tmp_path: Path) -> None:
    path = copied(SS, tmp_path) / DETAIL
    lines = path.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if '"result_validity"' in line)
    lines.insert(place, lines[place].replace("VALID", "INVALID"))
    path.write_text("".join(lines))
    assert set(differing(path.parent)) == {"result_validity"}


@pytest.mark.parametrize("name", [SS, MS, OFF, SERVER])
def test_a_latency_altered_in_the_trace_is_named(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    alter(folder / TRACE, r'"sample_seq":7,.*"complete_ns":(?P<value>\d+)', times(0.1))
    assert "result_mean_latency_ns" in differing(folder)


@pytest.mark.parametrize("where", ALL)
@pytest.mark.parametrize(
    ("name", "key", "label"),
    [
        (
            "single_stream_untraced",
            "result_90.00_percentile_latency_ns",
            "90.00 percentile latency (ns)",
        ),
        (
            "multi_stream_untraced",
            "result_99.00_percentile_per_query_latency_ns",
            "99.00 percentile latency (ns)",
        ),
        (
            "server_untraced",
            "result_99.00_percentile_latency_ns",
            "99.00 percentile latency (ns)",
        ),
    ],
)
def test_without_a_trace_a_latency_is_held_by_those_around_it(
    name: str, key: str, label: str, where: str, tmp_path: Path
) -> None:
    folder = copied(name, tmp_path)
    if where in ("detail", "both"):
        in_detail(folder, key, times(0.1))
    if where in ("summary", "both"):
        in_summary(folder, label, times(0.1))
    assert key in differing(folder)


@pytest.mark.parametrize(
    ("edit", "figure"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], "answers"),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "answers"),
        (lambda lines: [*lines[:3], lines[2], *lines[4:]], "answered samples"),
        (
            lambda lines: [line.replace('"qsl_idx" : 4', '"qsl_idx" : 9') for line in lines],
            "answers of unknown samples",
        ),
    ],
    ids=["dropped", "doubled", "another's", "unknown"],
)
def test_altered_answers_are_named(
    edit: Callable[[list[str]], list[str]], figure: str, tmp_path: Path
) -> None:
    path = copied("accuracy", tmp_path) / ACCURACY
    lines = path.read_text().splitlines(keepends=True)
    changed = edit(lines)
    assert changed != lines
    path.write_text("".join(changed))
    assert figure in differing(path.parent)


@pytest.mark.parametrize("key", ["result_99.90_percentile_latency_ns", "result_min_queries_met"])
def test_a_result_that_only_the_summary_has_is_named(key: str, tmp_path: Path) -> None:
    path = copied(SS, tmp_path) / DETAIL
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if f'"{key}"' not in line))
    assert key in differing(path.parent)


@pytest.mark.parametrize("name", [SS, OFF])
def test_an_error_in_the_log_of_a_valid_result_is_named(name: str, tmp_path: Path) -> None:
    """LoadGen calls such a run VALID; the rules don't."""
    folder = copied(name, tmp_path)
    result = original_result(name)
    (found,) = validity_checks(result, folder)
    assert found.verdict is Verdict.SAME
    alter(folder / DETAIL, r'"generated_query_duration", .*"is_error": (?P<value>false)', flag)
    (found,) = validity_checks(result, folder)
    assert (found.verdict, found.recomputed) == (Verdict.DIFFERS, "at best INVALID")
    assert ": LoadGen: " in found.by


def validity_checks(result: StoredResult, folder: Path) -> list[Check]:
    found = stored_checks(result, read_run(folder), folder)
    return [check for check in found if check.figure == "validity"]


def flag(_: str) -> str:
    return "true"
