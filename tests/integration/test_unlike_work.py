"""Unlike work, planted in a fleet: no rule and no panel of a dashboard divides or ranks it.

All VALID results of one work have one value, real and virtual ones another. So each ratio within a
work is 1, and results that share an axis are equal. What never counts is a million times as large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import pytest

from controller.contracts.base import Scalar
from controller.contracts.device import Device, DeviceKind
from controller.contracts.records import NewestResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.dashboards.board import Json
from controller.dashboards.files import built_dashboards
from controller.dashboards.probing import Probe
from controller.dashboards.queries import questions_of
from controller.metrics.newest import NewestResults
from controller.metrics.rules import RECORDED
from controller.runtime.prometheus import Prometheus, Series
from tests.support.generated_fleet import (
    METRICS,
    SERVER_MOBILE,
    TRAINING,
    TRAINING_STACKS,
    GeneratedFleet,
    served,
)
from tests.support.prometheus import EVERY_SECOND, fixed_targets, running_prometheus
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.alone]

SIZES = (1, 8)
"""Two works of each workload and scenario."""
NEVER = 1e6
"""What never counts is so many times as large as what does."""
DASHBOARDS = {str(dashboard["title"]): dashboard for dashboard in built_dashboards()}
OF_RESULTS = re.compile(r"benchfarm_result\b|benchfarm:result:")
WORK_LABEL = re.compile(r"work, |, work\b")


@dataclass(frozen=True)
class PlantedFleet(GeneratedFleet):
    """Every other device measured the small work last, the others the large one."""

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
            value = (1.0 + 10 * size + nth // 8) * (3.0 if device.virtual else 1.0)
            made = partial(_result, device, workload, stack, scenario, {**knobs, "size": size})
            for _ in range(3):
                yield made(value)
            yield made(NEVER * value, profiled=True)
            for validity in Validity:
                if validity is not Validity.VALID:
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
    )


ALL = {name for listed in METRICS.values() for name in listed}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("planted")
    with served(PlantedFleet(servers=4, phones=6), folder) as exporters:
        targets = fixed_targets(exporters.controller, [exporters.agents])
        with running_prometheus(folder, targets, exporters.token_file, EVERY_SECOND) as server:
            for metric in RECORDED:
                eventually(partial(server.query, metric.name), metric.name)
            yield server


class Values(Probe):
    """Keeps what came back."""

    def answered(self, dashboard: Json, chosen: Mapping[str, str]) -> dict[str, list[Series]]:
        """Return place and query of each panel's question → its series now."""
        _, values = self.variables(dashboard, chosen)
        return {
            question.place: self._ask(_now(question), values)[1]
            for question in questions_of(dashboard)
        }


def number(series: Series) -> float:
    return float(series["value"][1])


def without_work(promql: str) -> str:
    """Return a query that no longer tells works apart."""
    return WORK_LABEL.sub(lambda it: "", promql)
