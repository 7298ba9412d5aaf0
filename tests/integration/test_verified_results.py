"""Results that our runner makes with LoadGen: verified as they are, and with a figure altered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.inference.runner.dataset import Dataset
from agents.inference.runner.graphs import Sample
from agents.inference.runner.measuring import Prepared, measured
from agents.inference.runner.session import TRACED_FROM_S, Session, WarmUp
from agents.inference.runner.spec import RunSpec
from controller.contracts.device import DeviceKind
from controller.contracts.manifests import QualityTarget
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.suite_rules import load_suites
from controller.contracts.units import Unit
from controller.loadgen.checks import Check, Verdict
from controller.loadgen.own_latencies import FILE, read_latencies
from controller.loadgen.run_logs import read_run
from controller.loadgen.stored_checks import quality_check, ruled_checks, stored_checks
from controller.loadgen.verifying import verify

pytestmark = pytest.mark.integration

DATA = Dataset([np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1) * 10])
SCENARIOS: Mapping[str, dict[str, object]] = {
    "single_stream": {"min_query_count": 700},
    "multi_stream": {"min_query_count": 700, "samples_per_query": 2},
    "offline": {"min_query_count": 64},
    "server": {"min_query_count": 700, "target_qps": 3000.0, "target_latency_ms": 60_000.0},
}
OF_TRACED = [(name, traced) for name in SCENARIOS for traced in (False, True)]


class Echo:
    """Names an image by its only pixel."""

    def prepare(self, arrays: list[NDArray[Any]]) -> Sample:
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        return np.array([sample[0].max()], np.int64)


@cache
def ran(scenario: str, traced: bool, seed: int = 1) -> tuple[StoredResult, Path]:
    """Return a stored result of our runner and the folder of its logs."""
    folder = Path(mkdtemp(prefix=f"verified-{scenario}-"))
    given: dict[str, object] = {
        "model": "none",
        "dataset": "none",
        "log_dir": str(folder),
        "scenario": scenario,
        "mode": "performance",
        "min_duration_ms": 0,
        "max_duration_ms": 60_000,  # sooner than any round allows
        "performance_sample_count": 3,
        "threads": 1,
        "delegate": "xnnpack",
        "batch_size": 1,
        "qsl_rng_seed": seed,
    }
    spec = RunSpec.of(given | SCENARIOS[scenario])
    warmth = WarmUp(8, TRACED_FROM_S if traced else 1e-6)
    if scenario == "server" and traced:
        # So that the rate is that of a traced run, which takes 7 s.
        spec = RunSpec.of(given | SCENARIOS[scenario] | {"target_qps": 1 / TRACED_FROM_S})
    session = Session(Echo(), DATA, spec)  # type: ignore[arg-type]
    found = measured(spec, lambda *_: None, lambda: Prepared(session, warmth, 5, {}))
    result = Result.model_validate(found)
    metrics = dict(result.metrics)
    if scenario == "single_stream":
        samples = tuple(ns / 1e9 for ns in read_latencies(folder / FILE) or ())
        metrics["latency"] = Measurement.of_samples(samples, Unit.SECONDS)
    origin = {
        "run_id": "run-1",
        "sweep_id": "sweep-1",
        "cell_key": "cell",
        "repeat": 0,
        "attempt": 1,
        "device": "host-1",
        "device_kind": DeviceKind.CPU_HOST,
        "virtual": False,
        "workload": "mosaic",
        "stack": "litert",
        "scenario": scenario,
        "knobs": {"suite_version": "v4.0"},
        "started_at": 0.0,
        "counted": True,
    }
    fields = {name: getattr(result, name) for name in ("validity", "reasons", "environment")}
    stored = {**origin, **fields, "metrics": metrics, "artefacts": result.artefacts}
    return StoredResult.model_validate(stored), folder


def checks_of(result: StoredResult, folder: Path) -> list[Check]:
    run = read_run(folder)
    return [*verify(run), *stored_checks(result, run, folder)]


def differing(result: StoredResult, folder: Path) -> set[str]:
    found = checks_of(result, folder)
    return {check.figure for check in found if check.verdict is Verdict.DIFFERS}


@pytest.mark.parametrize(("scenario", "traced"), OF_TRACED)
def test_every_figure_of_an_unaltered_result_is_the_same(scenario: str, traced: bool) -> None:
    result, folder = ran(scenario, traced)
    assert ("loadgen_trace" in result.artefacts) is traced
    assert result.validity is Validity.VALID, result.reasons
    checks = checks_of(result, folder)
    assert [check for check in checks if check.verdict is Verdict.DIFFERS] == []
    exact = [check for check in checks if check.by == "mlperf_log_trace.json"]
    assert bool(exact) is traced


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_altered_figure_of_a_result_is_named(scenario: str) -> None:
    result, folder = ran(scenario, traced=False)
    names = [name for name in result.metrics if name != "peak_memory"]
    assert names
    for name in names:
        metric = result.metrics[name]
        other = metric.model_copy(update={"value": metric.value * (1 + 1e-6)})
        altered = result.model_copy(update={"metrics": {**result.metrics, name: other}})
        assert differing(altered, folder) == {name}
    for name in ("min_query_count", "min_duration_ms", "max_duration_ms", "performance_samples"):
        facts = {**result.environment, name: 7}
        assert differing(result.model_copy(update={"environment": facts}), folder) == {name}
    facts = {**result.environment, "loadgen_seeds": ("2", "0", "0"), "loadgen": "5.0"}
    odd = differing(result.model_copy(update={"environment": facts}), folder)
    assert odd == {"loadgen_seeds", "loadgen"}
    other_scenario = result.model_copy(update={"scenario": "training"})
    assert differing(other_scenario, folder) == {"scenario"}


def test_a_raw_latency_that_was_altered_in_a_result_is_named() -> None:
    result, folder = ran("single_stream", traced=False)
    metric = result.metrics["latency"]
    samples = (*metric.samples[:-1], metric.samples[-1] * 2)
    other = metric.model_copy(update={"samples": samples})
    altered = result.model_copy(update={"metrics": {**result.metrics, "latency": other}})
    assert differing(altered, folder) == {"latency samples"}


def test_an_invalid_run_that_is_called_valid_is_named(tmp_path: Path) -> None:
    result, folder = ran("single_stream", traced=False)
    path = folder / "mlperf_log_detail.txt"
    kept = path.read_text()
    try:
        path.write_text(
            kept.replace(
                '"early_stopping_met", "value": true', '"early_stopping_met", "value": false'
            ).replace(
                '"result_validity", "value": "VALID"', '"result_validity", "value": "INVALID"'
            )
        )
        assert "validity" in differing(result, folder)
    finally:
        path.write_text(kept)


def test_a_rule_that_a_result_says_it_misses_is_no_difference() -> None:
    result, folder = ran("single_stream", traced=False)
    run = read_run(folder)
    rules = next(r for r in load_suites() if r.version == "v4.0")

    def odd(told: bool) -> set[str]:
        facts = {**result.environment, "meets_run_rules": not told}
        of = result.model_copy(update={"environment": facts})
        found = ruled_checks(of, run, rules, "mosaic")
        return {check.figure for check in found if check.verdict is Verdict.DIFFERS}

    lengths = {
        "effective_min_query_count",
        "effective_min_duration_ms",
        "effective_max_duration_ms",
        "effective_performance_sample_count",
        "result_query_count",
    }
    seeds = {f"effective_{name}_rng_seed" for name in ("qsl", "sample_index", "schedule")}
    assert odd(told=False) == lengths | seeds
    assert odd(told=True) == seeds


def test_an_accuracy_below_its_target_is_named_unless_the_result_is_invalid() -> None:
    result, _ = ran("single_stream", traced=False)
    target = QualityTarget(metric="mIoU", value=0.574)
    assert quality_check(result, target).verdict is Verdict.UNCHECKED
    scored = {**result.metrics, "mIoU": Measurement(value=0.57, unit=Unit.FRACTION)}
    low = result.model_copy(update={"metrics": scored})
    assert quality_check(low, target).verdict is Verdict.DIFFERS
    invalid = low.model_copy(update={"validity": Validity.INVALID, "reasons": ("low",)})
    assert quality_check(invalid, target).verdict is Verdict.SAME
    assert quality_check(low, None).verdict is Verdict.UNCHECKED
