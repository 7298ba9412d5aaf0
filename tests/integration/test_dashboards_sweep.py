"""Every question of every dashboard, asked of a Prometheus that watches a real sweep on a farm."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import psutil
import pytest

from controller.contracts.result import Validity
from controller.dashboards.files import built_dashboards
from controller.dashboards.links import DEVICE
from controller.dashboards.probing import Probe, QueryResult
from controller.dashboards.queries import questions_of
from controller.metrics import names
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.prometheus_config import http_discovery
from controller.runtime.prometheus import Prometheus
from tests.integration.farm import TestFarm, farm_up, training_sweep
from tests.support.prometheus import running_prometheus
from tests.support.validity import MET_RULES
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

DASHBOARDS = built_dashboards()
STEPS = 12
"""Enough for a live run to be scraped a few times."""
NO_PHONE = "there is no phone"
NOT_RANKED = "no scenario that ran is ranked by it"
NO_PROFILE = "nothing was profiled"
NO_DECIBELS = "no workload that ran is judged by PSNR"
NO_DATA = {
    **{f"Fleet overview / Best device for each work / {ref}": NOT_RANKED for ref in "BDF"},
    "Fleet overview / Lowest batteries / A": NO_PHONE,
    "Device / Battery / A": NO_PHONE,
    "Device / Thermal status / A": NO_PHONE,
    "Mobile suite / variable device": NO_PHONE,
    "Mobile suite / variable workload": NO_PHONE,
    "Mobile suite / variable scenario": NO_PHONE,
    "Mobile suite / variable precision": NO_PHONE,
    "Mobile suite / variable baseline_device": NO_PHONE,
    "Mobile suite / variable latency_work": NO_PHONE,
    "Mobile suite / variable throughput_work": NO_PHONE,
    "Mobile suite / Against the phone ${baseline_device:text} / A": NO_PHONE,
    **{f"Mobile suite / Newest results / {ref}": NO_PHONE for ref in "ABCDEFGHIJKL"},
    **{f"Mobile suite / Delegates / {ref}": NO_PHONE for ref in "AB"},
    "Compare hardware / Speed and accuracy / G": NO_DECIBELS,
    "Device / Newest results / E": NO_DECIBELS,
    "Compare hardware / Speed and accuracy / I": "policy ci measures no idle power",
    "Mobile suite / Latency: ${latency_work:text} / A": NO_PHONE,
    "Mobile suite / Throughput: ${throughput_work:text} / A": NO_PHONE,
    "Mobile suite / Progress / A": NO_PHONE,
    "Mobile suite / Queries now / A": NO_PHONE,
    "Mobile suite / Thermal status / A": NO_PHONE,
    "Mobile suite / Temperature / A": NO_PHONE,
    "Mobile suite / Battery / A": NO_PHONE,
    "Mobile suite / annotation Throttling": NO_PHONE,
    "Training / Profiles: how much is left / A": NO_PROFILE,
    "Training / Profiles: how much is left / B": NO_PROFILE,
    "Training / Profiles: top primitives: ${work:text} / A": NO_PROFILE,
}
"""Place of a question → why a sweep on one server has no data for it."""
NO_SENSORS = {
    "Fleet overview / Hottest devices / A",
    "Device / Temperature / A",
    "Sweep live / Heat / A",
    "Training / Heat / A",
}
"""What else has none where the host has no thermal sensor: most virtual machines."""
OF_RESULTS = re.compile("benchfarm(_result|:result)")
"""Questions about VALID results: a machine that others use, too, may have none."""


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFarm]:
    """A farm that has run nothing else: what the shared one has stored would be data, too."""
    with farm_up(tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture(scope="module")
def prometheus(farm: TestFarm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    discovery = http_discovery(farm.home.endpoint().url + TARGETS_PATH, farm.home.metrics_token)
    folder = tmp_path_factory.mktemp("dashboards")
    with running_prometheus(folder, discovery, farm.home.metrics_token) as server:
        up = 'count(up{job=~"benchfarm-.*"} == 1) == 2'
        eventually(partial(server.query, up), "controller and agent scraped")
        yield server


@dataclass(frozen=True)
class Watched:
    """What Prometheus has seen of finished sweeps."""

    server: Prometheus
    device: str
    since: float
    all_valid: bool
    """Whether every result is VALID; else some are DISTURBED, and not exported."""

    def answers(self) -> dict[str, QueryResult]:
        """Return the answer to every question, at all times since: what is asked of now, too."""
        probe = Probe(self.server, look_back_s=time.time() - self.since, least_step_s=1.0)
        answers = []
        for dashboard in DASHBOARDS:
            chosen = {"device": self.device} if dashboard["uid"] == DEVICE else {}
            found, values = probe.variables(dashboard, chosen)
            asked = (replace(question, over_time=True) for question in questions_of(dashboard))
            answers += [*found, *(probe.ask(question, values) for question in asked)]
        return {answer.question.place: answer for answer in answers}


@pytest.fixture(scope="module")
def watched(farm: TestFarm, prometheus: Prometheus) -> Iterator[Watched]:
    """Training, twice so that there is a rate of it, then a classifier in both of its scenarios.

    The device is in quarantine until all is asked: a short one falls between two points.
    """
    since = time.time()
    train = training_sweep("shown-training", STEPS, repeats=2)
    classify = {
        "name": "shown-classifier",
        "workload": "shapes_classifier",
        "stack": "litert",
        "scenario": ["single_stream", "offline"],
        "devices": 'kind == "cpu_host"',
        "deadline_s": 200,
    }
    sweeps = [farm.submit(train), farm.submit(classify)]
    for sweep_id in sweeps:
        assert farm.cli("sweep", "watch", sweep_id).status == 0
    found = [r for s in sweeps for r in farm.cli("results", "list", "--sweep", s, "--json").json]
    assert {r["validity"] for r in found} <= MET_RULES
    valid = {(r["workload"], r["scenario"]) for r in found if r["validity"] == Validity.VALID}
    shown = f"(count({names.RESULT_TIME}) or vector(0)) >= {len(valid)}"
    eventually(partial(prometheus.query, shown), "all that are VALID")
    device = farm.server()["device"]["id"]
    assert farm.cli("device", "quarantine", device, "--why", "to be seen").status == 0
    # For longer than a step: the last point of the first questions is up to one before now.
    held = f'{names.DEVICE_STATE}{{state="quarantined"}} offset 2s == 1'
    eventually(partial(prometheus.query, held), "its quarantine")
    yield Watched(prometheus, device, since, all(r["validity"] == Validity.VALID for r in found))
    assert farm.cli("device", "release", device).status == 0


def test_every_question_gets_data(watched: Watched) -> None:
    answers = watched.answers()
    assert len(answers) > 100
    empty = {place for place, answer in answers.items() if not answer.series}
    excused = NO_DATA.keys() | (set() if psutil.sensors_temperatures() else NO_SENSORS)
    if not watched.all_valid:
        excused |= {p for p in empty if OF_RESULTS.search(answers[p].question.promql)}
    assert empty - excused == set()
    assert excused - empty == set(), "an excuse that is not needed"


def test_command_line_asks_the_same(farm: TestFarm, watched: Watched) -> None:
    said = farm.cli("dashboards", "check", "--prometheus", watched.server.url)
    assert said.status == 0
    assert "no data: Mobile suite / Battery / A\n" in said.out
    assert "queries run, " in said.out
