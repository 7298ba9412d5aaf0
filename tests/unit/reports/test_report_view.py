from __future__ import annotations

from dataclasses import replace

import pytest

from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.errors import NotFound
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Blame, Measurement, Validity
from controller.contracts.units import Unit
from controller.reports.html.report import report_html
from controller.reports.views.model import Ranking, ReportView
from controller.reports.views.sweep import sweep_view
from tests.support.sweep_examples import (
    HOSTILE,
    MADE,
    TARGET,
    SweepExample,
    catalog,
    failure,
    queried,
    repeats,
    result,
    trained,
)


def view_of(
    results: list[StoredResult],
    failures: list[StoredFailure] | None = None,
    baseline: dict[str, Scalar] | None = None,
) -> ReportView:
    data = SweepExample(baseline=baseline or {}).data(results, failures or [])
    return sweep_view(data, catalog(), MADE)


def twice(seconds: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the step times of two runs, which give an interval."""
    return ((seconds,) * 4,) * 2


def only(view: ReportView) -> Ranking:
    (ranking,) = view.rankings
    return ranking


def test_best_comes_first_and_the_verdict_says_by_how_much() -> None:
    ranking = only(view_of([*repeats("slow", *twice(2.0)), *repeats("fast", *twice(1.0))]))
    assert [(row.rank, row.device.id) for row in ranking.rows] == [(1, "fast"), (2, "slow")]
    assert ranking.verdicts == (
        "fast is best: step time 1.000 s, 2.00× [2.00, 2.00] as fast as the next, slow.",
    )
    best, second = ranking.rows
    assert best.vs_best is None
    assert second.vs_best
    assert (second.vs_best.value, second.vs_best.interval) == (0.5, (0.5, 0.5))


def test_stacks_that_recipes_name_are_those_of_the_sweep() -> None:
    data = SweepExample().data([])
    recipes = {"a": {"stack": "torch"}, "b": {"stack": "ipex"}, "c": {"stack": "torch"}}
    sweep = data.record.sweep.model_copy(update={"stack": (), "recipes": recipes})
    record = data.record.model_copy(update={"sweep": sweep})
    facts = dict(sweep_view(replace(data, record=record), catalog(), MADE).facts)
    assert facts["Stacks"] == "torch, ipex"


def test_more_is_better_where_the_metric_says_so() -> None:
    rows = [
        result(
            device=device, repeat=n, scenario="offline", metrics={"throughput": rate["throughput"]}
        )
        for device, rate in {"slow": trained((2.0,) * 4), "fast": trained((1.0,) * 4)}.items()
        for n in range(2)
    ]
    ranking = only(view_of(rows))
    assert [row.device.id for row in ranking.rows] == ["fast", "slow"]
    assert "fast is best: throughput 2.00 images/s, 2.00× [2.00, 2.00]" in ranking.verdicts[0]


def test_no_difference_is_claimed_where_none_is_shown() -> None:
    noisy = ((0.9, 1.0, 1.2, 1.1), (1.1, 0.95, 1.0, 1.05))
    other = ((0.92, 1.02, 1.2, 1.1), (1.1, 0.95, 1.0, 1.07))
    far = ((9.0, 9.1), (9.0, 9.1))
    view = view_of([*repeats("a", *noisy), *repeats("b", *other), *repeats("c", *far)])
    (verdict,) = only(view).verdicts
    assert verdict.startswith("a (step time 1.02")
    assert "and the next, b: not resolved, 1.02× [" in verdict
    assert "needs 3 %" in verdict
    assert "more" not in verdict


def test_a_tie_of_three_counts_the_third() -> None:
    same = ((0.9, 1.0, 1.2, 1.1), (1.1, 0.95, 1.0, 1.05))
    view = view_of([*repeats("a", *same), *repeats("b", *same), *repeats("c", *same)])
    assert "; 1 more can't be told from the first either" in only(view).verdicts[0]


@pytest.mark.parametrize("third", [((0.7, 0.7), (1.6, 1.6)), ((1.02, 1.02),)])
def test_none_is_best_while_a_later_row_can_not_be_told_from_it(
    third: tuple[tuple[float, ...], ...],
) -> None:
    """Its runs differ much, or there is only one."""
    view = view_of([*repeats("a", *twice(1.0)), *repeats("b", *twice(1.01)), *repeats("c", *third)])
    ranking = only(view)
    assert [row.device.id for row in ranking.rows] == ["a", "b", "c"]
    (verdict,) = ranking.verdicts
    assert verdict == (
        "a comes first: step time 1.000 s, 1.01× [1.01, 1.01] as fast as the next, b; "
        "1 more can't be told from the first."
    )


def test_rows_that_are_alike_are_equal_and_not_merely_undecided() -> None:
    steady = (tuple(1 + n / 1000 for n in range(8)),) * 3
    view = view_of([*repeats("a", *steady), *repeats("b", *steady)])
    (verdict,) = only(view).verdicts
    assert "and the next, b: equal within 0." in verdict
    assert "equal within 0." in report_html(view)


def test_one_sample_gives_a_ratio_without_an_interval() -> None:
    ranking = only(view_of([*repeats("a", (1.0,)), *repeats("b", (1.5,))]))
    assert ranking.verdicts[0] == (
        "a comes first: step time 1.000 s, 1.50× as fast as the next, b; "
        "a single run gives no interval."
    )
    assert [row.interval for row in ranking.rows] == [None, None]


def test_what_was_disturbed_has_no_rank_however_fast_and_says_so() -> None:
    loud = repeats("a", (0.1, 0.1), validity=Validity.DISTURBED, reasons=("1.67 of 2 cores",))
    view = view_of([*loud, *repeats("c", (1.0, 1.0))])
    rows = only(view).rows
    assert [(row.rank, row.device.id, row.disturbed) for row in rows] == [
        (1, "c", 0),
        (None, "a", 1),
    ]
    assert [(r.validity, r.reasons) for r in view.rejected] == [("DISTURBED", ("1.67 of 2 cores",))]
    first, second = only(view).verdicts
    assert first == "Only c was measured: step time 1.000 s."
    assert second == "DISTURBED, so without a rank: a."
    page = report_html(view)
    assert "1 DISTURBED" in page
    assert second in page
    assert "is VALID within the limits of lab (others keep at most 0.15 cores busy" in page
    assert "policy=lab" not in report_html(view_of(repeats("c", (1.0, 1.0))))


def test_what_failed_or_was_invalid_is_last_and_without_a_rank() -> None:
    broken = repeats("a", (0.1, 0.1), validity=Validity.INVALID, reasons=("too hot",))
    failed = failure(device="b", blame=Blame.DEVICE, message="unplugged", output="last words")
    view = view_of([*broken, *repeats("c", (1.0, 1.0))], [failed])
    ranking = only(view)
    assert [(row.rank, row.device.id) for row in ranking.rows] == [
        (1, "c"),
        (None, "a"),
        (None, "b"),
    ]
    assert [(row.valid, row.invalid, row.failed) for row in ranking.rows] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]
    assert ranking.verdicts == ("Only c was measured: step time 1.000 s.",)
    assert [(r.device.id, r.validity, r.reasons) for r in view.rejected] == [
        ("a", "INVALID", ("too hot",))
    ]
    assert [(f.device.id, f.blame, f.message, f.output) for f in view.failed] == [
        ("b", "device", "unplugged", "last words")
    ]


def test_nothing_valid_is_said_plainly() -> None:
    assert only(view_of([], [failure()])).verdicts == ("Nothing VALID was measured.",)


def test_a_late_result_is_shown_and_not_used() -> None:
    late = result(device="a", repeat=1, metrics=trained((9.0, 9.0)), counted=False)
    view = view_of([*repeats("a", (1.0, 1.0)), late])
    assert only(view).rows[0].median == 1.0
    assert [r.validity for r in view.rejected] == ["VALID, late: not counted"]
    assert dict(view.facts)["Results"] == "1 VALID, 1 late, not counted"


def test_virtual_devices_are_ranked_apart_and_marked() -> None:
    view = view_of([*repeats("real", (2.0, 2.0)), *repeats("v", (1.0, 1.0), virtual=True)])
    assert [(r.virtual, [row.device.id for row in r.rows]) for r in view.rankings] == [
        (False, ["real"]),
        (True, ["v"]),
    ]
    assert view.any_virtual
    assert "v (virtual)" in view.rankings[1].verdicts[0]
    assert view.rankings[1].name.endswith(" · virtual")
    assert dict(view.facts)["Devices"] == "2, of which 1 virtual"


def test_a_virtual_device_is_never_compared_with_a_real_baseline() -> None:
    results = [
        *repeats("real", (2.0, 2.0)),
        *repeats("v", (1.0, 1.0), virtual=True, knobs={"precision": "bf16"}),
    ]
    view = view_of(results, baseline={"precision": "fp32"})
    assert [row.vs_reference for ranking in view.rankings for row in ranking.rows] == [None, None]


def test_different_problems_are_never_ranked_together_but_number_formats_are() -> None:
    results = [
        *repeats("a", (1.0, 1.0), knobs={"size": 1, "numerics": "fp32"}),
        *repeats("a", (0.5, 0.5), knobs={"size": 1, "numerics": "int8"}),
        *repeats("a", (9.0, 9.0), knobs={"size": 2, "numerics": "fp32"}),
    ]
    small, large = view_of(results).rankings
    assert (small.problem, large.problem) == ("size=1", "size=2")
    assert [row.knobs for row in small.rows] == [("int8",), ("fp32",)]
    assert small.columns.knobs == ("numerics",)
    assert small.columns.fixed == ("stack=torch", "size=1", "precision=fp32")
    assert [row.label for row in small.rows] == ["a · int8", "a · fp32"]
    assert len(large.rows) == 1


def test_each_device_has_its_own_baseline() -> None:
    results = [
        *repeats("a", *twice(4.0)),
        *repeats("a", *twice(2.0), knobs={"precision": "bf16"}),
        *repeats("b", *twice(9.0)),
        *repeats("b", *twice(3.0), knobs={"precision": "bf16"}),
    ]
    ranking = only(view_of(results, baseline={"precision": "fp32"}))
    assert ranking.reference == "baseline"
    versus = {row.label: row.vs_reference.value for row in ranking.rows if row.vs_reference}
    assert versus == {"a · bf16": 2.0, "b · bf16": 3.0}
    assert {row.label for row in ranking.rows if row.is_reference} == {"a · fp32", "b · fp32"}
    assert ranking.verdicts[0].endswith("b · bf16; against the baseline: 2.00× [2.00, 2.00].")


def test_quality_and_raw_latencies_stand_beside_the_speed() -> None:
    runs = [
        result(scenario="single_stream", repeat=n, metrics=queried(tuple(range(1, 101)), top1))
        for n, top1 in enumerate((0.75, 0.77))
    ]
    ranking = only(view_of(runs))
    columns, (row,) = ranking.columns, ranking.rows
    assert columns.quality
    assert (columns.quality.metric.heading, columns.quality.target) == ("top-1", TARGET)
    assert row.quality == pytest.approx(0.76)
    assert [metric.name for metric in columns.details] == [
        "latency_p50",
        "latency_p99",
        "peak_memory",
    ]
    assert row.details[:2] == (51.0, 100.0)
    assert row.distribution
    assert row.distribution.samples == 200
    assert row.distribution.quantiles == pytest.approx((1.99, 25.75, 50.5, 75.25, 99.01))


def test_servers_and_phones_are_ranked_together_with_energy_or_why_it_is_unknown() -> None:
    told = {"energy": Measurement(value=0.25, unit=Unit.JOULES_PER_QUERY)}
    asked = {"workload": "w1", "scenario": "single_stream"}
    server = result(device="server", metrics=queried((0.2, 0.3)) | told, **asked)
    phone = result(
        device="phone",
        device_kind=DeviceKind.ANDROID,
        metrics=queried((0.1, 0.2)),
        environment={"energy_unknown": "the phone was <being> charged"},
        **asked,
    )
    view = view_of([server, phone])
    ranking = only(view)
    place = [metric.name for metric in ranking.columns.details].index("energy")
    assert [row.device.id for row in ranking.rows] == ["phone", "server"]
    assert [row.details[place] for row in ranking.rows] == [None, 0.25]
    page = report_html(view)
    assert "unknown: the phone was &lt;being&gt; charged" in page
    assert "0.25 J/query" in page


def test_answers_unlike_the_reference_s_or_without_a_target_are_told_below_the_ranking() -> None:
    asked = {"workload": "w1", "scenario": "single_stream"}
    differs = {"reference_differs": "they agree by <1%>"}
    lacking = {"reference_unknown": "no memory"}
    none = {"quality_target_unknown": "MLPerf Mobile v6.0 prints none for this task"}
    target = result(device="four", metrics=queried((0.2,)), environment=none, **asked)
    results = [
        result(device=device, metrics=queried((0.2, 0.3)), environment=facts, **asked)
        for device, facts in (("one", differs), ("two", differs), ("three", lacking))
    ]
    page = report_html(view_of([*results, target]))
    assert "No quality target: MLPerf Mobile v6.0 prints none for this task (four)." in page
    assert "Answers differ: they agree by &lt;1%&gt; (one, two)." in page
    assert "No reference: no memory (three)." in page


def test_offline_has_no_samples_to_show_a_distribution_of() -> None:
    metrics = {"throughput": trained((1.0,))["throughput"].model_copy(update={"samples": ()})}
    ranking = only(view_of([result(scenario="offline", metrics=metrics)]))
    assert ranking.columns.distribution is None
    assert ranking.rows[0].distribution is None


def test_scenario_of_another_release_is_refused_with_its_name() -> None:
    with pytest.raises(NotFound, match="no scenario server"):
        view_of([result(scenario="server")])


def test_workload_of_another_release_is_ranked_all_the_same() -> None:
    assert only(view_of([result(workload="gone")])).workload_title == ""


def test_scoreboard_shows_shares_of_the_best_and_sorts_by_them() -> None:
    results = [
        *repeats("a", (1.0, 1.0)),
        *repeats("b", (2.0, 2.0)),
        *repeats("b", (1.0, 1.0), workload="w2"),
        *repeats("a", (1.25, 1.25), workload="w2"),
        *repeats("c", (5.0, 5.0), workload="w2"),
    ]
    (board,) = view_of(results).scoreboards
    shares = {name.id: [s and s.share for s in scores] for name, scores in board.rows}
    assert shares == {"a": [1.0, 0.8], "b": [0.5, 1.0], "c": [None, 0.2]}
    assert list(shares) == ["a", "b", "c"]


def test_one_device_or_one_task_needs_no_scoreboard() -> None:
    assert view_of([*repeats("a", (1.0,)), *repeats("b", (1.0,))]).scoreboards == ()
    assert view_of([*repeats("a", (1.0,)), *repeats("a", (1.0,), workload="w2")]).scoreboards == ()


def test_conditions_say_once_what_is_the_same_and_in_tables_what_is_not() -> None:
    common = {"torch": "2.13", "governor": None, "memory_bytes": 2**35, "timed_s": 12.5}
    results = [
        result(device="a", environment={**common, "isa": ("avx2", "amx"), "load": 0.5}),
        result(device="a", repeat=1, environment={**common, "isa": ("avx2", "amx"), "load": 1.5}),
        result(device="b", environment={**common, "isa": ("avx2",), "load": 0.25, "smt": True}),
    ]
    (conditions,) = view_of(results).conditions
    assert (conditions.kind, [d.id for d in conditions.devices]) == ("Servers", ["a", "b"])
    assert dict(conditions.same) == {
        "torch": "2.13",
        "governor": "not readable",
        "memory_bytes": "32.00 GiB",
        "timed_s": "12.5 s",
        "isa, in all": "avx2",
    }
    between, within = conditions.differing
    assert between.facts == ("isa", "smt")
    assert [row.texts for row in between.rows] == [("1 in all, amx", "–"), ("1 in all", "yes")]
    assert within.facts == ("load",)
    assert [row.texts for row in within.rows] == [("0.5 – 1.5",), ("0.25",)]


def test_servers_and_phones_have_conditions_of_their_own() -> None:
    phone = {"manufacturer": "Acme", "model": "One", "soc": "S1", "charging": False}
    results = [
        result(device="a", environment={"cpu_model": "Xeon"}),
        result(device="p", device_kind=DeviceKind.ANDROID, environment=phone),
    ]
    servers, phones = view_of(results).conditions
    assert (servers.kind, dict(servers.same)) == ("Servers", {"cpu_model": "Xeon"})
    assert (phones.kind, phones.devices[0].model) == ("Phones", "Acme One S1")
    assert dict(phones.same)["charging"] == "no"


def test_many_differing_facts_are_cut_into_tables_that_fit() -> None:
    many = {f"fact{n}": n for n in range(8)}
    results = [
        result(device="a", environment=many),
        result(device="b", environment={name: value + 1 for name, value in many.items()}),
    ]
    (conditions,) = view_of(results).conditions
    assert [len(table.facts) for table in conditions.differing] == [6, 2]
    assert conditions.differing[1].title == "Differs between devices, 2 of 2"


def asked(device: str, build: str, **changes: object) -> StoredResult:
    """Return a result of which a delegate took 16 of 78 nodes."""
    told = {"fingerprint": build, "graph_nodes": 78, "delegated_nodes": 16}
    emulated = {"emulated": True} if changes.pop("emulated", False) else {}
    knobs = {"delegate": "xnnpack", "numerics": "int8"}
    return result(device=device, knobs=knobs, environment={**told, **emulated}, **changes)


def test_delegates_stand_by_task_and_device_with_a_column_for_each_build() -> None:
    refused = failure(
        device="b",
        knobs={"delegate": "gpu", "numerics": "int8"},
        kind="delegate_refused",
        message=f"no{HOSTILE}\x1b[2J",
        environment={"fingerprint": "b/1"},
    )
    view = view_of(
        [
            asked("b", "b/1"),
            asked("a", "a/1", started_at=1.0),
            asked("a", "a/2", started_at=2.0),
            asked("v", "v/1", virtual=True, emulated=True),
            asked("w", "w/1", virtual=True),
            asked("c", "c/1", workload="w2"),
        ],
        [refused],
    )
    first, second = view.delegates
    columns = [(str(c.device), c.build) for table in view.delegates for c in table.columns]
    assert columns == [
        ("a", "a/1"),
        ("a", "a/2"),
        ("b", ""),
        ("c", ""),
        ("v (virtual, emulated)", ""),
        ("w (virtual)", ""),
    ]
    assert [row.kind[0::2] for row in first.rows] == [
        ("w0", "gpu"),
        ("w0", "xnnpack"),
        ("w2", "xnnpack"),
    ]
    gpu, xnnpack, other = ([c and str(c.verdict) for c in row.outcomes] for row in first.rows)
    assert gpu == [None, None, "fails", None]
    assert xnnpack == ["falls back"] * 3 + [None]
    assert other == [None] * 3 + ["falls back"]
    assert [len(row.outcomes) for row in second.rows] == [2]
    page = report_html(view)
    assert "16 of 78 nodes" in page
    assert '<span class="chip">emulated</span>' in page
    assert HOSTILE not in page
    assert "\x1b" not in page


def test_a_report_without_delegates_has_no_section_of_them() -> None:
    view = view_of(repeats("a", *twice(1.0)))
    assert view.delegates == ()
    assert "Delegates: what works" not in report_html(view)
