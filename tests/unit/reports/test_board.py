"""A board: what ranks, what doesn't, what a row costs and where it comes from."""

from __future__ import annotations

import csv
import io
import json

import pytest

from controller.contracts.manifests import Convergence, ConvergencePoint
from controller.contracts.profile import ProfileSummary
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.suite_session import MEETS, NOT_VERIFIED
from controller.contracts.units import Unit
from controller.reports.board_data import board_csv, board_json
from controller.reports.groups import Group
from controller.reports.views.board import BUT_IMPORTED
from controller.reports.views.board_costs import costs_of, prices_of
from tests.support.boards import SHA, answered, board_of, rows_of
from tests.support.imported_examples import imported
from tests.support.sweep_examples import HOSTILE, catalog, failure, repeats, result, trained


def profile() -> ProfileSummary:
    return ProfileSummary(steps=3)


def test_a_row_has_its_results_and_the_folders_of_their_runs() -> None:
    board = board_of([*repeats("a", (1.0,) * 4, (1.0,) * 4), *repeats("b", (2.0,) * 4)])
    rows = rows_of(board)
    assert [row.row.rank for row in rows.values()] == [1, 2]
    assert [run.result.repeat for run in rows["a"].runs] == [0, 1]
    assert all(run.used and run.value == 1.0 for run in rows["a"].runs)
    assert rows["b"].runs[0].published.folder == f"runs/{rows['b'].runs[0].result.run_id}"
    assert len({row.key for row in rows.values()} | {row.device_key for row in rows.values()}) == 4


@pytest.mark.parametrize("validity", [Validity.DISTURBED, Validity.INVALID])
def test_what_is_not_valid_is_shown_and_never_ranks(validity: Validity) -> None:
    quick = result(device="quick", validity=validity, metrics=trained((0.1,) * 4), reasons=("x",))
    rows = rows_of(board_of([quick, *repeats("slow", (1.0,) * 4)], labels={"quick": PRICED}))
    assert (rows["slow"].row.rank, rows["quick"].row.rank) == (1, None)
    assert rows["quick"].costs == ()
    assert rows["quick"].row.reasons == ("x",)


PRICED = {"price_per_hour": "3.6"}


def test_disturbed_results_beside_valid_ones_are_listed_as_not_used() -> None:
    disturbed = result(
        device="a", validity=Validity.DISTURBED, metrics=trained((9.0,) * 4), repeat=7
    )
    runs = rows_of(board_of([*repeats("a", (1.0,) * 4), disturbed]))["a"].runs
    assert [(run.used, run.value) for run in runs] == [(True, 1.0), (False, 9.0)]


def test_profiled_results_are_left_out_and_said_to_be() -> None:
    plain = repeats("a", (1.0,) * 4)
    told = result(device="b", profile=profile(), metrics=trained((0.1,) * 4))
    of_run = result(device="c", metrics=trained((0.1,) * 4))
    board = board_of([*plain, told, of_run], profiled=frozenset({of_run.run_id}))
    assert [*rows_of(board)] == ["a"]
    assert "2 results are left out: profiled runs are ranked with nothing." in board.notes


def test_late_results_and_those_of_unknown_scenarios_are_left_out_and_said_to_be() -> None:
    late = result(device="b", counted=False)
    strange = result(device="c", scenario="of_a_plugin")
    board = board_of([*repeats("a", (1.0,) * 4), late, strange])
    assert [*rows_of(board)] == ["a"]
    assert board.notes == (
        "1 result is left out: this release has no scenario of_a_plugin.",
        "1 result is left out: late, so not counted.",
    )


def test_only_like_work_is_ranked_together_and_virtual_devices_apart() -> None:
    larger = result(device="a", knobs={"size": 2}, metrics=trained((9.0,) * 4))
    virtual = result(device="v", virtual=True, metrics=trained((0.1,) * 4))
    board = board_of([*repeats("a", (1.0,) * 4), larger, virtual], labels={"v": PRICED})
    assert [one.ranking.problem for one in board.rankings] == ["size=1", "size=1", "size=2"]
    assert [one.ranking.virtual for one in board.rankings] == [False, True, False]
    assert board.any_virtual
    assert [row.costs for row in board.rankings[1].rows] == [()]
    (real, simulated) = board.devices
    assert [len(device.places) for device in (real, simulated)] == [2, 1]


def test_one_cell_of_two_sweeps_is_one_row() -> None:
    again = [r.model_copy(update={"sweep_id": "s2"}) for r in repeats("a", (2.0,) * 4)]
    again = [r.model_copy(update={"run_id": "again"}) for r in again]
    (row,) = rows_of(board_of([*repeats("a", (1.0,) * 4), *again])).values()
    assert row.row.median == 1.5
    assert [run.result.sweep_id for run in row.runs] == ["made-up-1", "s2"]


def test_a_million_queries_cost_a_million_mean_latencies() -> None:
    row = rows_of(board_of([answered("a", 0.01, 0.03)], labels={"a": PRICED}))["a"]
    (cost,) = row.costs
    assert (cost.of, cost.metric, cost.value) == ("million queries", "latency_mean", 0.02)
    assert cost.amount == pytest.approx(3.6 / 3600 * 0.02 * 1e6)


def test_a_million_samples_cost_what_the_throughput_says() -> None:
    rate = {"throughput": Measurement(value=500.0, unit=Unit.SAMPLES_PER_SECOND)}
    board = board_of([result(device="a", scenario="offline", metrics=rate)], labels={"a": PRICED})
    (cost,) = rows_of(board)["a"].costs
    assert cost.of == "million samples"
    assert cost.amount == pytest.approx(3.6 / 3600 * 2000)


def test_training_costs_are_of_1000_steps_and_of_an_epoch_where_its_samples_are_known() -> None:
    points = tuple(ConvergencePoint(batch=batch, epochs=1.0) for batch in (1, 2))
    known = Convergence(source="x", samples=1001, points=points)
    farm = catalog()
    workloads = {"w0": farm.workloads["w0"].model_copy(update={"convergence": known})}
    of = result(device="a", knobs={"batch_size": 10}, metrics=trained((2.0,) * 4))
    costs = costs_of(
        Group([of], []), "step_time", 3.6, farm.model_copy(update={"workloads": workloads})
    )
    assert [cost.of for cost in costs] == ["1000 steps", "epoch"]
    assert [cost.amount for cost in costs] == pytest.approx([2.0, 101 * 2.0 / 1000])
    assert [cost.of for cost in costs_of(Group([of], []), "step_time", 3.6, farm)] == ["1000 steps"]


def on_hosts(*devices: str, repeat: int = 0) -> StoredResult:
    """Return a training of 2 s a step on several hosts, the first of which leads."""
    facts = {"hosts": tuple(f"name of {d}" for d in devices), "host_devices": devices}
    made = result(device=devices[0], repeat=repeat, metrics=trained((2.0,) * 4), environment=facts)
    return made.model_copy(update={"run_id": f"run-{'-'.join(devices)}-{repeat}"})


def test_a_training_on_several_hosts_costs_the_sum_of_their_prices() -> None:
    labels = {"a": PRICED, "b": {"price_per_hour": "7.2"}}
    board = board_of([on_hosts("a", "b"), on_hosts("a", "b", repeat=1)], labels=labels)
    (cost, *_) = rows_of(board)["a"].costs
    assert cost.of == "1000 steps"
    assert cost.an_hour == pytest.approx(10.8)
    assert cost.amount == pytest.approx(10.8 / 3600 * 2000)
    assert board.notes == ()


@pytest.mark.parametrize(
    ("results", "priced", "why"),
    [
        ([on_hosts("a", "b")], ("a",), "2 hosts; no price of name of b (label price_per"),
        ([on_hosts("a", "b")], ("b",), "2 hosts; no price of a (label price_per_hour)."),
        ([on_hosts("a", "b"), on_hosts("a", "c", repeat=1)], "abc", "other hosts in each repeat."),
        (
            [on_hosts("a", "b").model_copy(update={"environment": {"hosts": ("a", "b")}})],
            "ab",
            "on hosts that its results do not name.",
        ),
        ([on_hosts("a", "b")], (), ""),
    ],
)
def test_hosts_without_a_price_and_changing_ones_leave_a_row_without_cost(
    results: list[StoredResult], priced: str, why: str
) -> None:
    board = board_of(results, labels=dict.fromkeys(priced, PRICED))
    assert rows_of(board)["a"].costs == ()
    assert [why in note for note in board.notes] == ([True] if why else [])


@pytest.mark.parametrize("text", ["free", "-1", "0", "0.0", "nan", "inf", "1e3", "1_0", "0,5", "٣"])
def test_a_price_that_is_no_number_above_0_is_told(text: str) -> None:
    prices = prices_of({"a": {"price_per_hour": text}, "b": {"rack": "1"}})
    assert prices.an_hour == {}
    assert len(prices.faults) == 1
    assert f"label price_per_hour of a is {text!r}" in prices.faults[0]


def test_mlperfs_name_brings_the_sentence_that_mlcommons_asks_for() -> None:
    assert board_of(repeats("a", (1.0,) * 4)).not_verified == ""
    meets = result(device="a", environment={MEETS: True})
    assert board_of([meets]).not_verified == NOT_VERIFIED


def test_published_results_have_marked_rows_and_no_share_in_anything_else() -> None:
    own = [answered("a", 0.01, 0.03), answered("b", 0.02)]
    plain = board_of(own)
    board = board_of(own, imported=[imported(0.001, "w0"), imported(0.001, "w3", system="x")])
    (ranking,) = board.rankings
    first, *rest = ranking.rows
    assert first.row.device.imported_from == "MLPerf Mobile v4.0 closed"
    assert (first.row.rank, first.costs) == (1, ())
    assert [row.row.device.imported_from for row in rest] == ["", ""]
    assert [one.name.imported_from for one in board.devices] == [
        "",
        "",
        "MLPerf Mobile v4.0 closed",
    ]
    assert ranking.ranking.verdicts == plain.rankings[0].ranking.verdicts
    assert board.scoreboards == plain.scoreboards
    assert board.not_verified == f"{NOT_VERIFIED} {BUT_IMPORTED}"
    assert "all rows but those marked as imported" in BUT_IMPORTED
    assert "1 of MLPerf Mobile v4.0 closed" in dict(board.facts)["Imported"]
    (line, *_) = csv.DictReader(io.StringIO(board_csv(board)))
    assert line["imported_from"] == "MLPerf Mobile v4.0 closed"


def test_json_has_every_figure_and_the_runs_it_comes_from() -> None:
    results = [answered("a", 0.01, 0.03), answered("b", 0.02, 0.05)]
    board = board_of(results, [failure(device="c", scenario="single_stream")], labels={"a": PRICED})
    told = json.loads(board_json(board))
    (ranking,) = told["rankings"]
    assert ranking["metric"] == {"name": "latency_p90", "unit": "s"}
    assert [row["value"] for row in ranking["rows"]] == [0.03, 0.05, None]
    first, _, last = ranking["rows"]
    assert last["results"] == {"valid": 0, "disturbed": 0, "invalid": 0, "failed": 1}
    (run,) = first["runs"]
    assert run["folder"] == f"runs/{results[0].run_id}"
    assert run["files"][1] == {
        "name": "performance/mlperf_log_detail.txt",
        "size": 3,
        "sha256": SHA,
    }
    assert run["absent"] == {"latencies": "too large"}
    assert first["costs"][0]["price_per_hour"] == 3.6


def test_csv_says_what_json_says_a_line_each() -> None:
    board = board_of([answered("a", 0.01, 0.03), answered("b", 0.04)], labels={"a": PRICED})
    lines = [*csv.DictReader(io.StringIO(board_csv(board)))]
    told = json.loads(board_json(board))["rankings"][0]["rows"]
    assert [line["row"] for line in lines] == [row["row"] for row in told]
    assert [float(line["value"]) for line in lines] == [row["value"] for row in told]
    assert [line["price_per_hour"] for line in lines] == ["3.6", ""]
    assert lines[0]["runs"] == told[0]["runs"][0]["run"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_a_text_in_the_csv_is_no_formula(start: str) -> None:
    text = f"{start}HYPERLINK(1)"
    named: list[StoredResult] = [result(device="a", environment={"cpu_model": text})]
    (line,) = csv.DictReader(io.StringIO(board_csv(board_of(named))))
    assert line["device_model"] == f"'{text}"


def test_a_carriage_return_begins_no_row_of_the_csv() -> None:
    named: list[StoredResult] = [result(device="a", environment={"cpu_model": "x\r=1+1"})]
    (line,) = csv.DictReader(io.StringIO(board_csv(board_of(named)), newline=""))
    assert line["device_model"] == "x\\r=1+1"


def test_hostile_texts_are_data_in_both_files() -> None:
    named = [result(device="a", environment={"cpu_model": HOSTILE}, knobs={"precision": HOSTILE})]
    board = board_of(named)
    (ranking,) = json.loads(board_json(board))["rankings"]
    assert ranking["rows"][0]["device"]["model"] == HOSTILE
    (line,) = csv.DictReader(io.StringIO(board_csv(board)))
    assert json.loads(line["knobs"])["precision"] == HOSTILE
