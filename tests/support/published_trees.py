"""Trees in the forms of MLPerf's rounds, and the mobile app's JSON; nothing in them was measured.

The forms are those of the repositories mobile_results_v* and inference_results_v*; every name and
figure is made up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.contracts.suite_rules import load_suites
from controller.loadgen.releases import BOTH

SEEDS = {rules.version: rules.seeds for rules in load_suites() if rules.seeds}
P90_NS = 2_000_000
SAMPLES = 24576
"""Of the only query of offline."""
RELEASE = "1.0 @ 0123abcdef"
"""A release of which few entries are expected: these logs have only those that something reads."""
RATE = 5000.5
"""Samples a second, offline."""
JSON = dict[str, object]


def log_of(values: Mapping[str, object], errors: Sequence[str] = ()) -> str:
    """Return the text of a detail log with these facts, and with errors that LoadGen logged.

    Each setting in it was asked for as it took effect.
    """
    asked = {f"requested_{name}": values.get(f"effective_{name}") for name in BOTH}
    if values.get("effective_scenario") == "Offline":  # its only query has all samples
        asked["requested_min_query_count"] = values.get("effective_min_sample_count")
    halves = {key: value for key, value in asked.items() if value is not None}
    entries = [(key, value, False) for key, value in ({**halves, **values}).items()]
    entries += [("generic_message", error, True) for error in errors]
    return "".join(_entry(*entry) for entry in entries)


def _entry(key: str, value: object, is_error: bool) -> str:
    meta = {
        "is_error": is_error,
        "is_warning": False,
        "file": "x.cc",
        "line_no": 1,
        "pid": 1,
        "tid": 1,
    }
    said = {"key": key, "value": value, "time_ms": 0.1, "metadata": meta}
    return f":::MLLOG {json.dumps(said)}\n"


def summary_of(values: Mapping[str, object]) -> str:
    """Return the text of the summary that goes with these facts."""
    lines = [
        "=" * 48,
        "MLPerf Results Summary",
        "=" * 48,
        f"Scenario : {values['effective_scenario']}",
        f"Mode     : {values['effective_test_mode']}",
        f"90.00 percentile latency (ns) : {values['result_90.00_percentile_latency_ns']}",
        f"Result is : {values['result_validity']}",
        "",
        "No warnings encountered during test.",
        "",
        "No errors encountered during test.",
    ]
    return "\n".join(lines) + "\n"


def facts_of(
    scenario: str = "SingleStream", version: str = "v4.0", p90_ns: int = P90_NS
) -> dict[str, object]:
    """Return the facts of a VALID performance run of a round, which agree with each other."""
    seeds = SEEDS[version]
    offline = scenario == "Offline"
    # The only query of offline has all samples; one of single_stream comes after the other.
    middle_ns = round(SAMPLES / RATE * 1e9 / 2) if offline else p90_ns
    names = ("p50", "p90", "p99", "mean", "min", "max")
    shares = dict(zip(names, (0.9, 1, 1.2, 0.95, 0.8, 2), strict=True))
    keys = {"p50": "50.00_percentile", "p90": "90.00_percentile", "p99": "99.00_percentile"}
    latencies = {
        f"result_{keys.get(name, name)}_latency_ns": round(middle_ns * share)
        for name, share in shares.items()
    }
    rate = {"result_qps_with_loadgen_overhead": float(f"{0.999e9 / p90_ns:.6g}")}
    return {
        "loadgen_version": RELEASE,
        "test_datetime": "2024-04-01T18:31:23Z",
        "effective_scenario": scenario,
        "effective_test_mode": "PerformanceOnly",
        "effective_min_duration_ms": 0 if offline else 60000,
        "effective_max_duration_ms": 0 if offline else 600000,
        "effective_min_query_count": 1 if offline else 1024,
        "effective_samples_per_query": SAMPLES if offline else 1,
        "effective_min_sample_count": SAMPLES if offline else 1024,
        "effective_performance_sample_count": 1024,
        "effective_qsl_rng_seed": seeds.qsl,
        "effective_sample_index_rng_seed": seeds.sample_index,
        "effective_schedule_rng_seed": seeds.schedule,
        "result_validity": "VALID",
        "result_query_count": 1 if offline else 30000,
        "result_min_duration_met": True,
        "result_min_queries_met": True,
        "early_stopping_met": True,
        **({"result_samples_per_second": RATE} if offline else rate),
        **latencies,
    }


def put(folder: Path, text: str, name: str = "mlperf_log_detail.txt") -> Path:
    """Write a file and its folders; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def put_run(folder: Path, facts: Mapping[str, object], errors: Sequence[str] = ()) -> Path:
    """Write the detail log of a run without a summary, whatever lay there; return its path."""
    (folder / "mlperf_log_summary.txt").unlink(missing_ok=True)
    return put(folder, log_of(facts, errors))


def described(**changes: object) -> str:
    """Return the description of a phone as the rounds from v3.1 on have it."""
    return json.dumps(
        {
            "system": {"Processor_name": "Rocket 9", "SoC_ID": "R9", "Memory": "8 GB"},
            "notes": {"Phone summary": "", "SoC Product information": "Rocket Phone"},
            "software": {"Android_version": "Android 14", "Vendor SDK": "ACME-NN 2.1"},
            **changes,
        }
    )


def app_result(
    benchmark: str = "image_classification",
    scenario: str = "SingleStream",
    accuracy: float = 0.76,
    **changes: object,
) -> JSON:
    """Return a benchmark's result in the app's form from 3.1 on, of the run of `facts_of`."""
    offline = scenario == "Offline"
    run: JSON = {
        "throughput": {"value": 5000.5 if offline else 1e9 / P90_NS},
        "accuracy": None,
        "accuracy2": None,
        "dataset": {
            "name": "ImageNet",
            "type": "IMAGENET",
            "data_path": "",
            "groundtruth_path": "",
        },
        "measured_duration": 60.1,
        "measured_samples": 24576 if offline else 30000,
        "start_datetime": "2024-04-01T18:31:23.345746",
        "loadgen": {
            "query_count": 1 if offline else 30000,
            "latency_mean": P90_NS * 0.95 / 1e9,
            "latency90": P90_NS / 1e9,
            "is_min_duration_met": True,
            "is_min_query_met": True,
            "is_early_stopping_met": True,
            "is_result_valid": True,
        },
    }
    judged: JSON = {
        **run,
        "throughput": None,
        "accuracy": {"normalized": accuracy, "formatted": f"{accuracy:.2%}"},
        "measured_samples": 50000,
        "loadgen": None,
    }
    return {
        "benchmark_id": benchmark,
        "benchmark_name": benchmark,
        "loadgen_scenario": scenario,
        "backend_settings": {
            "accelerator_code": "npu",
            "accelerator_desc": "NPU",
            "framework": "ACMENN",
            "delegate": "NPU0",
            "model_path": "local:///m.bin",
            "batch_size": 1,
            "extra_settings": [],
        },
        "backend_info": {
            "filename": "libacmebackend",
            "vendor_name": "Acme",
            "backend_name": "acmenn",
            "accelerator_name": "NPU",
        },
        "performance_run": run,
        "accuracy_run": judged,
        "min_duration": 0.0 if offline else 60.0,
        "min_samples": 24576 if offline else 1024,
        **changes,
    }


def app_session(*results: JSON, **changes: object) -> JSON:
    """Return the app's JSON from 3.1 on, of a made-up phone."""
    phone = {
        "os_version": "UP1A release-keys",
        "manufacturer": "Acme",
        "model_code": "AC-9",
        "model_name": "Rocket 9",
        "board_code": "rocket",
        "proc_cpuinfo_soc_name": "Unknown",
        "props": [{"type": "socName", "name": "ro.soc.model", "value": "R9"}],
    }
    return {
        "meta": {"uuid": "u-1", "creation_date": "2024-04-01T19:05:49.079771", "upload_date": None},
        "results": list(results or (app_result(),)),
        "environment_info": {
            "platform": "android",
            "value": {"android": phone, "ios": None, "windows": None},
        },
        "build_info": {
            "version": "4.0.0",
            "build_number": "1",
            "official_release_flag": False,
            "dev_test_flag": False,
            "backend_list": ["libacmebackend"],
            "git_branch": "submission-v4.0",
            "git_commit": "0" * 40,
            "git_dirty_flag": True,
        },
        **changes,
    }


def old_session() -> list[JSON]:
    """Return the app's JSON of 2.x: a list, numbers in other places, times in ms."""
    result = app_result("IC_tpu_uint8")
    run = {
        "throughput": 1e9 / P90_NS,
        "accuracy": None,
        "accuracy2": None,
        "dataset": {"name": "", "type": "IMAGENET", "data_path": "", "groundtruth_path": ""},
        "measured_duration_ms": 60100.0,
        "measured_samples": 30000,
        "start_datetime": "2022-08-31T19:01:28.658999Z",
        "loadgen_validity": True,
    }
    judged = {**run, "throughput": None, "accuracy": {"value": 0.76, "string": "76.00%"}}
    result |= {"performance_run": run, "accuracy_run": judged}
    del result["min_duration"]
    return [
        {
            "meta": {"uuid": "u-2", "upload_date": None},
            "results": [{**result, "min_duration_ms": 60000.0}],
            "environment_info": {
                "manufacturer": "Acme",
                "model": "AC-7",
                "os_name": "android",
                "os_version": "12",
            },
            "build_info": {"version": "2.0.0", "git_branch": "submission-v2.1", "git_commit": "0"},
        }
    ]


def mobile_round(root: Path) -> Path:
    """Write a round of MLPerf Mobile that has every layout; return its folder.

    Six results: two systems with folders of tasks and scenarios, one of the app's own folders, one
    submitter without folders of systems.
    """
    tree = root / "mobile_results_v4.0"
    acme, apps, lone = (tree / "closed" / name for name in ("Acme", "Appco", "Lone"))
    system = acme / "results" / "rocket_9"
    for scenario in ("SingleStream", "Offline"):
        task = system / "mobilenetEdgeTPU" / scenario
        put(task / "log_performance", log_of(facts_of(scenario)))
        summary = summary_of(facts_of(scenario))
        put(task / "log_performance", summary, "mlperf_log_summary.txt")
        judged = {**facts_of(scenario), "effective_test_mode": "AccuracyOnly"}
        put(task / "log_accuracy", log_of(judged))
    put(system / "mosaic/SingleStream/log_performance", log_of(facts_of(p90_ns=3_000_000)))
    both = [app_result(), app_result("image_classification_offline", "Offline", 0.75)]
    put(system, json.dumps(app_session(*both)), "result.json")
    put(acme / "systems", described(), "rocket_9.json")
    put(acme / "measurements/rocket_9/mosaic/SingleStream", "{}", "rocket_9_nn_SingleStream.json")
    exported = apps / "results/app_1/2025-11-16T15-50-55.588359"
    put(exported / "super_resolution-performance", log_of(facts_of(p90_ns=9_000_000)))
    put(exported / "super_resolution-accuracy", "x")
    edsr = app_result("super_resolution", accuracy=0.3358)
    put(apps / "results/app_1", json.dumps(app_session(edsr)), "result.json")
    put(apps / "systems", described(), "app_1.json")
    put(lone / "results/mobileBert/SingleStream/log_performance", log_of(facts_of()))
    put(lone / "results/object_detection-performance", log_of(facts_of()))
    put(lone / "systems", described(), "only_one.json")
    return tree


def inference_round(root: Path) -> Path:
    """Write a round of MLPerf Inference; return its folder. One of three systems is an edge CPU."""
    tree = root / "inference_results_v4.0"
    cpu = {"system_type": "edge", "accelerators_per_node": "0", "accelerator_model_name": "N/A"}
    systems = {
        "small_cpu": {**cpu, "host_processor_model_name": "Acme Core 3", "framework": "OpenX 2"},
        "big_cpu": {**cpu, "system_type": "datacenter"},
        "edge_gpu": {**cpu, "accelerators_per_node": "1", "accelerator_model_name": "Acme G1"},
    }
    for name, said in systems.items():
        put(tree / "closed/Acme/systems", json.dumps(said), f"{name}.json")
        task = tree / "closed/Acme/results" / name / "resnet50" / "SingleStream"
        put(task / "performance/run_1", log_of(facts_of()))
        put(task / "accuracy", log_of({**facts_of(), "effective_test_mode": "AccuracyOnly"}))
        text = "accuracy=76.014%, good=38007, total=50000\nhash=00\n"
        put(task / "accuracy", text, "accuracy.txt")
        compliance = tree / "closed/Acme/compliance" / name / "resnet50/SingleStream/TEST01"
        put(compliance / "performance/run_1", log_of(facts_of()))
    return tree
