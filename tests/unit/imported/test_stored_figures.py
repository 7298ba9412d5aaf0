"""What is stored of a run is not exported beside a log that says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.contracts.records import StoredResult
from controller.loadgen.logs import SUMMARY
from tests.support.exportable_results import phone_result, write_app_json, write_tree
from tests.support.published_trees import RELEASE, facts_of, log_of


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))


def _changed(**changes: object) -> Callable[[StoredResult], StoredResult]:
    return lambda result: result.model_copy(update=changes)


def _stored(name: str, value: float) -> Callable[[StoredResult], StoredResult]:
    def change(one: StoredResult) -> StoredResult:
        metric = one.metrics[name].model_copy(update={"value": value})
        return one.model_copy(update={"metrics": {**one.metrics, name: metric}})

    return change


def _without(name: str) -> Callable[[StoredResult], StoredResult]:
    return lambda one: one.model_copy(
        update={"metrics": {n: m for n, m in one.metrics.items() if n != name}}
    )


def _log_says(**changes: object) -> Callable[[StoredResult], StoredResult]:
    def change(one: StoredResult) -> StoredResult:
        path = Path(one.artefacts["performance_loadgen_detail"])
        path.write_text(log_of({**facts_of(p90_ns=2_345_679), **changes}))
        path.with_name(SUMMARY).unlink()
        return one.model_copy(
            update={
                "artefacts": {n: p for n, p in one.artefacts.items() if not p.endswith(SUMMARY)}
            }
        )

    return change


OTHERWISE = [
    (_stored("latency_p90", 0.002345678), "latency_p90 is 0.002345678, in its log 0.002345679"),
    (_stored("latency_p90", 0.0001), "latency_p90 is 0.0001, in its log"),
    (_stored("latency_mean", 0.001), "latency_mean is 0.001, in its log"),
    (_stored("duration", 60.0), "duration is 60.0, in its log"),
    (_without("latency_p90"), "latency_p90 is missing, in its log"),
    (_changed(scenario="offline"), "scenario is offline, in its log SingleStream"),
    (
        _log_says(
            result_validity="INVALID",
            result_min_duration_met=False,
            effective_min_duration_ms=80_000,
        ),
        "validity is VALID, in its log INVALID: too short",
    ),
]


@pytest.mark.parametrize(("change", "why"), OTHERWISE)
@pytest.mark.parametrize("write", [write_tree, write_app_json])
def test_a_result_whose_figures_are_not_its_logs_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[StoredResult], StoredResult],
    why: str,
    write: Callable[[list[StoredResult], Path], None],
) -> None:
    with pytest.raises(UserError, match="none of 1 results"):
        write([change(phone_result(tmp_path))], tmp_path / "out")
    (line,) = capsys.readouterr().err.splitlines()
    assert "its figures are not those of its log: " in line
    assert why in line
    assert not (tmp_path / "out").exists()


def test_what_only_its_log_says_otherwise_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"result_max_latency_ns": 1_000}
    one = phone_result(tmp_path)
    one = _log_says(**odd)(one)
    facts = {**one.environment, "loadgen": "5.0 @ x", "min_query_count": 2048}
    one = _stored("latency_max", 1e-6)(one).model_copy(update={"environment": facts})
    write_tree([one], tmp_path / "out")
    page = (tmp_path / "out/TO_FILL_IN.md").read_text()
    said = capsys.readouterr().out
    for line in (
        "log_performance: it contradicts itself: result_99.00_percentile_latency_ns says",
        f"not as in its log: loadgen is 5.0 @ x, in its log {RELEASE}",
        "not as in its log: min_query_count is 2048, in its log 1024",
    ):
        assert line in page
    assert "contradicts itself" in said
    write_app_json([one], tmp_path / "result.json")
    assert "a reviewer would refuse its logs" in capsys.readouterr().out
