"""The terminal's tables: they read well at every width, and have the figures of everything else."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.manifests import ScenarioManifest
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit
from controller.reports.figures import shown
from controller.reports.groups import NoRatio
from controller.reports.html.report import report_html
from controller.reports.layout import Column, Kind, draw, shortened
from controller.reports.summary import CellSummary, summaries_of, summarise, troubles_of
from controller.reports.summary_table import summary_lines
from controller.reports.views.sweep import sweep_view
from tests.support.sweep_examples import (
    MADE,
    SweepExample,
    catalog,
    repeats,
    result,
    trained,
)
from tests.support.table_examples import (
    KEPT,
    WIDTHS,
    TableExample,
    examples,
    kept,
    steps,
)

NAMES = ("one", "sizes", "phones", "program", "large")
EXAMPLES = examples()


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_as_they_were_when_a_person_read_them(name: str) -> None:
    expected = (KEPT / f"{name}.txt").read_text(encoding="utf-8")
    assert kept(EXAMPLES[name]) == expected


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_no_value_is_cut_no_word_split_and_no_line_too_long(name: str, width: int) -> None:
    example = EXAMPLES[name]
    text = "\n".join(lines := example.lines(width))
    assert max(map(cell_len, lines)) <= width
    for cell in summaries_of(example.summary.rankings):
        for figure in _always_shown(cell):
            assert re.search(rf"(?<![\w.]){re.escape(figure)}(?![\w.])", text), figure
    words = set(re.findall(r"[^\W\d_]{3,}", text))
    known = set(re.findall(r"[^\W\d_]{3,}", "\n".join(example.lines(1000))))
    pieces = {word for word in words - known if not _of_a_short_name(word, text)}
    assert pieces <= {"left", "out", "see", "wider", "terminal", "benchfarm", "csv", "sweep"} | {
        *("status", "made", "percent")
    }


def _always_shown(cell: CellSummary) -> list[str]:
    """Return the figures that a table has at every width."""
    found = []
    if metric := cell.metrics.get(cell.ranked_by):
        found.append(shown(metric.value, metric.unit))
    if cell.vs_baseline is not None:
        found.append(f"{cell.vs_baseline:.2f}×")
    if cell.vs_baseline_low is not None and cell.vs_baseline_high is not None:
        found.append(f"[{cell.vs_baseline_low:.2f}, {cell.vs_baseline_high:.2f}]")
    counts = (cell.valid, "VALID"), (cell.disturbed, "DISTURBED"), (cell.failed, "failed")
    found += [f"{count} {word}" for count, word in counts if count]
    return found + [f"{n}={v}" for n, v in cell.knobs.items() if not isinstance(v, str)]


def _of_a_short_name(word: str, text: str) -> bool:
    return bool(re.search(rf"…\S*{word}|{word}\S*…", text))


Rows = Sequence[StoredResult]
RATIO_ROWS: list[tuple[str, Rows, dict[str, Scalar], dict[tuple[str, str, int], object]]] = [
    (
        "several sizes: each has its own baseline",
        [
            *repeats("a", (4.0,), knobs={"size": 1}),
            *repeats("a", (2.0,), knobs={"size": 1, "precision": "bf16"}),
            *repeats("a", (9.0,), knobs={"size": 2}),
            *repeats("a", (3.0,), knobs={"size": 2, "precision": "bf16"}),
        ],
        {"precision": "fp32"},
        {
            ("a", "fp32", 1): "baseline",
            ("a", "bf16", 1): 2.0,
            ("a", "fp32", 2): "baseline",
            ("a", "bf16", 2): 3.0,
        },
    ),
    (
        "one size has no baseline",
        [
            *repeats("a", (4.0,), knobs={"size": 1}),
            *repeats("a", (3.0,), knobs={"size": 2, "precision": "bf16"}),
        ],
        {"precision": "fp32"},
        {("a", "fp32", 1): "baseline", ("a", "bf16", 2): NoRatio.NO_RUN},
    ),
    (
        "any device: a ratio of two machines is refused",
        [*repeats("a", (4.0,)), *repeats("b", (3.0,), knobs={"precision": "bf16"})],
        {"precision": "fp32"},
        {("a", "fp32", 1): "baseline", ("b", "bf16", 1): NoRatio.ANOTHER_DEVICE},
    ),
    (
        "a device that is the baseline serves all, cell by cell, and it is said",
        [
            *repeats("a", (4.0,)),
            *repeats("a", (2.0,), knobs={"precision": "bf16"}),
            *repeats("b", (8.0,)),
            *repeats("b", (8.0,), knobs={"precision": "bf16"}),
        ],
        {"device": "a"},
        {
            ("a", "fp32", 1): "baseline",
            ("a", "bf16", 1): "baseline",
            ("b", "fp32", 1): 0.5,
            ("b", "bf16", 1): 0.25,
        },
    ),
    (
        "a virtual device has no real baseline, though the device is named",
        [*repeats("a", (4.0,)), *repeats("v", (1.0,), virtual=True)],
        {"device": "a"},
        {("a", "fp32", 1): "baseline", ("v", "fp32", 1): NoRatio.NO_RUN},
    ),
    (
        "two baselines fit",
        [
            *repeats("a", (4.0,), knobs={"threads": 1}),
            *repeats("a", (4.0,), knobs={"threads": 2}),
            *repeats("a", (4.0,), knobs={"threads": 1, "precision": "bf16"}),
        ],
        {"precision": "fp32"},
        {("a", "bf16", 1): NoRatio.SEVERAL},
    ),
    (
        "what was disturbed has no ratio, and is no baseline",
        [
            *repeats("a", (1.0,), validity=Validity.DISTURBED, reasons=("loud",)),
            *repeats("a", (2.0,), knobs={"precision": "bf16"}),
            *repeats("b", (1.0,)),
            *repeats(
                "b",
                (0.1,),
                knobs={"precision": "bf16"},
                validity=Validity.DISTURBED,
                reasons=("loud",),
            ),
        ],
        {"precision": "fp32"},
        {
            ("a", "bf16", 1): NoRatio.BASELINE_NOT_VALID,
            ("b", "bf16", 1): NoRatio.NOT_VALID,
        },
    ),
    (
        "no baseline was asked for",
        [*repeats("a", (4.0,)), *repeats("b", (2.0,))],
        {},
        {("a", "fp32", 1): None, ("b", "fp32", 1): None},
    ),
]


@pytest.mark.parametrize(
    ("rows", "baseline", "expected"),
    [row[1:] for row in RATIO_ROWS],
    ids=[row[0] for row in RATIO_ROWS],
)
def test_a_ratio_is_right_or_it_is_said_why_there_is_none(
    rows: Rows, baseline: dict[str, Scalar], expected: dict[tuple[str, str, int], object]
) -> None:
    rankings = summarise(rows, [], baseline, catalog()).rankings
    found = summaries_of(rankings)
    text = "\n".join(summary_lines(rankings, 200, ""))
    told = {(c.device, str(c.knobs["precision"]), c.knobs["size"]): _ratio(c) for c in found}
    assert expected.items() <= told.items()
    assert ("vs baseline" in text) == bool(baseline)
    for cell in found:
        crosses = cell.vs_baseline is not None and cell.baseline_device != cell.device
        assert not crosses or "† against the baseline on another device: a" in text
        assert cell.no_ratio is None or cell.no_ratio in text


def _ratio(cell: CellSummary) -> object:
    return "baseline" if cell.is_baseline else cell.vs_baseline or cell.no_ratio


def test_short_names_stay_different_and_figures_are_never_shortened() -> None:
    names = [f"server-{n:02}-in-the-cellar" for n in range(20)]
    assert len(set(shortened(names, 8))) == 20
    assert max(map(len, shortened(names, 8))) < len(names[0])
    drawn = draw(
        [Column("device", names, Kind.NAME), Column("x", ["12345.6"] * 20, Kind.FIGURE)], 5
    )
    assert all(line.endswith("12345.6") for line in drawn.lines[2:])


def test_a_name_cannot_steer_the_terminal_and_a_mark_is_never_shortened() -> None:
    hostile = "phone\x1b[2J" + "x" * 60
    columns = [
        Column("device", [hostile, "b" * 70], Kind.NAME, (" (virtual)", "")),
        Column("step time", ["1.5 s", "2.5 s"], Kind.FIGURE),
    ]
    text = "\n".join(draw(columns, 40).lines)
    assert "\x1b" not in text
    assert "(virtual)" in text


@pytest.mark.parametrize(("others", "said"), [(9, False), (10, True)])
def test_many_ratios_are_said_to_be_wrong_now_and_then(others: int, said: bool) -> None:
    found = [
        one for n in range(others + 1) for one in repeats("a", (1.0,), (1.1,), knobs={"threads": n})
    ]
    summary = summarise(found, [], {"threads": 0}, catalog())
    note = "each ratio's interval is 95 % by itself: of 20, expect one that does not hold the truth"
    assert (note in summary_lines(summary.rankings, 140, "all")) is said
    html = report_html(
        sweep_view(SweepExample(baseline={"threads": 0}).data(found, []), catalog(), MADE)
    )
    assert (note.removeprefix("each ratio's ") in html) is said


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_a_value_of_zero_has_no_ratio_and_says_why(values: tuple[float, float]) -> None:
    """A user's program may print it."""
    mine, base = ({"rate": Measurement(value=v, unit=Unit.SAMPLES_PER_SECOND)} for v in values)
    found = [result(scenario="rates", metrics=base, stack="torch", repeat=n) for n in (0, 1)]
    found += [result(scenario="rates", metrics=mine, stack="other", repeat=n) for n in (0, 1)]
    known = with_rates()
    summary = summarise(found, [], {"stack": "torch"}, known)
    (row,) = [cell for cell in summaries_of(summary.rankings) if not cell.is_baseline]
    assert (row.vs_baseline, row.no_ratio) == (None, NoRatio.NOT_POSITIVE)
    assert summary_lines(summary.rankings, 100, "all")
    view = sweep_view(SweepExample().data(found, []), known, MADE)
    (verdict,) = view.rankings[0].verdicts
    first, second = sorted(values, reverse=True)
    leads, follows = (f"rate {shown(value, Unit.SAMPLES_PER_SECOND)}" for value in (first, second))
    assert f" comes first: {leads}; the next, " in verdict
    assert verdict.endswith(f", has {follows}: no ratio, since a value is not positive.")


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_what_has_no_ratio_to_the_best_has_no_share_of_its_speed(value: float) -> None:
    """Each device was given the whole speed of the best."""
    rates = [
        result(scenario=name, metrics={"rate": measured}, device=device)
        for name, measures in (("rates", (2.0, value)), ("others", (4.0, 2.0)))
        for device, each in zip(("a", "b"), measures, strict=True)
        for measured in [Measurement(value=each, unit=Unit.SAMPLES_PER_SECOND)]
    ]
    known = with_rates(with_rates(), name="others")
    (board,) = sweep_view(SweepExample().data(rates, []), known, MADE).scoreboards
    shares = {device.id: [s.share if s else None for s in line] for device, line in board.rows}
    assert shares == {"a": [1.0, 1.0], "b": [value / 2 or None, 0.5]}


def test_a_metric_that_checks_a_cell_makes_none_faster() -> None:
    """A device ten times as near to a reference was said to be ten times as fast."""
    measured = [
        result(scenario=name, metrics={"rate": of}, device=device, repeat=n)
        for name in ("rates", "checks", "others")
        for device, value in (("a", 0.1), ("b", 1.0))
        for of in [Measurement(value=value, unit=Unit.LOSS)]
        for n in (0, 1)
    ]
    known = with_rates(with_rates(with_rates(), name="others"), name="checks", compares_speed=False)
    data = SweepExample(baseline={"steps": 7}).data(measured, [])
    view = sweep_view(data, known, MADE)
    by_name = {ranking.scenario: ranking for ranking in view.rankings}
    assert by_name["checks"].verdicts == ()
    assert [row.rank for row in by_name["checks"].rows] == [1, 2], "the nearer one first"
    assert [row.vs_best for row in by_name["checks"].rows] == [None, None]
    assert all("as fast as the next" in by_name[n].verdicts[0] for n in ("rates", "others"))
    (board,) = view.scoreboards
    assert [ranking.scenario for ranking in board.rankings] == ["rates", "others"]
    html = report_html(view)
    assert html.count('<td class="number">best</td>') == 2
    sides = [
        one.model_copy(update={"stack": f"stack-{one.device}", "device": "a", "cell_key": key})
        for one in measured
        for key in (f"{one.scenario} {one.device}",)
    ]
    summary = summarise(sides, [], {"stack": "stack-a"}, known)
    cells = [c for c in summaries_of(summary.rankings) if c.scenario == "checks"]
    assert [(c.vs_baseline, c.no_ratio) for c in cells] == [(None, None), (None, NoRatio.NO_SPEED)]


@pytest.mark.parametrize(
    ("validity", "verdicts"),
    [
        (Validity.INVALID, ("Nothing VALID was measured.",)),
        (Validity.DISTURBED, ("Nothing VALID was measured.", "DISTURBED, so without a rank: a.")),
    ],
)
def test_a_check_that_nothing_has_passed_says_so(
    validity: Validity, verdicts: tuple[str, ...]
) -> None:
    metrics = {"rate": Measurement(value=1.0, unit=Unit.LOSS)}
    failed = result(
        scenario="rates", metrics=metrics, device="a", validity=validity, reasons=("it differs",)
    )
    known = with_rates(compares_speed=False)
    (ranking,) = sweep_view(SweepExample().data([failed], []), known, MADE).rankings
    assert ranking.verdicts == verdicts


def with_rates(
    known: Catalog | None = None, name: str = "rates", *, compares_speed: bool = True
) -> Catalog:
    """Return a catalogue with a scenario whose metric is `rate`."""
    known = known or catalog()
    rates = ScenarioManifest(
        name=name, title=name.title(), metric="rate", compares_speed=compares_speed
    )
    return known.model_copy(update={"scenarios": {**known.scenarios, name: rates}})


def test_metrics_of_a_users_own_program_are_shown() -> None:
    text = "\n".join(EXAMPLES["program"].lines(200))
    assert "decode_rate" in text
    assert "prefill_rate" in text


def test_a_scenario_that_this_release_has_not_is_set_apart() -> None:
    summary = summarise([result(scenario="gone"), result()], [], {}, catalog())
    assert [group.origin.scenario for group in summary.unranked] == ["gone"]
    assert len(summary.rankings) == 1


def test_what_went_wrong_names_the_size_that_it_is_of() -> None:
    found = [result(knobs={"size": n}, validity="DISTURBED", reasons=("noise",)) for n in (1, 2)]
    assert list(troubles_of(summarise(found, [], {}, catalog()))) == [
        f"w0, training, size={n}, device-00: noise" for n in (1, 2)
    ]


def test_a_single_run_has_no_interval_and_several_have_the_reports() -> None:
    one = TableExample([result(metrics=trained(steps(0.3, 0)))])
    assert "interval" not in "\n".join(one.lines(200))
