"""Unlike work, planted in a fleet: no rule and no panel of a dashboard divides or ranks it.

All VALID results of one work have one value, real and virtual ones another. So each ratio within a
work is 1, and results that share an axis are equal. What never counts is a million times as large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import pytest

from controller.contracts.base import Scalar
from controller.contracts.device import Device, DeviceKind
from controller.contracts.records import NewestResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.dashboards.board import Json
from controller.dashboards.files import built_dashboards
from controller.dashboards.probing import Probe
from controller.dashboards.queries import Question, panels_of, questions_of
from controller.dashboards.units import COUNT, TIMES_BETTER
from controller.metrics import names
from controller.metrics.newest import Newest, NewestResults, ResultKey
from controller.metrics.rules import RECORDED
from controller.runtime.prometheus import Prometheus, PrometheusUnavailable, Series
from tests.support.generated_fleet import (
    METRICS,
    SERVER_MOBILE,
    TRAINING,
    TRAINING_STACKS,
    GeneratedFleet,
    served,
)
from tests.support.prometheus import AT_EASE, fixed_targets, running_prometheus
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

SIZES = (1, 8)
"""Two works of each workload and scenario."""
NEVER = 1e6
"""What never counts is so many times as large as what does."""
NOT_VALID = (Validity.INVALID, Validity.DISTURBED)
"""By age, so that the newest result of every work is a DISTURBED one."""
DASHBOARDS = {str(dashboard["title"]): dashboard for dashboard in built_dashboards()}
OF_RESULTS = re.compile(r"benchfarm_result\b(?!_)")
WORK_LABEL = re.compile(r"work, |, work\b")


@dataclass(frozen=True)
class PlantedFleet(GeneratedFleet):
    """Some devices measured one work of two with a stack, some the other, some both.

    What never counts they have of all works, newer than what does.
    """

    @cached_property
    def results(self) -> NewestResults:
        found = [
            result
            for place, known in enumerate(self.devices)
            for result in _planted(known.device, place)
        ]
        return NewestResults(self.catalog, found)


def _planted(device: Device, place: int) -> Iterator[NewestResult]:
    for size in SIZES if place % 2 else reversed(SIZES):
        for nth, (workload, stack, scenario, knobs) in enumerate(_cells(device)):
            value = (
                1.0 + 10 * size + (0 if workload == TRAINING else 1 + SERVER_MOBILE.index(workload))
            ) * (3.0 if device.virtual else 1.0)
            made = partial(_result, device, workload, stack, scenario, {**knobs, "size": size})
            if SIZES.index(size) != (place + nth) % 3:
                for _ in range(3):
                    yield made(value)
            yield made(NEVER * value, profiled=True)
            for validity in NOT_VALID:
                yield made(NEVER * value, validity=validity)


def _cells(device: Device) -> Iterator[tuple[str, str, str, dict[str, Scalar]]]:
    for stack, precision in TRAINING_STACKS if device.kind is DeviceKind.CPU_HOST else ():
        yield TRAINING, stack, "training", {"precision": precision}
    for workload in SERVER_MOBILE:
        for scenario in ("single_stream", "offline"):
            yield workload, "litert", scenario, {"numerics": "int8"}


def _result(
    device: Device,
    workload: str,
    stack: str,
    scenario: str,
    knobs: dict[str, Scalar],
    value: float,
    *,
    profiled: bool = False,
    validity: Validity = Validity.VALID,
) -> NewestResult:
    rate = ("throughput", "top1")
    units = {name: Unit.SAMPLES_PER_SECOND if name in rate else Unit.SECONDS for name in ALL}
    return NewestResult(
        device=device.id,
        sweep_id="planted-1",
        cell_key=f"{workload} {stack} {scenario} {knobs} {profiled}",
        workload=workload,
        stack=stack,
        scenario=scenario,
        knobs=knobs,
        profiled=profiled,
        validity=validity,
        recorded_at=1.7e9,
        metrics={n: Measurement(value=value, unit=units[n]) for n in METRICS[scenario]},
        ranked=(value,),
    )


WITHOUT_RESULTS = {"Sweep live"}
ALL = {name for listed in METRICS.values() for name in listed}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("planted")
    with served(PlantedFleet(servers=4, phones=6), folder) as exporters:
        targets = fixed_targets(exporters.controller, [exporters.agents])
        with running_prometheus(folder, targets, exporters.token_file, AT_EASE) as server:
            for metric in RECORDED:
                eventually(partial(server.query, metric.name), metric.name)
            yield server


@dataclass(frozen=True)
class Answer:
    question: Question
    panel: Mapping[str, Any]
    ref: str
    series: list[Series]

    @property
    def values(self) -> set[float]:
        return {number(one) for one in self.series}

    @property
    def unit(self) -> str:
        """As Grafana shows it: of the column that this query fills, or of the panel."""
        config = self.panel["fieldConfig"]
        renamed = {
            name: to
            for change in self.panel.get("transformations", ())
            for name, to in change["options"].get("renameByName", {}).items()
        }
        heading = renamed.get(f"Value #{self.ref}", renamed.get("Value"))
        units = [
            prop["value"]
            for override in config["overrides"]
            if heading is not None and override["matcher"]["options"] == heading
            for prop in override["properties"]
            if prop["id"] == "unit"
        ]
        return str(units[0] if units else config["defaults"]["unit"])

    @property
    def is_mixed(self) -> bool:
        """Whether it divides unlike results, or puts them on one axis without saying so."""
        if self.unit == TIMES_BETTER:
            return not all(map(is_one, self.values))
        if self.unit == COUNT:
            return False
        named = self.panel["type"] == "table" or "work" in self.question.labels
        if named:
            return not all("work" in one["metric"] for one in self.series)
        return len(self.values) > 1


def number(series: Series) -> float:
    return float(series["value"][1])


def is_one(ratio: float) -> bool:
    return ratio == pytest.approx(1.0)


def without_work(promql: str) -> str:
    """Return a query that no longer tells works apart."""
    return re.sub(r', work="[^"]*"', "", WORK_LABEL.sub("", promql))


@cache
def chosen_values(
    prometheus: Prometheus, title: str, virtual: str, device: str
) -> Mapping[str, str]:
    """Return a value for each variable of a dashboard: the fleet is planted, and stays as it is."""
    chosen = {"virtual": virtual} | ({"device": device} if device else {})
    return Probe(prometheus).variables(DASHBOARDS[title], chosen)[1]


@dataclass(frozen=True, slots=True)
class Values(Probe):
    """Returns what comes back, of now."""

    only_place: str = ""

    def answers(self, dashboard: Json, *, blind: bool = False) -> Iterator[Answer]:
        """Yield the answer to every question about results; blind: to what work it is."""
        targets = {
            f"{dashboard['title']} / {panel['title']} / {target['refId']}": (panel, target["refId"])
            for panel in panels_of(dashboard)
            for target in panel["targets"]
        }
        for device in ("cpu-001", "PHONE001") if dashboard["title"] == "Device" else ("",):
            for virtual in ("true", "false"):
                values = chosen_values(self.prometheus, str(dashboard["title"]), virtual, device)
                for question in questions_of(dashboard):
                    if self.only_place not in ("", question.place):
                        continue
                    if question.place in targets and OF_RESULTS.search(question.promql):
                        promql = without_work(question.promql) if blind else question.promql
                        asked = replace(question, promql=promql, over_time=False)
                        yield Answer(
                            question, *targets[question.place], self._ask(asked, values)[1]
                        )


def test_what_never_counts_is_neither_a_result_nor_a_baseline(prometheus: Prometheus) -> None:
    assert {Validity.VALID, *NOT_VALID} == set(Validity)
    known = PlantedFleet(servers=4, phones=6).results.snapshot()
    valid = {key for key, newest in known.items() if newest.valid}
    disturbed = {key for key, newest in known.items() if is_disturbed(newest)}
    assert disturbed == known.keys() > valid, "some works have nothing else"
    assert of_keys(prometheus, names.RESULT) == of_keys(prometheus, names.RESULT_TIME) == valid
    for baseline in (names.BASELINE_DEVICE, names.BASELINE_STACK):
        assert set() < of_keys(prometheus, baseline) < valid


def is_disturbed(newest: Newest) -> bool:
    return newest.latest is not None and newest.latest.validity is Validity.DISTURBED


def of_keys(prometheus: Prometheus, metric: names.Metric) -> set[ResultKey]:
    found = prometheus.query(metric.name)
    keys = (ResultKey(*(one["metric"][label] for label in names.RESULT_LABELS)) for one in found)
    return {key._replace(work=key.work.removesuffix(names.VIRTUAL_WORK)) for key in keys}


@pytest.mark.parametrize("metric", RECORDED, ids=str)
def test_no_rule_divides_unlike_work(prometheus: Prometheus, metric: names.Metric) -> None:
    for promql in (metric.name, RECORDED[metric]):
        found = prometheus.query(promql)
        assert len({one["metric"]["work"] for one in found}) >= len(SIZES)
        assert {value for one in found if not is_one(value := number(one))} == set()


@pytest.mark.parametrize("metric", [names.RATIO_TO_DEVICE, names.RATIO_TO_STACK], ids=str)
def test_a_rule_that_is_blind_to_work_is_seen(prometheus: Prometheus, metric: names.Metric) -> None:
    try:
        found = prometheus.query(without_work(RECORDED[metric]))
    except PrometheusUnavailable:
        return  # many baselines match, so Prometheus itself refuses it
    assert {value for one in found if not is_one(value := number(one))} != set()


@pytest.mark.parametrize("title", DASHBOARDS)
def test_no_panel_divides_or_ranks_unlike_work(prometheus: Prometheus, title: str) -> None:
    answers = list(Values(prometheus).answers(DASHBOARDS[title]))
    assert {it.question.place: it.values for it in answers if it.is_mixed} == {}
    assert all(value < NEVER for it in answers for value in it.values), "what never counts is shown"
    if title not in WITHOUT_RESULTS:
        assert sum(len(it.series) for it in answers) > 10


@pytest.mark.parametrize("title", ["Compare hardware", "Training", "Mobile suite"])
def test_every_ratio_that_is_blind_to_work_is_seen(prometheus: Prometheus, title: str) -> None:
    answers = Values(prometheus).answers(DASHBOARDS[title])
    ratios = (one for one in answers if one.unit == TIMES_BETTER and one.series)
    for place in sorted({one.question.place for one in ratios}):
        assert is_seen(prometheus, title, place), place


def is_seen(prometheus: Prometheus, title: str, place: str) -> bool:
    """Tell whether a question that no longer tells works apart is refused, or its mixing seen."""
    answers = Values(prometheus, only_place=place).answers(DASHBOARDS[title], blind=True)
    try:
        return any(one.is_mixed for one in answers)
    except PrometheusUnavailable:
        return True  # many baselines match, so Prometheus itself refuses it
