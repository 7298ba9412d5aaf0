"""The names keep Prometheus's conventions, and the documents know them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.contracts.device import DeviceState
from controller.metrics import names
from controller.metrics.names import Metric, MetricKind
from controller.metrics.observer import ENDINGS

DOCS = Path(__file__).parents[3] / "docs"
METRICS = names.all_metrics()
EXPORTED = [metric for metric in METRICS if not metric.is_recorded]


def test_every_metric_has_a_name_of_its_own() -> None:
    assert len(METRICS) == len({metric.name for metric in METRICS}) > 20


@pytest.mark.parametrize("metric", EXPORTED, ids=str)
def test_exported_names_are_ours_and_fit_their_kind(metric: Metric) -> None:
    assert re.fullmatch(r"benchfarm(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help.endswith(".")
    assert not set('\\"\n') & set(metric.help), "it is written as it is"


@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_no_label_is_one_that_never_ends(metric: Metric) -> None:
    assert not {"run", "run_id", "sweep_id", "commit", "hash", "cell_key"} & set(metric.labels)


def test_endings_are_of_the_outcomes_there_are() -> None:
    assert {outcome for outcome, _ in ENDINGS} == set(names.OUTCOMES)


@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_the_docs_tell_every_metric_with_its_labels(metric: Metric) -> None:
    line = next(x for x in _lines("metrics.md") if x.startswith(f"| `{metric.name}`"))
    assert re.findall(r"`([a-z]+)`", line.split("|")[2]) == list(metric.labels)


def test_the_docs_tell_no_metric_that_is_not() -> None:
    told = re.findall(r"benchfarm[_:][a-z_:]+", "\n".join(_lines("metrics.md")))
    known = {name for metric in METRICS for name in (metric.name, *metric.series_names)}
    assert set(told) <= known


def test_the_docs_tell_the_states_of_devices() -> None:
    text = "\n".join(_lines("metrics.md"))
    assert [state for state in DeviceState if f"`{state.value}`" not in text] == []


def _lines(name: str) -> list[str]:
    return (DOCS / name).read_text().splitlines()
