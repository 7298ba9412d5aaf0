"""What published logs of other releases have, made up of our own: nothing in them differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from controller.loadgen import logs
from controller.loadgen.checks import Check, Verdict
from controller.loadgen.logs import DETAIL, MARK, SUMMARY, TRACE, DetailLog
from controller.loadgen.run_logs import read_run
from controller.loadgen.verifying import verify
from tests.support.altered_logs import as_release, copied, in_detail, in_summary, plus, worded

LONGEST = "IssueQueryThread 0 Ending early: Max test duration reached. duration_ns 267863000"
MADE_LONGEST_MS = 200
TOKEN_PARTS = ("min", "max", "mean", "50.00_percentile", "99.00_percentile")


def told(folder: Path, verdict: Verdict = Verdict.DIFFERS) -> dict[str, Check]:
    """Return the checks with a verdict, by their figures."""
    return {check.figure: check for check in verify(read_run(folder)) if check.verdict is verdict}


def put(folder: Path, after: str, entries: Mapping[str, object], *, error: bool = False) -> None:
    """Put entries after the last one of a key, with its time."""
    path = folder / DETAIL
    lines = path.read_text().splitlines(keepends=True)
    place = max(n for n, line in enumerate(lines) if f'"key": "{after}"' in line)
    like = json.loads(lines[place].removeprefix(MARK))
    like["metadata"]["is_error"] = error
    made = [{**like, "key": key, "value": value} for key, value in entries.items()]
    lines[place + 1 : place + 1] = [f"{MARK} {json.dumps(entry)}\n" for entry in made]
    path.write_text("".join(lines))


def take(folder: Path, *keys: str) -> None:
    path = folder / DETAIL
    kept = [
        line
        for line in path.read_text().splitlines(keepends=True)
        if json.loads(line.removeprefix(MARK))["key"] not in keys
    ]
    path.write_text("".join(kept))


def rewrite(folder: Path, values: Mapping[str, Sequence[object]]) -> None:
    """Give the entries of each key these values, in order; the last one is for all that follow."""
    path, lines = folder / DETAIL, []
    left = {key: list(found) for key, found in values.items()}
    for line in path.read_text().splitlines():
        entry = json.loads(line.removeprefix(MARK))
        if found := left.get(entry["key"]):
            entry["value"] = found.pop(0) if len(found) > 1 else found[0]
        lines.append(f"{MARK} {json.dumps(entry)}\n")
    path.write_text("".join(lines))


# --- runs that ended at their longest duration, as those of MLPerf Mobile v4.1 and v5.0 ---


def waived(folder: Path, *, longest_ms: int = MADE_LONGEST_MS, error: bool = False) -> Path:
    """Make logs of 700 of 1024 queries that ended at their longest duration, and are VALID."""
    made = as_release(copied("single_stream_untraced", folder), "4.0 @ 238d035ab4")
    for part in ("requested", "effective"):
        in_detail(made, f"{part}_max_duration_ms", lambda _: str(longest_ms))
        in_detail(made, f"{part}_min_query_count", lambda _: "1024")
    in_detail(made, "effective_min_sample_count", lambda _: "1024")
    in_detail(made, "generated_query_count", lambda _: "1024")
    in_detail(made, "generated_query_duration", lambda _: "51200000")
    in_detail(made, "result_min_queries_met", lambda _: "false")
    put(made, "effective_max_duration_ms", {"effective_enforce_max_duration": True})
    put(made, "generated_query_duration", {"error_runtime": LONGEST}, error=error)
    in_summary(made, "Min queries satisfied", lambda _: "Skipped")
    in_summary(made, "max_duration (ms)", lambda _: str(longest_ms))
    in_summary(made, "min_query_count", lambda _: "1024")
    return made


def test_a_run_that_lasted_its_longest_is_valid_with_fewer_queries(tmp_path: Path) -> None:
    folder = waived(tmp_path)
    assert told(folder) == {}
    log = DetailLog.parse((folder / DETAIL).read_text())
    assert logs.ended_at_longest(log)
    assert logs.objections(log) == ()


def test_without_the_summary_it_is_valid_too(tmp_path: Path) -> None:
    folder = waived(tmp_path)
    (folder / SUMMARY).unlink()
    assert told(folder) == {}


@pytest.mark.parametrize(("longest_ms", "error"), [(300, False), (MADE_LONGEST_MS, True)])
def test_one_that_was_shorter_or_had_an_error_is_not(
    longest_ms: int, error: bool, tmp_path: Path
) -> None:
    folder = waived(tmp_path, longest_ms=longest_ms, error=error)
    found = told(folder)
    assert found["result_validity"].recomputed == "INVALID"
    assert "result_min_queries_met" in found


def test_one_of_a_release_without_the_setting_is_not(tmp_path: Path) -> None:
    folder = waived(tmp_path)
    take(folder, "effective_enforce_max_duration")
    assert told(folder).keys() == {"result_validity", "result_min_queries_met"}


@pytest.mark.parametrize("said", ["NO", "Yes"])
def test_a_summary_that_does_not_skip_is_named(said: str, tmp_path: Path) -> None:
    folder = waived(tmp_path)
    in_summary(folder, "Min queries satisfied", lambda _: said)
    assert told(folder).keys() == {"result_min_queries_met"}


def test_a_summary_that_skips_what_was_reached_is_named(tmp_path: Path) -> None:
    folder = copied("single_stream", tmp_path)
    in_summary(folder, "Min queries satisfied", lambda _: "Skipped")
    assert told(folder).keys() == {"result_min_queries_met"}


# --- accuracy runs of offline ---


def offline_accuracy(folder: Path, each: Sequence[int]) -> Path:
    """Make logs of an accuracy run of offline in parts of 3 and 2; each: samples of their query."""
    made = copied("accuracy", folder)
    (made / SUMMARY).unlink()
    names = ("expected_latency_ns", "target_latency_percentile")
    take(made, *(f"requested_single_stream_{name}" for name in names))
    put(made, "requested_test_mode", {"requested_offline_expected_qps": 2})
    settings = {
        "requested_scenario": "Offline",
        "effective_scenario": "Offline",
        "effective_samples_per_query": 64,
        "requested_min_query_count": 64,
        "effective_min_query_count": 1,
        "effective_min_sample_count": 64,
        "effective_target_qps": 2,
        "effective_target_latency_percentile": 0.99,
        "effective_target_duration_ms": 0,
        "generated_query_count": 1,
        "generated_query_duration": 500000000,
    }
    rewrite(made, {key: [value] for key, value in settings.items()})
    rewrite(made, {"generated_samples_per_query": each})
    return made


@pytest.mark.parametrize("each", [(64,), (3, 2)])
def test_a_query_of_offline_has_all_samples_of_a_part(each: Sequence[int], tmp_path: Path) -> None:
    """Older releases print the most that it may have, as in logs of 2.0, 2.1 and 3.0."""
    assert told(offline_accuracy(tmp_path, each)) == {}


@pytest.mark.parametrize("key", ["generated_query_count", "generated_samples_per_query"])
def test_another_number_is_named(key: str, tmp_path: Path) -> None:
    folder = offline_accuracy(tmp_path, (64,))
    in_detail(folder, key, plus(1))
    assert key in told(folder)


def test_a_timed_run_that_was_told_no_number_of_samples_loads_all(tmp_path: Path) -> None:
    """As those of 3D-UNet: its queries are more than were asked for, each sample as often."""
    folder = copied("offline", tmp_path)
    for key in ("qsl_reported_performance_count", "effective_performance_sample_count"):
        in_detail(folder, key, lambda _: "0")
    in_summary(folder, "performance_sample_count", lambda _: "0")
    in_detail(folder, "loaded_qsl_set", lambda _: "[4,2,0,1,3]")
    assert told(folder) == {}


# --- when the test began ---


@pytest.mark.parametrize(("said", "same"), [("09:27:37Z", True), ("09:25:37Z", False)])
def test_files_that_open_slowly_are_no_difference(said: str, same: bool, tmp_path: Path) -> None:
    """LoadGen notes the date, then opens its files, then starts its clock."""
    folder = copied("single_stream", tmp_path)
    in_detail(folder, "test_datetime", lambda _: f'"2026-11-27T{said}"')
    assert told(folder).keys() == (set() if same else {"test_datetime"})


# --- summaries of runs that count tokens ---


def counting(folder: Path) -> Path:
    """Make logs of server that counts tokens."""
    made = copied("server_untraced", folder)
    settings = {"use_token_latencies": True, "server_ttft_latency": 7, "server_tpot_latency": 9}
    put(
        made,
        "requested_sample_concatenate_permutation",
        {f"requested_{name}": value for name, value in settings.items()},
    )
    take(made, "early_stopping_result")
    said = {f"early_stopping_{kind}_result": " * Run successful." for kind in ("ttft", "tpot")}
    put(made, "early_stopping_met", said)
    results: dict[str, object] = {f"result_first_token_{p}_latency_ns": 5 for p in TOKEN_PARTS}
    results |= {f"result_time_to_output_token_{p}": 6 for p in TOKEN_PARTS[:3]}
    results |= {f"result_time_per_output_token_{p}_ns": 8 for p in TOKEN_PARTS[3:]}
    results |= {"result_completed_tokens_per_second": 1234.56}
    put(made, "result_99.90_percentile_latency_ns", results)
    path = made / SUMMARY
    text = path.read_text()
    for old, new in (
        ("Early Stopping Result:", "TTFT Early Stopping Result:"),
        ("\n\n====", "\nTPOT Early Stopping Result:\n * Run successful.\n\n===="),
        ("target_latency (ns): 500000000", "ttft_latency (ns): 7\ntpot_latency (ns): 9"),
        ("Result is", "Completed tokens per second: 1234.56\nResult is"),
        ("\n\n================================================\nTest", _TOKENS),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return made


_TOKENS = """
Completed tokens per second                 : 1234.56
Min First Token latency (ns)                : 5
Max First Token latency (ns)                : 5
Mean First Token latency (ns)               : 5
50.00 percentile first token latency (ns)   : 5
99.00 percentile first token latency (ns)   : 5

Min Time to Output Token (ns)                : 6
Max Time per Output Token (ns)                : 6
Mean Time per Output Token (ns)               : 6
50.00 percentile time to output token (ns)   : 8
99.00 percentile time to output token (ns)   : 8

================================================
Test"""


def test_each_line_of_a_summary_that_counts_tokens_is_compared(tmp_path: Path) -> None:
    folder = counting(tmp_path)
    assert told(folder) == {}
    unchecked = told(folder, Verdict.UNCHECKED)
    assert not {"unread lines", "summary"} & unchecked.keys()
    assert not any("summary" in check.by for check in unchecked.values())


@pytest.mark.parametrize(
    ("label", "figure"),
    [
        ("ttft_latency (ns)", "requested_server_ttft_latency"),
        ("tpot_latency (ns)", "requested_server_tpot_latency"),
        ("Min First Token latency (ns)", "result_first_token_min_latency_ns"),
        (
            "99.00 percentile first token latency (ns)",
            "result_first_token_99.00_percentile_latency_ns",
        ),
        ("Max Time per Output Token (ns)", "result_time_to_output_token_max"),
        (
            "50.00 percentile time to output token (ns)",
            "result_time_per_output_token_50.00_percentile_ns",
        ),
    ],
)
def test_an_altered_line_of_it_is_named(label: str, figure: str, tmp_path: Path) -> None:
    folder = counting(tmp_path)
    in_summary(folder, label, plus(1))
    assert told(folder).keys() == {figure}


def test_altered_rates_and_early_stopping_of_tokens_are_named(tmp_path: Path) -> None:
    folder = counting(tmp_path)
    in_summary(folder, "Completed tokens per second", lambda _: "1235.56")
    in_detail(folder, "early_stopping_tpot_result", worded("successful", "unsuccessful"))
    expected = {"result_completed_tokens_per_second", "early_stopping_tpot_result"}
    assert told(folder).keys() == expected


NOTE = """WARNING: sample_concatenate_permutation was set to true.\x20
Generated samples per query might be different as the one in the setting.
Check the generated_samples_per_query line in the detailed log for the real
samples_per_query value
"""


def test_the_note_on_permuted_samples_is_no_odd_line(tmp_path: Path) -> None:
    folder = copied("offline", tmp_path)
    for part in ("requested", "effective"):
        in_detail(folder, f"{part}_sample_concatenate_permutation", lambda _: "true")
    path = folder / SUMMARY
    place = path.read_text().index("\nNo warnings")
    path.write_text(path.read_text()[:place] + NOTE + path.read_text()[place:])
    assert told(folder) == {}
    assert not {"unread lines", "effective_warning"} & told(folder, Verdict.UNCHECKED).keys()


def test_a_system_without_a_name_is_no_odd_line(tmp_path: Path) -> None:
    """As that of a published log of 0.5."""
    folder = copied("single_stream", tmp_path)
    in_detail(folder, "sut_name", lambda _: '""')
    text = (folder / SUMMARY).read_text()
    (folder / SUMMARY).write_text(text.replace("SUT name : PySUT\n", "SUT name : \n"))
    assert told(folder) == {}
    assert "unread lines" not in told(folder, Verdict.UNCHECKED)


# --- single streams that issue whole sets of their samples, as those of 3D-UNet ---


@pytest.mark.parametrize(
    ("version", "asked", "fits"),
    [
        ("3.0", 698, True),
        ("2.0", 697, True),
        ("3.0", 696, True),
        ("3.0", 695, False),
        ("3.0", 701, False),
        ("1.1", 698, False),
        ("6.0.16", 698, False),
    ],
)
def test_whole_sets_of_samples(version: str, asked: int, fits: bool, tmp_path: Path) -> None:
    """Of three samples; before 5.0, no setting in the log tells that they are permuted."""
    folder = as_release(copied("single_stream_untraced", tmp_path), f"{version} @ x")
    in_detail(folder, "requested_min_query_count", lambda _: str(asked))
    for key in ("effective_min_query_count", "effective_min_sample_count"):
        in_detail(folder, key, lambda _: "699")
    in_summary(folder, "min_query_count", lambda _: "699")
    assert ("effective_min_query_count" not in told(folder)) is fits


def test_as_many_sets_as_the_least_duration_may_take(tmp_path: Path) -> None:
    folder = as_release(copied("single_stream_untraced", tmp_path), "2.0 @ x")
    in_detail(folder, "requested_min_query_count", lambda _: "64")
    for key in ("effective_min_query_count", "effective_min_sample_count"):
        in_detail(folder, key, lambda _: "699")
    in_summary(folder, "min_query_count", lambda _: "699")
    assert "effective_min_query_count" in told(folder)
    # At 20000 a second, 680 and 720 are expected in twice so long.
    for duration_ms, fits in ((17, False), (18, True)):
        rewrite(folder, {"effective_min_duration_ms": [duration_ms]})
        assert ("effective_min_query_count" not in told(folder)) is fits


@pytest.mark.parametrize(
    ("version", "permutes", "samples", "fits"),
    [
        ("4.1", True, 66, True),
        ("4.1", True, 64, False),
        ("4.1", False, 66, False),
        ("4.1", False, 64, True),
        ("3.1", None, 66, True),
        ("3.1", None, 64, True),
        ("3.1", None, 65, False),
        ("3.1", None, 67, False),
    ],
)
def test_an_offline_run_that_permutes_its_samples_has_each_as_often(
    version: str, permutes: bool | None, samples: int, fits: bool, tmp_path: Path
) -> None:
    """Of 64 samples of three; a log of 4.1 tells that it permutes them, and not that it has 66."""
    folder = as_release(copied("offline", tmp_path), f"{version} @ x")
    (folder / TRACE).unlink()
    if permutes is not None:
        for part in ("requested", "effective"):
            key = f"{part}_sample_concatenate_permutation"
            put(folder, f"{part}_performance_issue_same_index", {key: permutes})
    rate = f"{samples / 0.024874317:.6g}"
    rewrite(folder, {"result_samples_per_second": [float(rate)]})
    if samples != 64:
        in_summary(folder, "Samples per second", lambda _: rate)
    assert ("result_samples_per_second" not in told(folder)) is fits


# --- multi streams at a fixed rate, of round v1.0 and before ---

BLOCK = (
    "Min latency (ns)                : {}\nMax latency (ns)                : {}\n"
    "Mean latency (ns)               : {}\n50.00 percentile latency (ns)   : {}\n"
)
FIXED_RATE = """Intervals between each IssueQuery:  "qps" : 20, "ms" : 50
50.00 percentile : 1

Per-query latency:  "target_ns" : 50000000, "target_ms" : 50
{queries}
Per-sample latency:
{samples}
"""


@pytest.mark.parametrize("altered", [None, "query_", ""])
def test_latency_of_queries_and_of_samples(altered: str | None, tmp_path: Path) -> None:
    folder = as_release(copied("multi_stream_untraced", tmp_path), "1.0 @ x")
    values = read_run(folder).detail.values

    def block(of: str, percentile: str) -> str:
        keys = [f"result_{name}_{of}latency_ns" for name in ("min", "max", "mean")]
        keys.append(f"result_50.00_percentile_{percentile}latency_ns")
        return BLOCK.format(*(values[key] for key in keys))

    made = FIXED_RATE.format(queries=block("query_", "per_query_"), samples=block("", ""))
    text = (folder / SUMMARY).read_text()
    start, end = text.index("Per-query latency"), text.index("=====\nTest Parameters")
    end = text.rindex("\n", 0, end) + 1
    (folder / SUMMARY).write_text(text[:start] + made + text[end:])
    figures = {f"result_{name}_{of}latency_ns" for name in ("min", "max") for of in ("query_", "")}
    assert not figures & told(folder).keys()
    if altered is not None:
        in_detail(folder, f"result_min_{altered}latency_ns", plus(1))
        assert f"result_min_{altered}latency_ns" in told(folder)
