"""Published trees and JSON as results: what is right in them, and each thing that can be wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceKind
from controller.contracts.imported import ImportedResult, ImportForm
from controller.contracts.result import Validity
from controller.contracts.work import work_of
from controller.imported.published import Published, read_published
from controller.loadgen.logs import SUMMARY
from tests.support.published_trees import (
    P90_NS,
    RELEASE,
    described,
    facts_of,
    inference_round,
    log_of,
    mobile_round,
    old_session,
    put,
    put_run,
    summary_of,
)

CATALOG = load_catalog()
TASK = "closed/Acme/results/rocket_9/mobilenetEdgeTPU/SingleStream/log_performance"


def read(path: Path, round_: str | None = None) -> Published:
    return read_published(path, CATALOG, round_)


def named(found: Published) -> dict[tuple[str, str, str], ImportedResult]:
    return {(r.imported.system, r.workload, r.scenario): r for r in found.results}


def test_a_round_of_mlperf_mobile_is_read_in_every_layout(tmp_path: Path) -> None:
    found = read(mobile_round(tmp_path))
    assert found.left_out == []
    results = named(found)
    assert sorted(results) == [
        ("app_1", "edsr", "single_stream"),
        ("only_one", "mobilebert", "single_stream"),
        ("only_one", "mobiledet", "single_stream"),
        ("rocket_9", "mobilenet_edgetpu", "offline"),
        ("rocket_9", "mobilenet_edgetpu", "single_stream"),
        ("rocket_9", "mosaic", "single_stream"),
    ]
    assert {r.imported.round for r in found.results} == {"v4.0"}
    assert {r.validity for r in found.results} == {Validity.VALID}
    assert {r.device_kind for r in found.results} == {DeviceKind.ANDROID}
    one = results["rocket_9", "mobilenet_edgetpu", "single_stream"]
    assert one.metrics["latency_p90"].value == P90_NS / 1e9
    assert one.metrics["top1"].value == 0.76
    assert one.stack == "acmenn"
    assert one.environment["soc"] == "R9"
    assert one.environment["delegate"] == "NPU0"
    assert one.environment["loadgen"] == RELEASE
    assert one.imported.source == f"{TASK}/mlperf_log_detail.txt"
    assert one.imported.described["system.SoC_ID"] == "R9"
    assert one.imported.division == "closed"
    offline = results["rocket_9", "mobilenet_edgetpu", "offline"]
    assert offline.metrics["throughput"].value == 5000.5
    assert offline.metrics["top1"].value == 0.75
    edsr = results["app_1", "edsr", "single_stream"]
    assert edsr.metrics["PSNR"].value == pytest.approx(33.58)
    assert "top1" not in results["rocket_9", "mosaic", "single_stream"].metrics


def test_its_work_is_that_of_a_run_of_ours_by_the_same_rules(tmp_path: Path) -> None:
    for result in read(mobile_round(tmp_path)).results:
        knobs = CATALOG.workloads[result.workload].knobs
        ours = {name: knob.default for name, knob in knobs.items()} | {"suite_version": "v4.0"}
        theirs = work_of(CATALOG, result.workload, result.scenario, result.stack, result.knobs)
        assert theirs == work_of(CATALOG, result.workload, result.scenario, "litert", ours)


@pytest.mark.parametrize("part", ["closed", "closed/Acme", "closed/Acme/results/rocket_9"])
def test_a_part_of_a_tree_gives_the_same_results(tmp_path: Path, part: str) -> None:
    root = mobile_round(tmp_path)
    whole = {r.run_id: r.imported.source for r in read(root).results}
    some = {r.run_id: r.imported.source for r in read(root / part).results}
    assert some.items() <= whole.items()
    assert len(some) == (6 if part == "closed" else 3)


def test_the_same_tree_elsewhere_gives_the_same_results(tmp_path: Path) -> None:
    here, there = mobile_round(tmp_path / "a"), mobile_round(tmp_path / "b" / "results")
    assert read(here).results == read(there).results


def test_without_the_repositorys_name_the_seeds_say_the_round(tmp_path: Path) -> None:
    root = mobile_round(tmp_path).rename(tmp_path / "tree")
    assert {r.imported.round for r in read(root).results} == {"v4.0"}
    assert {r.imported.round for r in read(root, "v3.1").results} == {"v3.1"}
    strange = {**facts_of(), "effective_qsl_rng_seed": 7}
    lone = root / "closed/Lone/results/mobileBert/SingleStream/log_performance"
    put(lone, log_of(strange))
    (line,) = read(root).left_out
    assert "give it with --round" in line


def test_only_edge_cpus_of_mlperf_inference_are_read(tmp_path: Path) -> None:
    found = read(inference_round(tmp_path))
    (one,) = found.results
    assert (one.workload, one.scenario, one.device_kind) == (
        "resnet50",
        "single_stream",
        DeviceKind.CPU_HOST,
    )
    assert one.imported.title == "MLPerf Inference v4.0"
    assert one.environment["cpu_model"] == "Acme Core 3"
    assert one.metrics["top1"].value == pytest.approx(0.76014)
    trained, random = (
        work_of(CATALOG, one.workload, one.scenario, "eager", {**one.knobs, "weights": weights})
        for weights in ("imagenet_v1", "none")
    )
    theirs = work_of(CATALOG, one.workload, one.scenario, one.stack, one.knobs)
    assert theirs == trained
    assert theirs != random
    assert sorted(line.partition(": ")[2] for line in found.left_out) == [
        "it has accelerators (accelerators_per_node 1)",
        "its system_type is datacenter, not edge",
    ]


def test_a_log_of_an_accuracy_run_of_another_session_gives_no_accuracy(tmp_path: Path) -> None:
    root = mobile_round(tmp_path)
    put_run(root / TASK, {**facts_of(), "result_query_count": 29_999})
    results = [r for r in read(root).results if r.imported.system == "rocket_9"]
    logs = {r.imported.form: r for r in results if r.workload == "mobilenet_edgetpu"}
    assert (
        "top1"
        not in next(
            r
            for r in results
            if r.imported.form is ImportForm.LOGS and r.imported.source.startswith(TASK)
        ).metrics
    )
    assert set(logs) == {ImportForm.LOGS, ImportForm.APP}


def _log(change: Callable[[dict[str, object]], dict[str, object]]) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        put_run(root / TASK, change(facts_of()))

    return write


def _without(key: str) -> Callable[[Path], None]:
    return _log(lambda facts: {k: v for k, v in facts.items() if k != key})


def _with(**changes: object) -> Callable[[Path], None]:
    return _log(lambda facts: {**facts, **changes})


def _text(text: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        put(root / TASK, text)

    return write


def _summary(**changes: object) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        put(root / TASK, summary_of({**facts_of(), **changes}), SUMMARY)

    return write


def _cut_summary(root: Path) -> None:
    put(root / TASK, summary_of(facts_of())[:-1], SUMMARY)


def _bytes(content: bytes) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / TASK / "mlperf_log_detail.txt").write_bytes(content)

    return change


def _linked(root: Path) -> None:
    log = root / TASK / "mlperf_log_detail.txt"
    log.unlink()
    log.symlink_to("/etc/passwd")


def _fifo(root: Path) -> None:
    log = root / TASK / "mlperf_log_detail.txt"
    log.unlink()
    os.mkfifo(log)


def _huge(root: Path) -> None:
    with (root / TASK / "mlperf_log_detail.txt").open("r+b") as file:
        file.truncate(33 * 2**20)


def _misplaced(root: Path) -> None:
    (root / TASK).rename(root / "closed/Acme/results/rocket_9/mobilenetEdgeTPU/log_x")


def _p90(value: object) -> Callable[[Path], None]:
    return _with(**{"result_90.00_percentile_latency_ns": value})


VIOLATIONS: list[tuple[str, Callable[[Path], None], str]] = [
    ("empty", _text(""), "mlperf_log_detail.txt: not a log of LoadGen: empty"),
    ("foreign", _text("Hello\n" * 5), "not a log of LoadGen: Hello"),
    ("cut in a line", _text(log_of(facts_of())[:-30]), "in ':::MLLOG"),
    ("no JSON", _text(':::MLLOG {"key": \n'), "in ':::MLLOG"),
    ("NaN", _text(log_of({**facts_of(), "result_min_latency_ns": float("nan")})), "NaN"),
    ("infinite", _text(log_of({**facts_of(), "result_max_latency_ns": 1e400})), "Infinity"),
    ("nested", _text(":::MLLOG " + "[" * 100_000 + "\n"), "in ':::MLLOG"),
    ("not text", _bytes(b"\xff\xfe\x00"), "byte 0 is not UTF-8 text"),
    ("zeros", _bytes(b"\0" * 1000), "not a log of LoadGen"),
    ("huge", _huge, "it has more than 33554432 bytes"),
    ("link", _linked, "a symbolic link, which is not followed"),
    ("fifo", _fifo, "it is not a regular file"),
    ("other folder", _misplaced, "it lies in no folder as the rounds have it"),
    ("no percentile", _without("result_90.00_percentile_latency_ns"), "has no result_90.00"),
    ("no verdict", _without("result_validity"), "has no result_validity"),
    ("no time", _without("test_datetime"), "has no test_datetime"),
    ("no seeds", _without("effective_qsl_rng_seed"), "has no effective_qsl_rng_seed"),
    ("no version", _without("loadgen_version"), "has no loadgen_version"),
    ("text for a number", _p90("2000000"), "no number"),
    ("true for a number", _with(effective_min_query_count=True), "no number"),
    ("true for a time", _p90(True), "no number"),
    ("list for a number", _p90([1]), "no number"),
    ("negative", _p90(-1), "no count"),
    ("zero", _p90(0), "result_90.00_percentile_latency_ns"),
    ("no rate", _with(result_qps_with_loadgen_overhead=0), "not what LoadGen writes there"),
    ("beyond a double", _p90(10**400), "no number"),
    ("other scenario", _with(effective_scenario="Offline"), "so do effective_scenario"),
    ("unknown scenario", _with(effective_scenario="Sideways"), "'Sideways' is not known"),
    ("accuracy log", _with(effective_test_mode="AccuracyOnly"), "its test mode is AccuracyOnly"),
    ("year 9999999", _with(test_datetime="9999999-01-01"), "its time '9999999-01-01' is none"),
    ("before 1970", _with(test_datetime="1900-01-01T00:00:00Z"), "is none"),
    # What `results verify` refuses.
    ("unknown release", _with(loadgen_version="99.0 @ x"), "LoadGen '99.0 @ x' is not known"),
    ("no last line end", _text(log_of(facts_of())[:-1]), "truncated: its last line has no end"),
    ("below the minimum", _p90(1_599_999), "result_90.00_percentile_latency_ns"),
    (
        "mean too large",
        _with(result_mean_latency_ns=1_990_000),
        "result_mean_latency_ns says 1990000, but is",
    ),
    ("VALID but too short", _with(result_qps_with_loadgen_overhead=520.0), "result_min_duration"),
    ("VALID with too few", _with(effective_min_query_count=40_000), "result_min_queries_met"),
    (
        "verdict alone",
        _with(result_validity="INVALID"),
        "result_validity says INVALID, but is VALID",
    ),
    ("a rate too high", _with(result_qps_with_loadgen_overhead=9e3), "result_qps_with_loadgen"),
    ("other summary", _summary(result_validity="INVALID"), "INVALID, but is VALID by summary"),
    ("cut summary", _cut_summary, "mlperf_log_summary.txt: truncated"),
]


@pytest.mark.parametrize(
    ("violate", "why"), [v[1:] for v in VIOLATIONS], ids=[v[0] for v in VIOLATIONS]
)
def test_a_damaged_log_is_left_out_with_one_line_and_the_rest_is_read(
    tmp_path: Path, violate: Callable[[Path], None], why: str
) -> None:
    root = mobile_round(tmp_path)
    (root / "closed/Acme/results/rocket_9/result.json").unlink()
    violate(root)
    found = read(root)
    assert len(found.results) == 5
    (line,) = found.left_out
    assert why in line
    assert "\n" not in line
    assert line.startswith("closed/Acme/")
    assert len(line) < 400


def test_a_log_in_the_wrong_folder_is_left_out(tmp_path: Path) -> None:
    root = mobile_round(tmp_path)
    put_run(root / TASK, facts_of("Offline"))
    assert any("its folder says single_stream, the log offline" in x for x in read(root).left_out)


@pytest.mark.parametrize(("samples", "accuracies"), [(30_000, 1), (29_999, 0)])
def test_the_old_json_of_another_run_gives_no_accuracy(
    tmp_path: Path, samples: int, accuracies: int
) -> None:
    (old,) = old_session()
    (result,) = cast(list[dict[str, dict[str, object]]], old["results"])
    result["performance_run"]["measured_samples"] = samples
    root = tmp_path / "mobile_results_v2.1/closed/Lone"
    put(root / "results/mobilenetEdgeTPU/SingleStream/log_performance", log_of(facts_of()))
    put(root / "results", json.dumps([old]), "results.json")
    put(root / "systems", described(), "The_One.json")
    found = read(root)
    (log,) = [r for r in found.results if r.imported.form is ImportForm.LOGS]
    assert log.imported.system == "The_One"
    assert sum("top1" in r.metrics for r in found.results if r is log) == accuracies
    assert len(found.results) == 2 - accuracies
