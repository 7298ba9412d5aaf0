"""Paired comparisons in a report: the verdict on top, the chart of pairs, when it was measured."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from agents.pairing.interleave import ComparisonState
from agents.pairing.outcome import paired_result
from controller.contracts.catalog import Catalog
from controller.contracts.errors import UserError
from controller.contracts.pair import Pair
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Result, Validity, usable, used, worst
from controller.contracts.sweep import PairedCandidate, Side
from controller.contracts.units import Unit
from controller.reports.html.pairs_chart import pairs_chart
from controller.reports.html.report import report_html
from controller.reports.result_selection import Wanted
from controller.reports.stored_comparison import compare_stored
from controller.reports.summary import summarise, troubles_of
from controller.reports.summary_table import compared_lines
from controller.reports.views.common import moment
from controller.reports.views.model import ReportView
from controller.reports.views.sweep import sweep_view
from controller.stats.pairs import ratio_of_pairs
from tests.support.sweep_examples import MADE, SweepExample, catalog, repeats, result
from tests.support.validity import CHOICES


def view_of(results: list[StoredResult]) -> ReportView:
    return sweep_view(SweepExample().data(results), catalog(), MADE)


def paired(ratios: tuple[float, ...] = (2.0,) * 12, **changes: object) -> StoredResult:
    """Return a comparison of fp32 with bf16 whose pairs have these ratios, one in 2 s."""
    pairs = tuple(
        Pair(a=(ratio,), b=(1.0,), a_first=n % 2 == 0, ended_s=2.0 * (n + 1))
        for n, ratio in enumerate(ratios)
    )
    own: dict[str, object] = {
        "metrics": {"step_time_a": Measurement.of_samples((2.0,), Unit.SECONDS)},
        "versus": PairedCandidate(stack="torch", knobs={"precision": "bf16"}),
        "environment": {"setup_s": 40.0, "compared_s": 2.0 * len(pairs), "cpu_model": "Xeon"},
    }
    found = result(**(own | changes))
    return found.model_copy(update={"pairs": pairs, "knobs": {"precision": "fp32"}})


@CHOICES
def test_repeats_are_chosen_by_the_same_rule_in_compare_and_in_reports(
    validities: tuple[Validity, ...], taken: tuple[int, ...]
) -> None:
    repeats = [
        paired((2.0 + n,) * 12, validity=validity, run_id=f"run-{n}")
        for n, validity in enumerate(validities)
    ]
    chosen, of = [repeats[n] for n in taken], worst(validities[n] for n in taken)
    assert used(repeats) == chosen, "`compare`"
    some = of is not Validity.INVALID
    assert usable(repeats) == (chosen if some else []), "`results compare`"
    compared = view_of(repeats).compared
    assert [(c.validity, c.sessions) for c in compared] == ([(of, len(taken))] if some else [])


def test_paired_comparisons_are_told_and_not_ranked() -> None:
    alone = paired(device="v", virtual=True)
    broken = alone.model_copy(update={"validity": Validity.INVALID, "reasons": ("too hot",)})
    view = view_of([alone, broken])
    assert view.rankings == ()
    (compared,) = view.compared
    assert (str(compared.device), compared.pairs) == ("v (virtual)", 12)
    assert (compared.a, compared.b) == ("torch:precision=fp32", "torch:precision=bf16")
    assert compared.verdict == "B is 2.00× faster, 95 % [2.00, 2.00]"
    (rejected,) = view.rejected
    assert "torch:precision=fp32 vs torch:precision=bf16" in rejected.cell
    html = report_html(view)
    assert "Nothing has been measured yet" not in html
    top = html[html.index('<h2 id="verdict-title">') : html.index('<dl class="facts">')]
    assert compared.verdict in top
    (conditions,) = view.conditions
    assert ("cpu_model", "Xeon") in conditions.same


def test_a_disturbed_comparison_is_told_and_says_so_but_never_with_valid_ones() -> None:
    loud = paired(validity=Validity.DISTURBED, reasons=("1.42 of 2 cores",), repeat=1)
    (alone,) = view_of([loud]).compared
    assert (alone.validity, alone.sessions) == ("DISTURBED", 1)
    assert alone.verdict.endswith("; DISTURBED: the machine was not quiet")
    (both,) = view_of([loud, paired()]).compared
    assert (both.validity, both.sessions) == ("VALID", 1)
    assert alone.verdict in report_html(view_of([loud]))
    told = compared_lines(view_of([loud]).compared, 80)
    assert alone.verdict in " ".join(" ".join(told).split())
    assert max(map(len, told)) <= 80


def test_a_report_of_invalid_comparisons_alone_says_so() -> None:
    html = report_html(view_of([paired(validity=Validity.INVALID, reasons=("too hot",))]))
    assert "Nothing VALID was measured." in html


def test_pairs_of_unlike_batches_are_drawn_as_the_verdict_tells_them() -> None:
    """B's step has four times the samples and takes half the time."""
    of = paired()
    assert of.versus
    candidate = of.versus.model_copy(update={"knobs": {"batch_size": 8}})
    view = view_of([of.model_copy(update={"knobs": {"batch_size": 2}, "versus": candidate})])
    (compared,) = view.compared
    assert compared.ratio.value == pytest.approx(8.0)
    assert {point.ratio for point in compared.points} == {8.0}
    assert compared.verdict.endswith("; by samples/s, since batch_size is 2 and 8")


WARM = (3.0, 2.8, *(2.0 + 0.01 * (n % 3) for n in range(14)))


@pytest.mark.parametrize(
    ("results", "heading", "places", "warmup"),
    [
        ([paired(WARM)], "seconds since the first batch", [2.0 * n for n in range(1, 17)], 2),
        # Of an earlier release: when its pairs ended is not known.
        (
            [
                paired(WARM).model_copy(
                    update={
                        "pairs": tuple(
                            pair.model_copy(update={"ended_s": None}) for pair in paired(WARM).pairs
                        )
                    }
                )
            ],
            "pair",
            list(range(1, 17)),
            2,
        ),
        # Two draws, one after the other.
        ([paired(WARM), paired(WARM, repeat=1)], "pair", list(range(1, 33)), 4),
        ([paired((2.0, 1.9))], "seconds since the first batch", [2.0, 4.0], 1),
    ],
)
def test_pairs_are_drawn_with_the_interval_one_and_the_warm_up(
    results: list[StoredResult], heading: str, places: list[float], warmup: int
) -> None:
    (compared,) = view_of(results).compared
    chart = pairs_chart(compared)
    assert len(go.Figure(chart.figure).data) == 2
    points, layout = chart.figure["data"][-1], chart.figure["layout"]
    assert layout["xaxis"]["title"]["text"] == heading
    assert list(points["x"]) == places
    assert points["y"][0] == pytest.approx(results[0].pairs[0].a[0])
    assert [symbol == "circle-open" for symbol in points["marker"]["symbol"]].count(True) == warmup
    assert ("warm-up" in chart.caption) == (warmup > 0)
    band = [(s["y0"], s["y1"]) for s in layout["shapes"] if s["type"] == "rect"]
    assert band == ([compared.ratio.interval] if compared.ratio.interval else [])
    assert [s["y0"] for s in layout["shapes"] if s["type"] == "line"] == [compared.ratio.value, 1]
    assert chart.anchor in report_html(view_of(results))


def test_comparisons_of_the_same_two_are_draws_of_one_verdict() -> None:
    (compared,) = view_of([paired((2.0,) * 12), paired((2.2,) * 12, repeat=1)]).compared
    assert (compared.sessions, compared.pairs) == (2, 24)
    low, high = compared.ratio.interval or (0, 0)
    assert low < 1.5, "two draws say little, however many pairs each has"
    assert high > 3


def test_measured_is_when_the_measuring_began_and_ended() -> None:
    began = 1_799_995_000.0
    compared = dict(view_of([paired()]).facts)["Measured"]
    assert compared == f"{moment(began + 40)} to {moment(began + 64)}"
    alone = repeats("a", (1.0, 1.0), started_at=began, recorded_at=began + 30)
    assert dict(view_of(alone).facts)["Measured"] == f"{moment(began)} to {moment(began + 30)}"
    # Clocks that were set, and results without either time.
    early = repeats("a", (1.0, 1.0), started_at=began, recorded_at=began - 30)
    assert dict(view_of(early).facts)["Measured"] == f"{moment(began)} to {moment(began)}"


# --- a scenario whose metric is another by now -------------------------------------------------

A, B = Side.model_validate("torch:precision=fp32"), Side.model_validate("torch:precision=bf16")


def of_latency(run_id: str = "run-1") -> StoredResult:
    """Return a comparison as an agent makes it: B has half of A's latency, and twice its rate."""

    def side(latency_s: float) -> Result:
        latency = Measurement.of_samples((latency_s,) * 3, Unit.SECONDS)
        rates = (1 / latency_s,) * 3
        rate = Measurement.of_samples(rates, Unit.SAMPLES_PER_SECOND)
        metrics = {"latency_mean": latency, "throughput": rate}
        return Result(validity=Validity.VALID, metrics=metrics, environment={})

    pairs = paired().pairs
    state = ComparisonState(pairs, ratio_of_pairs(pairs), 24.0, 2.0)
    measured = paired_result("latency_mean", side(2.0), side(1.0), state, (None, None), 40.0)
    return paired(metrics=measured.metrics, run_id=run_id)


def ranked_by(metric: str) -> Catalog:
    known = catalog()
    training = known.scenarios["training"].model_copy(update={"metric": metric})
    return known.model_copy(update={"scenarios": {**known.scenarios, "training": training}})


@pytest.mark.parametrize("metric", ["latency_mean", "throughput", "renamed"])
def test_a_stored_comparison_is_told_by_the_metric_that_was_measured(metric: str) -> None:
    told, by = [of_latency()], ranked_by(metric)
    found = summarise(told, [], {}, by)
    (compared,) = found.compared
    assert compared.verdict.startswith("B is 2.00× faster")
    assert {point.ratio for point in compared.points} == {2.0}
    assert list(troubles_of(found)) == []
    asked = Wanted(A, B, told[0].workload, "training", {}, None)
    stored, _ = compare_stored(told, asked, by, "Choose.", force=False)
    assert (stored.metric, stored.outcome) == ("latency_mean", "b_faster")


@pytest.mark.parametrize("named", [(), ("latency_mean", "throughput")], ids=["none", "two"])
def test_a_comparison_that_does_not_tell_its_metric_is_left_out_and_told_of(
    named: tuple[str, ...],
) -> None:
    several = {f"{name}_a": Measurement.of_samples((1.0,), Unit.SECONDS) for name in named}
    untold = of_latency(run_id="untold").model_copy(update={"metrics": several})
    invalid = untold.model_copy(update={"validity": Validity.INVALID, "run_id": "invalid"})
    results, by = [of_latency(), untold, invalid], ranked_by("latency_mean")
    found = summarise(results, [], {}, by)
    assert [compared.sessions for compared in found.compared] == [1]
    why = "run untold: it doesn't tell which metric it compared, as exactly one should have samples"
    assert list(troubles_of(found)) == [why]
    view = sweep_view(SweepExample().data(results), by, MADE)
    assert dict(view.facts)["Not compared"] == why
    assert [compared.sessions for compared in view.compared] == [1]
    asked = Wanted(A, B, untold.workload, "training", {}, None)
    with pytest.raises(UserError, match="run untold: it doesn't tell which metric"):
        compare_stored(results, asked, by, "Choose.", force=False)


def test_comparisons_in_two_metrics_are_not_taken_together() -> None:
    """Of one cell, and a sweep that went on after its scenario had changed."""
    other = paired(run_id="run-2")
    other = other.model_copy(update={"cell_key": of_latency().cell_key, "repeat": 1})
    found = summarise([of_latency(), other], [], {}, ranked_by("step_time"))
    assert [compared.sessions for compared in found.compared] == [1, 1]
    asked = Wanted(A, B, other.workload, "training", {}, None)
    said = "run run-1 compared latency_mean and run run-2 compared step_time"
    with pytest.raises(UserError, match=f"{said}.*--sweep"):
        compare_stored([of_latency(), other], asked, catalog(), "Choose.", force=False)
