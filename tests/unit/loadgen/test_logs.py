"""What is read from LoadGen's logs.

`loadgen_logs` was recorded from LoadGen 6.0.16 driving the int8 shapes classifier on 20 images;
of the detail logs, the lines about settings that nobody reads are cut.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from controller.loadgen import logs
from controller.loadgen.logs import DetailLog, LogUnreadable
from models.mobile.metrics import read_answers

RECORDED = Path(__file__).parent / "loadgen_logs"
PERFORMANCE = ("valid", "ran_out", "too_few", "offline")


def detail(name: str) -> DetailLog:
    return DetailLog.parse(logs.read(RECORDED / name, logs.DETAIL))


def summary(name: str) -> str:
    return logs.read(RECORDED / name, logs.SUMMARY)


def in_summary(name: str, label: str) -> float:
    found = re.search(rf"{re.escape(label)}\s*: ([\d.]+)", summary(name))
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("name", PERFORMANCE)
def test_validity_is_loadgens(name: str) -> None:
    assert bool(logs.objections(detail(name))) == ("Result is : INVALID" in summary(name))


def test_running_out_of_queries_is_named_with_the_duration_it_missed() -> None:
    assert logs.objections(detail("ran_out")) == (
        "too short: the minimum duration of 2000 ms was not reached",
        (
            "LoadGen: Ending early: Ran out of generated queries to issue before the minimum query "
            "count and test duration were reached. Please update the relevant expected latency or "
            "target qps in the TestSettings so they are more accurate."
        ),
    )


def test_too_few_queries_for_early_stopping_are_named() -> None:
    assert logs.objections(detail("too_few")) == (
        (
            "early stopping not satisfied: Only processed 20 queries. "
            "Need to process at least 64 queries for early stopping."
        ),
    )


def test_too_few_queries_by_the_rules_are_counted() -> None:
    values = {**detail("too_few").values, "result_min_queries_met": False}
    values |= {"early_stopping_met": True, "effective_min_query_count": 64}
    assert logs.objections(DetailLog(values, ())) == ("too few queries: 20 of at least 64",)


LONGEST = "Ending early: Max test duration reached."
"""LoadGen's error of a run that its longest duration has ended."""


@pytest.mark.parametrize(
    ("facts", "errors", "ended"),
    [
        ({"early_stopping_met": True}, (LONGEST,), True),
        ({"early_stopping_met": True, "result_min_queries_met": True}, (LONGEST,), True),
        ({"early_stopping_met": False}, (LONGEST,), False),
        ({"early_stopping_met": False, "result_min_queries_met": True}, (LONGEST,), False),
        ({"early_stopping_met": True, "result_min_duration_met": False}, (LONGEST,), False),
        ({"early_stopping_met": True}, (LONGEST, "another"), False),
        ({"early_stopping_met": True}, (), False),
        ({}, (LONGEST,), False),
        ({"result_min_queries_met": True}, (LONGEST,), True),
        ({"result_min_queries_met": True, "result_min_duration_met": False}, (LONGEST,), False),
    ],
)
def test_the_longest_duration_ends_a_run_with_enough_queries_for_its_loadgen(
    facts: dict[str, bool], errors: tuple[str, ...], ended: bool
) -> None:
    """Enough are those of early stopping; of a LoadGen that knows none, the least number."""
    unknown = {"early_stopping_met", "early_stopping_result", "result_query_count"}
    known = {key: value for key, value in detail("valid").values.items() if key not in unknown}
    values = {**known, "result_validity": "INVALID", "result_min_queries_met": False, **facts}
    if "early_stopping_met" in facts:
        values |= {"early_stopping_result": " * Only processed 20 queries."}
    log = DetailLog(values, errors)
    assert logs.ended_at_longest(log) is ended
    assert (logs.objections(log) == ()) is ended


def test_too_few_queries_of_a_loadgen_that_does_not_count_them_are_named() -> None:
    known = detail("too_few").values
    values = {key: value for key, value in known.items() if key != "result_query_count"}
    values |= {"result_min_queries_met": False, "effective_min_query_count": 1024}
    values |= {"early_stopping_met": True}
    assert logs.objections(DetailLog(values, (LONGEST[:-1],)))[0] == (
        "too few queries: fewer than 1024"
    )


@pytest.mark.parametrize("name", ["valid", "offline"])
def test_an_error_that_loadgen_logged_makes_a_run_invalid_whatever_its_verdict(name: str) -> None:
    values = detail(name).values
    assert values["result_validity"] == "VALID"
    error = "QuerySamplesComplete: a sample was completed twice."
    assert logs.objections(DetailLog(values, (error,))) == (f"LoadGen: {error}",)
    assert logs.objections(DetailLog(values, (LONGEST, error))) == (f"LoadGen: {error}",)
    assert logs.objections(DetailLog(values, (LONGEST,))) == ()


def test_an_invalid_run_never_goes_without_a_reason() -> None:
    values = {**detail("valid").values, "result_validity": "INVALID"}
    assert logs.objections(DetailLog(values, ())) == ("LoadGen says INVALID: it gives no reason",)


@pytest.mark.parametrize("name", ["valid", "ran_out", "too_few"])
def test_latencies_are_the_summarys_in_seconds(name: str) -> None:
    metrics = logs.latency_metrics(detail(name), "single_stream")
    for metric, label in {
        "latency_p50": "50.00 percentile latency (ns)",
        "latency_p90": "90.0th percentile latency (ns)",
        "latency_p99": "99.00 percentile latency (ns)",
        "latency_mean": "Mean latency (ns)",
        "latency_min": "Min latency (ns)",
        "latency_max": "Max latency (ns)",
    }.items():
        assert metrics[metric] == in_summary(name, label) / 1e9


def test_early_stopping_estimates_are_there_only_when_loadgen_has_them() -> None:
    valid = logs.latency_metrics(detail("valid"), "single_stream")
    p90 = in_summary("valid", "Early stopping 90.0th percentile estimate")
    p99 = in_summary("valid", "Early stopping 99.0th percentile estimate")
    assert (valid["early_stopping_p90"], valid["early_stopping_p99"]) == (p90 / 1e9, p99 / 1e9)
    assert "early_stopping_p99" not in logs.latency_metrics(detail("ran_out"), "single_stream")
    assert "early_stopping_p90" not in logs.latency_metrics(detail("too_few"), "single_stream")


def test_offline_lasts_as_long_as_its_one_query() -> None:
    log = detail("offline")
    samples = log["result_samples_per_second"] * logs.duration_s(log, "offline")
    assert samples == pytest.approx(64, rel=1e-5)  # LoadGen prints six digits


def test_single_stream_lasts_as_long_as_its_queries() -> None:
    log = detail("valid")
    least = log["result_query_count"] * log["result_mean_latency_ns"] / 1e9
    assert least <= logs.duration_s(log, "single_stream") < 1.5 * least


def test_answers_are_loadgens_by_their_own_sample() -> None:
    recorded = RECORDED / "accuracy" / logs.ACCURACY
    found = read_answers(recorded, 20)
    assert found.objections == ()
    for entry in json.loads(recorded.read_text()):
        assert found.by_sample[entry["qsl_idx"]].hex().upper() == entry["data"].upper()


def test_an_accuracy_run_over_a_part_of_the_set_is_told(tmp_path: Path) -> None:
    answers = json.loads((RECORDED / "accuracy" / logs.ACCURACY).read_text())
    part = tmp_path / logs.ACCURACY
    lines = ",\n".join(json.dumps(entry) for entry in answers[:5] + answers[:2])
    part.write_text(f"[\n{lines}\n]\n")
    assert read_answers(part, 20).objections == (
        "accuracy run answered 5 of 20 samples",
        "accuracy run answered 2 samples twice",
    )


@pytest.mark.parametrize(
    "line", [":::MLLOG {", ":::MLLOG {}", ":::MLLOG []", ':::MLLOG {"key": "a", "value": 1}']
)
def test_a_broken_detail_log_is_a_fault(line: str) -> None:
    with pytest.raises(LogUnreadable, match=r"mlperf_log_detail\.txt"):
        DetailLog.parse(line)


def test_a_log_without_a_verdict_is_a_fault() -> None:
    with pytest.raises(LogUnreadable, match="has no result_validity"):
        logs.objections(detail("accuracy"))


def test_a_missing_log_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(LogUnreadable, match="No such file"):
        logs.read(tmp_path, logs.DETAIL)


def test_a_log_without_early_stopping_has_its_other_latencies() -> None:
    """Single-stream logs of round v2.0 lack `early_stopping_met`."""
    log = detail("valid")
    without = {key: value for key, value in log.values.items() if key != "early_stopping_met"}
    whole = logs.latency_metrics(log, "single_stream")
    expected = {name: value for name, value in whole.items() if "early_stopping" not in name}
    assert logs.latency_metrics(DetailLog(without, ()), "single_stream") == expected
    assert logs.objections(DetailLog(without, ())) == ()


@pytest.mark.parametrize(
    "value",
    ["NaN", "Infinity", "-Infinity", "[" * 200_000, "9" * 5000],
    ids=["nan", "infinity", "minus_infinity", "deep", "huge"],
)
def test_a_hostile_value_is_refused_in_one_short_line(value: str) -> None:
    line = f':::MLLOG {{"key": "k", "value": {value}, "metadata": {{"is_error": false}}}}'
    with pytest.raises(LogUnreadable) as refused:
        DetailLog.parse(line)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
