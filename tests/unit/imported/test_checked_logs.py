"""What is believed of published logs and accuracies: what `results verify` would not refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.imported import ImportedResult, ImportForm
from controller.contracts.result import Validity
from controller.imported.published import Published, read_published
from controller.loadgen.logs import DETAIL, DetailLog, latency_metrics, objections, throughput
from tests.support.altered_logs import RECORDED, in_detail, in_summary, plus
from tests.support.published_trees import (
    P90_NS,
    app_result,
    app_session,
    facts_of,
    inference_round,
    mobile_round,
    old_session,
    put,
    put_run,
)

TASK = "closed/Acme/results/rocket_9/mobilenetEdgeTPU/SingleStream/log_performance"


def read(path: Path) -> Published:
    return read_published(path, load_catalog(), None)


def of_task(root: Path) -> ImportedResult:
    """Return the result of the logs in TASK."""
    (one,) = [r for r in read(root).results if r.imported.source.startswith(TASK)]
    return one


SHORT: dict[str, object] = {
    "result_min_duration_met": False,
    "result_qps_with_loadgen_overhead": 520.0,
}
FEW: dict[str, object] = {
    "result_min_queries_met": False,
    "result_query_count": 1000,
    "result_qps_with_loadgen_overhead": 16.5,
}
UNSHOWN: dict[str, object] = {
    "early_stopping_met": False,
    "early_stopping_result": " * Only processed 50 queries.\n"
    " * Need to process at least 64 queries for early stopping.",
    "result_query_count": 50,
    "effective_min_query_count": 1,
    "effective_min_sample_count": 1,
    "result_qps_with_loadgen_overhead": 0.8,
}
INVALID = [
    (SHORT, "too short"),
    (FEW, "too few queries"),
    (UNSHOWN, "early stopping not satisfied"),
]


@pytest.mark.parametrize(("facts", "why"), INVALID)
def test_what_loadgen_called_invalid_stays_so(
    tmp_path: Path, facts: dict[str, object], why: str
) -> None:
    root = mobile_round(tmp_path)
    put_run(root / TASK, {**facts_of(), "result_validity": "INVALID", **facts})
    one = of_task(root)
    assert one.validity is Validity.INVALID
    assert why in one.reasons[0]


def test_a_valid_log_with_errors_is_invalid(tmp_path: Path) -> None:
    root = mobile_round(tmp_path)
    put_run(root / TASK, facts_of(), ["Multiple\nconf files"])
    one = of_task(root)
    assert one.validity is Validity.INVALID
    assert one.reasons == ("LoadGen: Multiple conf files",)


def test_a_run_that_its_longest_duration_ended_is_valid(tmp_path: Path) -> None:
    root = mobile_round(tmp_path)
    few = {**facts_of(), **FEW, "result_validity": "INVALID"}
    put_run(root / TASK, few, ["Ending early: Max test duration reached."])
    one = of_task(root)
    assert one.validity is Validity.VALID


SCENARIOS = ("single_stream", "multi_stream", "offline", "server")
UNTRACED = ("single_stream", "multi_stream", "server")
OWN = "mobile_results_v4.0/closed/Acme/results/rocket_9"


@pytest.mark.parametrize("name", [*SCENARIOS, *(f"{s}_untraced" for s in UNTRACED), "server_late"])
def test_what_loadgen_wrote_is_imported_as_it_is(tmp_path: Path, name: str) -> None:
    """The logs of a real LoadGen."""
    scenario = name.removesuffix("_untraced").removesuffix("_late")
    folder = tmp_path / OWN / "mosaic-performance"
    shutil.copytree(RECORDED / name, folder)
    found = read(tmp_path)
    assert found.left_out == []
    (one,) = found.results
    log = DetailLog.parse((folder / DETAIL).read_text())
    assert one.scenario == scenario
    assert (one.validity is Validity.VALID) == (log["result_validity"] == "VALID")
    assert one.reasons == objections(log)
    assert one.imported.unknown == ()
    metric = load_catalog().scenarios[scenario].metric
    rate = throughput(log, scenario)
    expected = latency_metrics(log, scenario)[metric] if rate is None else rate
    assert one.metrics[metric].value == expected


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_one_figure_altered_in_either_file_leaves_it_out(tmp_path: Path, scenario: str) -> None:
    for number, alter in enumerate((in_detail, in_summary)):
        folder = tmp_path / str(number) / OWN / "mosaic-performance"
        shutil.copytree(RECORDED / scenario, folder)
        key = "result_99.00_percentile_latency_ns"
        label = "99.00 percentile latency (ns)"
        if scenario == "multi_stream":
            key = "result_99.00_percentile_per_query_latency_ns"
        alter(folder, key if alter is in_detail else label, plus(1))
        found = read(tmp_path / str(number))
        assert found.results == []
        (line,) = found.left_out
        assert key in line


def _of_v2_0() -> dict[str, object]:
    """Return facts as LoadGen 1.1 logged them in round v2.0."""
    lacks = ("result_query_count", "early_stopping_met")
    return {key: value for key, value in facts_of(version="v2.0").items() if key not in lacks}


def test_a_log_of_v2_0_is_imported_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    root = tmp_path / "mobile_results_v2.0"
    put_run(root / TASK, _of_v2_0())
    found = read(root)
    assert found.left_out == []
    (one,) = found.results
    assert one.validity is Validity.VALID
    assert one.metrics["latency_p90"].value == P90_NS / 1e9
    assert "duration" not in one.metrics
    assert [line.partition(": ")[0] for line in one.imported.unknown] == [
        "number of queries and duration",
    ]


@pytest.mark.parametrize(("p90_ns", "accuracies"), [(P90_NS, 1), (P90_NS + 100, 0)])
def test_a_log_without_its_count_takes_the_accuracy_of_a_run_with_its_figure(
    tmp_path: Path, p90_ns: int, accuracies: int
) -> None:
    root = tmp_path / "mobile_results_v2.0/closed/Lone"
    facts = {**_of_v2_0(), "result_90.00_percentile_latency_ns": p90_ns}
    put_run(root / "results/mobilenetEdgeTPU/SingleStream/log_performance", facts)
    put(root / "results", json.dumps(old_session()), "results.json")
    found = read(root)
    (log,) = [r for r in found.results if r.imported.form is ImportForm.LOGS]
    assert ("top1" in log.metrics) == bool(accuracies)


@pytest.mark.parametrize("accuracy", [99_999.0, -5.0, 1.01])
def test_an_accuracy_that_is_none_is_left_out(tmp_path: Path, accuracy: float) -> None:
    root = mobile_round(tmp_path)
    bad = app_session(app_result(accuracy=accuracy))
    put(root / "closed/Acme/results/rocket_9", json.dumps(bad), "result.json")
    found = read(root)
    (line,) = found.left_out
    assert "image_classification: its accuracy" in line
    assert "is not between 0 and 1" in line
    (one,) = [r for r in found.results if r.imported.source.startswith(TASK)]
    assert "top1" not in one.metrics
    text = f"accuracy={accuracy * 100:.3f}%, good=1, total=1\n"
    edge = inference_round(tmp_path)
    put(edge / "closed/Acme/results/small_cpu/resnet50/SingleStream/accuracy", text, "accuracy.txt")
    assert all("top1" not in result.metrics for result in read(edge).results)


@pytest.mark.parametrize(("suite", "has"), [("mobile", "v5.0, v6.0"), ("inference", "v5.1, v6.0")])
def test_a_round_that_no_suite_has_had_is_left_out(tmp_path: Path, suite: str, has: str) -> None:
    made = mobile_round(tmp_path) if suite == "mobile" else inference_round(tmp_path)
    root = made.rename(tmp_path / f"{suite}_results_v77.7")
    found = read(root)
    assert found.results == []
    assert any("has no round v77.7" in line and has in line for line in found.left_out)
