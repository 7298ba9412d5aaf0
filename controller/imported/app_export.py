"""Results of a phone as the mobile app's result JSON, in its form of releases 3.1 to 5.0. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from controller.contracts.base import scalar_text
from controller.contracts.catalog import Catalog
from controller.contracts.result import Measurement
from controller.imported.exportable import Exportable
from controller.imported.figures import as_fraction
from controller.imported.tasks import ACCURACY_METRIC
from controller.loadgen import logs

_NAMESPACE: Final = uuid.UUID("6f6c3c1e-7d2a-5d0b-9d52-0f6a3b1f0a11")
_DATASETS: Final[Mapping[str, str]] = {
    "top1": "IMAGENET",
    "mAP": "COCO",
    "mIoU": "ADE20K",
    "F1": "SQUAD",
    "PSNR": "SNUSR",
}
"""Metric of the accuracy → the app's type of the data set."""
_FORMATS: Final = {"top1": "{:.2%}", "mAP": "{:.4f} mAP", "mIoU": "{:.4f} mIoU"}

Json = dict[str, object]


class RunLogs(NamedTuple):
    """LoadGen's detail logs of a result."""

    performance: logs.DetailLog
    accuracy: logs.DetailLog | None
    doubts: tuple[str, ...] = ()
    """What is wrong with the logs of each run, its traces and answers included."""


def app_json(
    of_phone: Sequence[Exportable],
    run_logs: Mapping[str, RunLogs],
    catalog: Catalog,
    version: str,
) -> str:
    """Return the JSON of a phone's results.

    run_logs: by run id. version: benchfarm's. Raises LogUnreadable.
    """
    results = [_result(one, run_logs[one.result.run_id], catalog) for one in of_phone]
    newest = max(one.result.started_at for one in of_phone)
    ids = " ".join(sorted(one.result.run_id for one in of_phone))
    session: Json = {
        "meta": {
            "uuid": str(uuid.uuid5(_NAMESPACE, ids)),
            "creation_date": _moment(newest),
            "upload_date": None,
        },
        "results": results,
        "environment_info": _environment(of_phone[0]),
        "build_info": {
            "version": version,
            "build_number": "",
            "official_release_flag": False,
            "dev_test_flag": True,
            "backend_list": sorted({one.result.stack for one in of_phone}),
            "git_branch": "benchfarm",
            "git_commit": "",
            "git_dirty_flag": False,
        },
    }
    return json.dumps(session, indent=2, allow_nan=False) + "\n"


def _result(one: Exportable, of_run: RunLogs, catalog: Catalog) -> Json:
    result, asked = one.result, logs.asked(of_run.performance, one.result.scenario)
    known = catalog.workloads.get(result.workload)
    delegate = str(result.environment.get("delegate") or "")
    at_once = result.environment.get("samples_at_once")
    return {
        "benchmark_id": one.app_benchmark,
        "benchmark_name": known.title if known else result.workload,
        "loadgen_scenario": one.scenario,
        "backend_settings": {
            "accelerator_code": delegate,
            "accelerator_desc": delegate,
            "framework": result.stack,
            "delegate": delegate,
            "model_path": "",
            "batch_size": at_once if isinstance(at_once, int) else 1,
            "extra_settings": [
                {"id": n, "name": n, "value": scalar_text(v), "value_name": scalar_text(v)}
                for n, v in result.knobs.items()
            ],
        },
        "backend_info": {
            "filename": "",
            "vendor_name": "benchfarm",
            "backend_name": result.stack,
            "accelerator_name": delegate,
        },
        "performance_run": _performance(one, of_run.performance),
        "accuracy_run": _accuracy(one, of_run.accuracy),
        "min_duration": float(str(asked["min_duration_ms"])) / 1e3,
        "min_samples": asked["min_query_count"],
    }


def _performance(one: Exportable, log: logs.DetailLog) -> Json:
    metrics, scenario = one.result.metrics, one.result.scenario
    offline = scenario == "offline"
    # Of offline, the only query's latency is the whole run.
    whole_s = float(log["result_max_latency_ns"]) / 1e9
    p90 = whole_s if offline else metrics["latency_p90"].value
    mean = whole_s if offline else metrics["latency_mean"].value
    rate = metrics["throughput"].value if offline else 1 / p90
    queries = log["result_query_count"]
    samples = one.result.environment.get("samples")
    return {
        "throughput": {"value": rate},
        "accuracy": None,
        "accuracy2": None,
        "dataset": _dataset(one),
        "measured_duration": metrics["duration"].value,
        "measured_samples": samples if isinstance(samples, int) else queries,
        "start_datetime": _moment(one.result.started_at),
        "loadgen": {
            "query_count": queries,
            "latency_mean": mean,
            "latency90": p90,
            "is_min_duration_met": bool(log["result_min_duration_met"]),
            "is_min_query_met": bool(log["result_min_queries_met"]),
            "is_early_stopping_met": bool(log.values.get("early_stopping_met", True)),
            "is_result_valid": not logs.objections(log),
        },
    }


def _accuracy(one: Exportable, log: logs.DetailLog | None) -> Json | None:
    metric = ACCURACY_METRIC[one.result.workload]
    found = one.result.metrics.get(metric)
    if found is None:
        return None
    samples = log.values.get("qsl_reported_total_count") if log else None
    return {
        "throughput": None,
        "accuracy": {"normalized": as_fraction(found), "formatted": _formatted(metric, found)},
        "accuracy2": None,
        "dataset": _dataset(one),
        "measured_duration": 0.0,
        "measured_samples": samples if isinstance(samples, int) else 0,
        "start_datetime": _moment(one.result.started_at),
        "loadgen": None,
    }


def _formatted(metric: str, accuracy: Measurement) -> str:
    """Return an accuracy as the app writes it."""
    if metric == "PSNR":
        return f"{accuracy.value:.2f} dB"
    if metric == "F1":
        return f"{accuracy.value * 100:.4f}"
    return _FORMATS[metric].format(accuracy.value)


def _dataset(one: Exportable) -> Json:
    return {
        "name": str(one.result.knobs["dataset"]) if "dataset" in one.result.knobs else "",
        "type": _DATASETS[ACCURACY_METRIC[one.result.workload]],
        "data_path": "",
        "groundtruth_path": "",
    }


def _environment(one: Exportable) -> Json:
    said = {n: str(v) for n, v in one.result.environment.items() if v is not None}
    props = [{"type": "socName", "name": "ro.soc.model", "value": said["soc"]}] * ("soc" in said)
    phone = {
        "os_version": said.get("fingerprint", said.get("android", "")),
        "manufacturer": said.get("manufacturer", ""),
        "model_code": said.get("model", ""),
        "model_name": said.get("model", ""),
        "board_code": "",
        "proc_cpuinfo_soc_name": None,
        "props": props,
    }
    return {"platform": "android", "value": {"android": phone, "ios": None, "windows": None}}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
