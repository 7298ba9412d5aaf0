from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.cli.demo_metrics import Values, begin, changes, span, stored_values, values_of
from controller.contracts.records import NewestResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.contracts.work import work_of
from controller.metrics.newest import NewestResults
from controller.runtime.home import Endpoint, Home
from tests.support import builders

LABELS = {
    "device": "cpu-1",
    "workload": "resnet",
    "stack": "torch",
    "scenario": "training",
    "precision": "fp32",
    "work": work_of(builders.catalog(), "resnet", "training", "torch", {}).key,
}
NEWEST = NewestResult(
    device="cpu-1",
    sweep_id="demo-1",
    cell_key="c",
    workload="resnet",
    stack="torch",
    scenario="training",
    knobs={"precision": "fp32"},
    validity=Validity.VALID,
    recorded_at=1.0,
    metrics={"step_time": Measurement(value=0.1 + 0.2, unit=Unit.SECONDS)},
)


def stored(*newest: NewestResult) -> Values:
    return stored_values(NewestResults(builders.catalog(), newest).snapshot(), builders.catalog())


def test_what_prometheus_shows_is_compared_with_the_store_to_the_last_digit() -> None:
    labels = {"__name__": "benchfarm_result", "instance": "controller", "metric": "step_time"}
    shown = [{"metric": labels | LABELS, "value": [1.5, "0.30000000000000004"]}]
    assert values_of(shown) == stored(NEWEST)
    shown[0]["value"] = [1.5, "0.3"]
    assert values_of(shown) != stored(NEWEST)


def test_the_store_gives_the_median_of_the_newest_valid_results() -> None:
    key = (*LABELS.values(), "step_time")
    other = {"step_time": Measurement(value=9.0, unit=Unit.SECONDS)}
    newer = NEWEST.model_copy(update={"metrics": other})
    invalid = newer.model_copy(update={"validity": Validity.INVALID})
    assert stored(NEWEST, newer) == {key: (0.1 + 0.2 + 9.0) / 2}
    assert stored(NEWEST, newer.model_copy(update={"sweep_id": "demo-2"})) == {key: 9.0}
    assert stored(NEWEST, invalid) == stored(NEWEST)
    assert stored(invalid) == {}


def test_a_series_that_stands_still_has_not_changed() -> None:
    assert not changes({"values": [[1, "0.5"], [2, "0.5"]]})
    assert changes({"values": [[1, "0.5"], [2, "0.75"]]})


def test_the_span_of_some_series() -> None:
    assert span([{"values": [[1, "2.5"]]}, {"values": [[1, "10"], [2, "0.123456"]]}]) == (
        "0.1235 … 10"
    )


def test_a_demo_without_prometheus_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = Endpoint(url="http://127.0.0.1:1", version="0", pid=1)
    Home(tmp_path).endpoint_file.write_text(endpoint.model_dump_json())
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with ExitStack() as stack:
        assert begin(stack) is None
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("no Prometheus in this demo: cannot find prometheus in PATH")
    assert "Install Debian's package `prometheus`" in said.err
    assert said.err.count("\n") == 1
