"""Results of a phone with LoadGen's logs beside them; nothing of it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from controller.cli.results_submission import export_app_json, export_tree
from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceKind
from controller.contracts.manifests import defaults_of
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.imported.tasks import ACCURACY_METRIC
from controller.loadgen import logs
from tests.support.artefacts import Head, bring_home
from tests.support.published_trees import facts_of, log_of, put, summary_of

LOADGENS = {"single_stream": "SingleStream", "offline": "Offline"}
CATALOG = load_catalog()


def phone_result(
    folder: Path,
    workload: str = "mobilenet_edgetpu",
    scenario: str = "single_stream",
    accuracy: float = 0.7612345678901234,
    p90_ns: int = 2_345_679,
    round_: str = "v4.0",
    **changes: object,
) -> StoredResult:
    """Return a VALID result, changed by keyword, whose logs lie in a farm's folder as its agent
    keeps them; its figures are theirs."""
    facts = facts_of(LOADGENS[scenario], round_, p90_ns)
    log = logs.DetailLog.parse(log_of(facts))
    judged = {**facts, "effective_test_mode": "AccuracyOnly", "qsl_reported_total_count": 50000}
    run_id = str(changes.get("run_id", f"{workload}-{scenario}"))
    own = folder / "agent" / "runs" / run_id / "1"
    files = {
        "performance_loadgen_detail": put(own / "performance", log_of(facts)),
        "performance_loadgen_summary": put(own / "performance", summary_of(facts), logs.SUMMARY),
        "accuracy_loadgen_detail": put(own / "accuracy", log_of(judged)),
        "accuracy_loadgen_accuracy": put(own / "accuracy", "[]\n", logs.ACCURACY),
    }
    metric = ACCURACY_METRIC[workload]
    metrics = {"duration": Measurement(value=logs.duration_s(log, scenario), unit=Unit.SECONDS)}
    if (rate := logs.throughput(log, scenario)) is not None:
        metrics["throughput"] = Measurement(value=rate, unit=Unit.SAMPLES_PER_SECOND)
    if scenario != "offline":
        for name, seconds in logs.latency_metrics(log, scenario).items():
            metrics[name] = Measurement(value=seconds, unit=Unit.SECONDS)
    unit = Unit.DECIBELS if metric == "PSNR" else Unit.FRACTION
    metrics[metric] = Measurement(value=accuracy, unit=unit)
    knobs = {**defaults_of(CATALOG.workloads[workload].knobs), "suite_version": round_}
    told: dict[str, object] = {
        "run_id": run_id,
        "sweep_id": "suite-1",
        "cell_key": "c",
        "repeat": 0,
        "attempt": 1,
        "device": "phone-1",
        "device_name": "Rocket",
        "device_kind": DeviceKind.ANDROID,
        "virtual": False,
        "workload": workload,
        "stack": "litert",
        "scenario": scenario,
        "knobs": knobs,
        "started_at": 1_711_996_283.0,
        "counted": True,
        "validity": Validity.VALID,
        "reasons": (),
        "metrics": metrics,
        "environment": {
            "manufacturer": "Acme",
            "model": "Rocket 9",
            "soc": "R9",
            "android": "14",
            "litert": "2.3.0",
            "delegate": "xnnpack",
            "loadgen_seeds": tuple(logs.seeds(log)),
            "run_rules_missed": (),
        },
        "artefacts": {name: str(path) for name, path in files.items()},
    }
    return StoredResult.model_validate({**told, **changes})


def write_tree(results: Sequence[StoredResult], output: Path) -> None:
    """Export a tree beside the folder of results whose logs the head has got meanwhile."""
    bring_home(output.parent)
    export_tree(Head(output.parent), results, output)


def write_app_json(results: Sequence[StoredResult], output: Path) -> None:
    """Export the app's JSON in the same way."""
    bring_home(output.parent)
    export_app_json(Head(output.parent), results, output)
