"""What LoadGen says that it was asked, in the log of each task and scenario of the suite."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.attempts.on_device import runner_spec
from agents.inference.content import Ready
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.graphs import Sample
from agents.inference.runner.session import Session
from agents.inference.runner.spec import RunSpec
from agents.remotes.tree import Tree
from controller.contracts.catalog import load_catalog
from controller.contracts.manifests import defaults_of
from controller.contracts.suite_rules import OfSuite, SuiteRules, load_suites
from controller.contracts.suite_version import SUITE_VERSION
from controller.loadgen import logs
from tests.support import builders
from tests.support.knobs import scenario_knobs

pytestmark = pytest.mark.integration

CATALOG = load_catalog()
EARLY_S = 60.0
"""A latency so high that LoadGen prepares the fewest queries, and ends when they are answered."""


class Steady:
    """Answers after the same time, whatever is asked."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        if self._seconds:
            time.sleep(self._seconds)
        return np.zeros(1, np.int64)


def told(
    version: str, workload: str, scenario: str, folder: Path, **changes: object
) -> tuple[RunSpec, Dataset]:
    """Return what the runner of a cell at length normal is told, and samples for it."""
    task = CATALOG.workloads[workload].on_device
    assert task
    chosen = defaults_of(CATALOG.workloads[workload].knobs) | {SUITE_VERSION: version}
    knobs = scenario_knobs(scenario, length="normal", policy="mlperf") | chosen
    job = builders.job().model_copy(
        update={
            "workload": workload,
            "scenario": scenario,
            "knobs": knobs | {"threads": 1, "delegate": "none", "batch_size": 1},
        }
    )
    samples = task.datasets["full"].samples or 0
    tree = Tree(folder, 0, {"model.tflite": "file"})
    ready = Ready(tree, task, folder, samples, has_truth=True)
    files = PurePosixPath("/files")
    given = runner_spec(job, ready, files, PurePosixPath(folder), "performance")
    return RunSpec.of(given | changes), Dataset([np.zeros((samples, 1), np.uint8)])


def logged(spec: RunSpec, data: Dataset, model: Steady, expected_s: float) -> logs.DetailLog:
    Session(model, data, spec).run(expected_s)
    return logs.DetailLog.parse(logs.read(Path(spec.log_dir), logs.DETAIL))


def of_suite() -> Iterator[object]:
    """Yield each version, and its tasks and scenarios that no newer one has."""
    newer: set[tuple[str, OfSuite]] = set()
    for rules in reversed(load_suites()):
        found = [(name, s) for name, task in rules.tasks.items() for s in task.scenarios]
        for workload, scenario in [part for part in found if part not in newer] or found[:2]:
            id_ = f"{rules.version}-{workload}-{scenario}"
            yield pytest.param(rules, workload, scenario, id=id_)
        newer |= {*found}


@pytest.mark.parametrize(("rules", "workload", "scenario"), list(of_suite()))
def test_loadgen_was_asked_for_what_the_rules_say(
    rules: SuiteRules, workload: str, scenario: OfSuite, tmp_path: Path
) -> None:
    length, of_task = rules.scenarios[scenario], rules.tasks[workload]
    log = logged(*told(rules.version, workload, scenario, tmp_path), Steady(), EARLY_S)
    assert logs.asked(log, scenario) == {
        "min_query_count": length.queries,
        "min_duration_ms": length.least_ms,
        "max_duration_ms": length.most_ms,
        "performance_samples": of_task.performance_samples,
    }
    if rules.seeds:
        assert logs.seeds(log) == [*rules.seeds.said]


@pytest.mark.parametrize(
    ("least_queries", "most_ms", "answer_s", "objection"),
    [
        (1024, 4000, 0.01, None),
        (1024, 1500, 0.05, "early stopping not satisfied"),
        (64, 60_000, 0.01, None),
    ],
    ids=["slow", "too slow", "fast enough"],
)
def test_a_slow_device_ends_by_its_longest_duration(
    least_queries: int, most_ms: int, answer_s: float, objection: str | None, tmp_path: Path
) -> None:
    changes = {"min_query_count": least_queries, "min_duration_ms": 500, "max_duration_ms": most_ms}
    spec, data = told("v6.0", "edsr", "single_stream", tmp_path, **changes)
    log = logged(spec, data, Steady(answer_s), answer_s)
    assert log["result_query_count"] < 1024
    ended = least_queries > log["result_query_count"] and objection is None
    assert logs.ended_at_longest(log) is ended
    found = logs.objections(log)
    assert any(objection in one for one in found) if objection else found == ()
