"""Every question of every dashboard, asked of a Prometheus that watches a real sweep on a farm."""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from functools import partial

import pytest

from controller.dashboards.files import built_dashboards
from controller.dashboards.links import DEVICE
from controller.dashboards.probing import Probe
from controller.dashboards.questions import questions_of, variables_of
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.prometheus_config import http_discovery
from controller.runtime.prometheus import Prometheus
from tests.integration.farm import TestFarm, training_sweep
from tests.support.prometheus import PATIENCE_S, eventually, running_prometheus

pytestmark = pytest.mark.integration

DASHBOARDS = built_dashboards()
STEPS = 25
"""Enough for a live run to be seen by several rounds of questions."""
NO_PHONE = "there is no phone"
NO_DATA = {
    "Fleet overview / Lowest batteries / A": NO_PHONE,
    "Device / Battery / A": NO_PHONE,
    "Device / Thermal status / A": NO_PHONE,
    "Mobile suite / variable device": NO_PHONE,
    "Mobile suite / variable workload": NO_PHONE,
    "Mobile suite / variable scenario": NO_PHONE,
    "Mobile suite / variable precision": NO_PHONE,
    "Mobile suite / variable baseline_device": NO_PHONE,
    "Mobile suite / Against the phone $baseline_device / A": NO_PHONE,
    **{f"Mobile suite / Newest results / {ref}": NO_PHONE for ref in "ABCDEFG"},
    "Mobile suite / Latency / A": NO_PHONE,
    "Mobile suite / Throughput / A": NO_PHONE,
    "Mobile suite / Progress / A": NO_PHONE,
    "Mobile suite / Queries now / A": NO_PHONE,
    "Mobile suite / Thermal status / A": NO_PHONE,
    "Mobile suite / Temperature / A": NO_PHONE,
    "Mobile suite / Battery / A": NO_PHONE,
    "Mobile suite / annotation Throttling": NO_PHONE,
    **{
        f"{dashboard['title']} / annotation Quarantine": "nothing is quarantined in this release"
        for dashboard in DASHBOARDS
    },
}
"""Place of a question → why a sweep on one server has no data for it."""
PLACES = {
    question.place
    for dashboard in DASHBOARDS
    for question in (
        *(variable.question for variable in variables_of(dashboard)),
        *questions_of(dashboard),
    )
}


@pytest.fixture(scope="module")
def prometheus(farm: TestFarm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    discovery = http_discovery(farm.home.endpoint().url + TARGETS_PATH, farm.home.metrics_token)
    folder = tmp_path_factory.mktemp("dashboards")
    with running_prometheus(folder, discovery, farm.home.metrics_token) as server:
        up = 'count(up{job=~"benchfarm-.*"} == 1) == 2'
        eventually(partial(server.query, up), "controller and agent scraped")
        yield server


@pytest.fixture(scope="module")
def sweeps(farm: TestFarm, prometheus: Prometheus) -> list[str]:
    """Training in two precisions, then one classifier in both of its scenarios."""
    knobs = {"image_size": 96, "num_classes": 8, "warmup_steps": 0, "steps": STEPS}
    recipes = {"fp32": {"precision": "fp32"}, "bf16": {"precision": "bf16"}}
    train = training_sweep("shown-training", knobs=knobs, recipes=recipes)
    classify = {
        "name": "shown-classifier",
        "workload": "shapes_classifier",
        "stack": "litert",
        "scenario": ["single_stream", "offline"],
        "devices": 'kind == "cpu_host"',
        "deadline_s": 100,
    }
    return [farm.submit(train), farm.submit(classify)]


def answered(server: Prometheus, device: str, places: Set[str]) -> set[str]:
    """Return the places of the questions that get data now, among some."""
    probe = Probe(server, look_back_s=300.0, least_step_s=1.0)
    asked = [it for it in DASHBOARDS if any(p.startswith(f"{it['title']} / ") for p in places)]
    return {
        answer.question.place
        for dashboard in asked
        for answer in probe.dashboard(
            dashboard, {"device": device} if dashboard["uid"] == DEVICE else {}
        )
        if answer.series and answer.question.place in places
    }


def test_every_question_gets_data_while_sweeps_run_or_after(
    farm: TestFarm, prometheus: Prometheus, sweeps: list[str]
) -> None:
    (listed,) = farm.cli("device", "list", "--json").json
    empty, give_up = PLACES - NO_DATA.keys(), float("inf")
    while empty and time.monotonic() < give_up:
        runs = [run for sweep_id in sweeps for run in farm.runs(sweep_id)]
        if give_up == float("inf") and all(run.state.terminal for run in runs):
            give_up = time.monotonic() + PATIENCE_S
        empty -= answered(prometheus, listed["device"]["id"], empty)
    assert empty == set()


def test_every_excuse_is_needed(farm: TestFarm, prometheus: Prometheus, sweeps: list[str]) -> None:
    assert NO_DATA.keys() <= PLACES
    for sweep_id in sweeps:
        assert farm.cli("sweep", "watch", sweep_id).status == 0
    (listed,) = farm.cli("device", "list", "--json").json
    assert answered(prometheus, listed["device"]["id"], NO_DATA.keys()) == set()


def test_command_line_asks_the_same(
    farm: TestFarm, prometheus: Prometheus, sweeps: list[str]
) -> None:
    said = farm.cli("dashboards", "check", "--prometheus", prometheus.url)
    assert said.status == 0
    assert "no data: Mobile suite / Battery / A: bottomk (20, (max by (device) (" in said.out
    assert f"{len(PLACES)} queries asked, " in said.out
