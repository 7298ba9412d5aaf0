from __future__ import annotations

from controller.cli.demo_metrics import changes, span, stored_values, values_of
from controller.contracts.records import NewestResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit

LABELS = {
    "device": "cpu-1",
    "workload": "resnet",
    "stack": "torch",
    "scenario": "training",
    "precision": "fp32",
}
NEWEST = NewestResult(
    **LABELS,
    validity=Validity.VALID,
    recorded_at=1.0,
    metrics={"step_time": Measurement(value=0.1 + 0.2, unit=Unit.SECONDS)},
)


def test_what_prometheus_shows_is_compared_with_the_store_to_the_last_digit() -> None:
    labels = {"__name__": "benchfarm_result", "instance": "controller", "metric": "step_time"}
    shown = [{"metric": labels | LABELS, "value": [1.5, "0.30000000000000004"]}]
    assert values_of(shown) == stored_values([NEWEST])
    shown[0]["value"] = [1.5, "0.3"]
    assert values_of(shown) != stored_values([NEWEST])


def test_the_store_gives_the_newest_valid_results_only() -> None:
    key = (*LABELS.values(), "step_time")
    other = {"step_time": Measurement(value=9.0, unit=Unit.SECONDS)}
    newer = NEWEST.model_copy(update={"metrics": other})
    invalid = newer.model_copy(update={"validity": Validity.INVALID})
    assert stored_values([NEWEST, newer]) == {key: 9.0}
    assert stored_values([NEWEST, invalid]) == stored_values([NEWEST])
    assert stored_values([invalid]) == {}


def test_a_series_that_stands_still_has_not_changed() -> None:
    assert not changes({"values": [[1, "0.5"], [2, "0.5"]]})
    assert changes({"values": [[1, "0.5"], [2, "0.75"]]})


def test_the_span_of_some_series() -> None:
    assert span([{"values": [[1, "2.5"]]}, {"values": [[1, "10"], [2, "0.123456"]]}]) == (
        "0.1235 … 10"
    )
