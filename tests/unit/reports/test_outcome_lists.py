"""Lists of results and failures: knobs once or in a column, and no number cut at any width."""

from __future__ import annotations

import csv
import io
import re

import pytest
from rich.cells import cell_len

from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.sweep import PairedCandidate
from controller.contracts.units import Unit
from controller.reports.export import as_csv
from controller.reports.figures import shown
from controller.reports.outcome_lists import failure_lines, result_lines
from tests.support.sweep_examples import failure, result
from tests.support.table_examples import LONG, WIDTHS, examples

METRICS = {"training": "step_time", "single_stream": "latency_p90", "offline": "throughput"}
EXAMPLES = examples()
LOSS = Measurement(value=1.8, unit=Unit.LOSS)
PAIRED = PairedCandidate(stack="torch", knobs={"size": 1, "precision": "bf16"})


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["sizes", "phones", "large"])
def test_every_figure_and_every_knob_that_is_a_number_is_whole(name: str, width: int) -> None:
    results = [
        one.model_copy(update={"run_id": f"{number:012x}"})
        for number, one in enumerate(EXAMPLES[name].results)
    ]
    lines = result_lines(results, METRICS, width)
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    for one in results:
        metric = one.metrics[METRICS[one.scenario]]
        assert one.run_id in text
        assert re.search(rf"(?<![\w.]){re.escape(shown(metric.value, metric.unit))}(?!\w)", text)
    for knob in {f"{n}={v}" for one in results for n, v in one.knobs.items() if type(v) is int}:
        assert re.search(rf"(?<!\w){knob}(?!\w)", text), knob


def test_what_all_share_is_said_once_above_and_what_differs_is_a_column() -> None:
    results = [
        result(repeat=n, knobs={"size": 1, "precision": precision, "steps": 20})
        for n, precision in enumerate(("fp32", "bf16"))
    ]
    above, head, _, first, second = result_lines(results, METRICS, 200)
    assert above == (
        "the same in every row: device device-00, workload w0, stack torch, scenario training, "
        "size=1, steps=20"
    )
    assert head.split() == ["run", "knobs", "step", "time", "validity", "started", "(UTC)"]
    assert [line.split()[1:5] for line in (first, second)] == [
        ["fp32", "500", "ms", "VALID"],
        ["bf16", "500", "ms", "VALID"],
    ]


def test_each_task_has_its_own_table_and_the_newest_result_is_in_the_last() -> None:
    first, second, third = (
        result(workload=workload, repeat=n) for n, workload in enumerate(("w0", "w2", "w0"))
    )
    lines = result_lines([first, second, third], METRICS, 200)
    above = [line for line in lines if line.startswith("the same")]
    assert ["workload w2" in above[0], "workload w0" in above[1]] == [True, True]
    assert lines[-1].startswith(third.run_id)
    assert [line.split()[0] for line in lines[-2:]] == [first.run_id, third.run_id]


def test_a_pair_has_both_sides_and_the_knobs_that_they_share() -> None:
    ratio = {"ratio": Measurement(value=1.25, unit=Unit.RATIO)}
    paired = result(versus=PAIRED, metrics=ratio)
    text = "\n".join(result_lines([result(), paired], METRICS, 200))
    assert "A and B torch: precision=fp32 vs torch: precision=bf16" in text
    assert "size=1" in text.splitlines()[-4]
    assert text.splitlines()[-4].count("precision=") == 2, "once for each side"
    assert "1.250×" in text


def test_a_virtual_device_says_so_and_a_missing_metric_is_a_dash() -> None:
    lines = result_lines([result(virtual=True, metrics={})], METRICS, 200)
    assert "device device-00 (virtual)" in lines[0]
    assert "–" in lines[-1]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_failure_names_its_cell_and_what_happened_is_said_once(width: int) -> None:
    path = "/kept/" + "x" * 120
    failures = [
        failure(device=LONG.format(n), repeat=n, run_id=f"run-{n}", message=f"no file {path}")
        for n in range(2)
    ] + [failure(run_id="run-2", stack="ipex", knobs={"precision": "bf16"}, repeat=2)]
    lines = failure_lines(failures, width)
    text = "\n".join(lines)
    (row,) = (line for line in lines if line.startswith("run-2 "))
    assert ["ipex" in row, "bf16" in row, "device-00" in row] == [True] * 3
    assert (text.count(path), text.count("run-2: boom")) == (1, 1)
    assert max(cell_len(line) for line in lines if path not in line) <= width


def test_csv_has_a_column_for_each_fact_of_the_environment() -> None:
    environment = {
        "zzz_own": "a, b",
        "load_before": 0.5,
        "cpu_model": "Xeon",
        "isa": ("avx2", "amx"),
        "smt": False,
        "governor": None,
    }
    results: list[StoredResult] = [
        result(environment=environment, validity=Validity.VALID),
        result(environment={"threads": 2}, repeat=1, metrics={"loss": LOSS}),
    ]
    rows = list(csv.DictReader(io.StringIO(as_csv(results))))
    own = [name for name in rows[0] if name.startswith("environment.")]
    assert own.index("environment.cpu_model") < own.index("environment.load_before")
    assert own[-1] == "environment.zzz_own", "what is not declared comes last"
    assert {n: rows[0][f"environment.{n}"] for n in (*environment, "threads")} == {
        "zzz_own": "a, b",
        "load_before": "0.5",
        "cpu_model": "Xeon",
        "isa": '["avx2","amx"]',
        "smt": "false",
        "governor": "",
        "threads": "",
    }
    assert (rows[-1]["environment.threads"], rows[-1]["environment.cpu_model"]) == ("2", "")
