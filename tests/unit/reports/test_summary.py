from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Blame, Measurement, Validity
from controller.contracts.units import Unit
from controller.reports.export import as_csv
from controller.reports.groups import NoRatio
from controller.reports.outcome_lists import result_lines
from controller.reports.summary import CellSummary, summaries_of, summarise
from controller.reports.summary_table import summary_lines
from controller.reports.tables import (
    OPERATORS_SHOWN,
    op_profile_table,
)
from tests.support.sweep_examples import catalog

METRICS = {"training": "step_time"}
CATALOG = catalog()


def origin(precision: str, device: str, repeat: int = 0) -> dict[str, object]:
    return {
        "run_id": f"{precision}-{device}-{repeat}",
        "sweep_id": "s",
        "cell_key": precision,
        "repeat": repeat,
        "attempt": 1,
        "device": device,
        "device_kind": DeviceKind.CPU_HOST,
        "virtual": device.startswith("v"),
        "workload": "w",
        "stack": "torch",
        "scenario": "training",
        "knobs": {"precision": precision, "steps": 3},
        "started_at": 0.0,
        "counted": True,
    }


def result(
    precision: str, device: str, seconds: float, repeat: int = 0, reason: str = ""
) -> StoredResult:
    steps = (seconds, seconds, seconds)
    metrics = {
        "step_time": Measurement.of_samples(steps, Unit.SECONDS),
        "throughput": Measurement.of_samples(tuple(2 / s for s in steps), Unit.IMAGES_PER_SECOND),
    }
    return StoredResult.model_validate(
        {
            **origin(precision, device, repeat),
            "validity": Validity.INVALID if reason else Validity.VALID,
            "reasons": (reason,) if reason else (),
            "metrics": metrics,
            "environment": {},
            "artefacts": {},
        }
    )


def failure(precision: str, device: str) -> StoredFailure:
    facts = {"blame": Blame.WORKLOAD, "kind": "exit", "message": "boom", "output": ""}
    return StoredFailure.model_validate(
        {**origin(precision, device), **facts, "exit_code": 1, "signal": None}
    )


def cells(
    results: list[StoredResult], *, baseline: dict[str, Scalar] | None = None
) -> dict[tuple[str, str], CellSummary]:
    chosen = {"precision": "fp32"} if baseline is None else baseline
    found = summaries_of(summarise(results, [], chosen, CATALOG).rankings)
    return {(str(cell.knobs["precision"]), cell.device): cell for cell in found}


def test_each_device_is_compared_with_its_own_baseline() -> None:
    lines = cells(
        [
            result("fp32", "a", 1.0),
            result("bf16", "a", 0.5),
            result("fp32", "b", 4.0),
            result("bf16", "b", 1.0),
        ]
    )
    assert lines["fp32", "a"].is_baseline
    assert lines["fp32", "a"].vs_baseline is None
    speedups = {key: line.vs_baseline for key, line in lines.items() if line.vs_baseline}
    assert speedups == {("bf16", "a"): 2.0, ("bf16", "b"): 4.0}


def test_invalid_results_are_counted_and_not_measured_with() -> None:
    good, bad = result("fp32", "a", 1.0), result("fp32", "a", 9.0, repeat=1, reason="too hot")
    line = cells([good, bad])["fp32", "a"]
    assert (line.valid, line.invalid, line.reasons) == (1, 1, ("too hot",))
    assert line.metrics["step_time"].value == 1.0


def test_disturbed_results_are_shown_without_a_rank_and_are_no_baseline() -> None:
    loud = result("fp32", "a", 0.1).model_copy(
        update={"validity": Validity.DISTURBED, "reasons": ("1.67 of 2 cores",)}
    )
    lines = cells([loud, result("bf16", "a", 1.0)], baseline={"precision": "fp32"})
    line = lines["fp32", "a"]
    assert (line.valid, line.disturbed, line.invalid) == (0, 1, 0)
    assert (line.reasons, line.rank) == (("1.67 of 2 cores",), None)
    assert line.metrics["step_time"].value == 0.1
    assert (lines["bf16", "a"].rank, lines["bf16", "a"].vs_baseline) == (1, None)
    assert lines["bf16", "a"].no_ratio is NoRatio.BASELINE_NOT_VALID


def test_beside_a_valid_result_disturbed_ones_give_no_figure() -> None:
    loud = result("fp32", "a", 9.0, repeat=1).model_copy(
        update={"validity": Validity.DISTURBED, "reasons": ("1.67 of 2 cores",)}
    )
    line = cells([result("fp32", "a", 1.0), loud])["fp32", "a"]
    assert (line.valid, line.disturbed) == (1, 1)
    assert line.metrics["step_time"].value == 1.0


def test_late_results_are_left_out() -> None:
    late = result("fp32", "a", 9.0, repeat=1).model_copy(update={"counted": False})
    line = cells([result("fp32", "a", 1.0), late])["fp32", "a"]
    assert line.valid == 1


def test_failed_cell_has_a_line_with_its_reason() -> None:
    (line,) = summaries_of(summarise([], [failure("fp32", "a")], {}, CATALOG).rankings)
    assert (line.failed, line.reasons) == (1, ("workload: boom",))


def test_table_says_virtual_validity_and_ratio() -> None:
    results = [result(p, "v1", s, n) for p, s in (("fp32", 1.0), ("bf16", 0.5)) for n in range(2)]
    text = told(results, {"precision": "fp32"})
    assert text.index("bf16") < text.index("fp32"), "best first"
    for expected in ("v1 (virtual)", "2 VALID", "baseline", "2.00× [2.00, 2.00]", "500 ms"):
        assert expected in text


def test_energy_that_is_unknown_says_why_and_is_neither_empty_nor_zero() -> None:
    known, why = result("fp32", "a", 1.0), result("fp32", "b", 2.0)
    joules = {"energy": Measurement(value=3.5, unit=Unit.JOULES_PER_STEP)}
    known = known.model_copy(update={"metrics": {**known.metrics, **joules}})
    why = why.model_copy(update={"environment": {"energy_unknown": "the phone was being charged"}})
    text = told([known, why])
    assert "energy" in text
    assert "3.5 J/step" in text
    assert "unknown: the phone" in text
    assert "unknown: the phone" in told([why])
    assert "unknown" not in told([known])


def test_a_quality_without_a_target_is_told_below_the_table() -> None:
    why = "MLPerf Mobile v6.0 prints none for this task"
    has, lacks = result("fp32", "a", 1.0), result("fp32", "b", 2.0)
    lacks = lacks.model_copy(update={"environment": {"quality_target_unknown": why}})
    assert f"no quality target: {why} (b)" in told([has, lacks])
    assert "no quality target" not in told([has])


def test_answers_unlike_the_reference_s_are_told_below_the_table_also_of_invalid_results() -> None:
    reasons = {"reference_differs": "they agree by 0.00%", "reference_unknown": "no memory"}
    good, wrong, lacking = (result("fp32", name, 1.0) for name in ("a", "b", "c"))
    figures = {
        "reference_accuracy": Measurement(value=0.9, unit=Unit.FRACTION),
        "reference_agreement": Measurement(value=0.985, unit=Unit.FRACTION),
    }
    good = good.model_copy(update={"metrics": {**good.metrics, **figures}})
    facts = {"reference_differs": reasons["reference_differs"]}
    wrong = wrong.model_copy(
        update={"environment": facts, "validity": Validity.INVALID, "reasons": ("too low",)}
    )
    facts = {"reference_unknown": reasons["reference_unknown"]}
    lacking = lacking.model_copy(update={"environment": facts})
    text = told([good, wrong, lacking])
    for expected in (
        "reference",
        "agreement",
        "90.00%",
        "98.50%",
        "answers differ: they agree by 0.00% (b)",
        "no reference: no memory (c)",
    ):
        assert expected in text
    assert "answers differ" not in told([good])
    assert "no reference" not in told([good])


def test_what_several_ranks_lose_is_told_below_the_table() -> None:
    """Of results that are shown, their medians."""
    shares = [(0.04, 0.01, 0.1), (0.06, 0.03, 0.2), (0.5, 0.5, 0.5)]
    runs = [result("fp32", "a", 1.0, repeat) for repeat in range(3)]
    runs[2] = runs[2].model_copy(update={"validity": Validity.INVALID, "reasons": ("too low",)})
    names = ("all_reduce_share", "rank_imbalance", "contention_share")
    told_of = [
        run.model_copy(update={"environment": dict(zip(names, of, strict=True))})
        for run, of in zip(runs, shares, strict=True)
    ]
    alone = result("fp32", "b", 2.0)
    text = told([*told_of, alone])
    assert (
        "scaling: of a step, lost are 5.0% to the exchange, 2.0% to waiting for the slowest rank, "
        "15.0% to sharing the host (a)"
    ) in text
    assert text.count("scaling: ") == 1
    assert "lost" not in told([alone])


def told(results: list[StoredResult], baseline: dict[str, Scalar] | None = None) -> str:
    """Return the table of some results, as wide as it likes."""
    return "\n".join(
        summary_lines(summarise(results, [], baseline or {}, CATALOG).rankings, 200, "")
    )


def test_csv_has_a_line_a_metric() -> None:
    header, *rows = as_csv([result("fp32", "a", 1.5)]).splitlines()
    assert header.startswith("run_id,sweep_id,cell_key")
    assert len(rows) == 2
    assert "step_time,1.5,s,1.5 1.5 1.5" in rows[0]


def printed(table: Table) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_is_valid_by_a_programs_own_rules_says_so() -> None:
    ours = result("fp32", "cpu-1", 0.5)
    theirs = ours.model_copy(update={"environment": {"rules": "the vendor's"}, "run_id": "other"})
    late = theirs.model_copy(update={"counted": False})
    lines = result_lines([ours, theirs, late], METRICS, 200)
    begin = lines[1].index("validity")
    validities = [line[begin:].partition("  ")[0] for line in lines[3:]]
    assert validities == [
        "VALID",
        "VALID, by the program's own rules",
        "VALID, by the program's own rules (late, not counted)",
    ]


def test_operators_are_shown_in_the_columns_that_the_program_gave() -> None:
    rows = [{"node_type": f"CONV_{n}", "avg_ms": str(n)} for n in range(OPERATORS_SHOWN + 2)]
    said = printed(op_profile_table(rows, "/kept/op_profile.json"))
    assert "node_type" in said
    assert "avg_ms" in said
    assert f"CONV_{OPERATORS_SHOWN - 1} " in said
    assert f"CONV_{OPERATORS_SHOWN} " not in said
    assert "and 2 more" in said
    assert "/kept/op_profile.json" in said
