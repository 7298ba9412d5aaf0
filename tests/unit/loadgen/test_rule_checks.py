"""LoadGen's settings against a round's rules: the size of the data set, and what is drawn of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.suite_rules import SuiteRules, load_suites
from controller.loadgen.checks import Check, Verdict
from controller.loadgen.logs import DETAIL
from controller.loadgen.rule_checks import rule_checks
from controller.loadgen.run_logs import read_run
from tests.support.altered_logs import Change, copied, in_detail

V4: SuiteRules = next(rules for rules in load_suites() if rules.version == "v4.0")
SIZES = {
    "mobilenet_edgetpu": 50_000,
    "mobilenet_v4": 50_000,
    "mobiledet": 5_000,
    "mosaic": 2_000,
    "edsr": 25,
    "mobilebert": 10_833,
}
"""Of the accuracy run's sets, as rules 4.0 print them."""
TOTAL, ASKED = "qsl_reported_total_count", "effective_accuracy_sample_count"
DRAWN = "effective_performance_sample_count"


def checked(folder: Path, task: str | None) -> dict[str, Check]:
    return {check.figure: check for check in rule_checks(read_run(folder), V4, task)}


def sized(name: str, folder: Path, **counts: int) -> Path:
    """Return logs that say these counts; they need not fit the other entries."""
    made = copied(name, folder)
    for key, count in counts.items():
        if f'"key": "{key}", "value": {count},' not in (made / DETAIL).read_text():
            in_detail(made, key, fixed(count))
    return made


def fixed(count: int) -> Change:
    return lambda _: str(count)


@pytest.mark.parametrize("task", V4.tasks)
def test_five_samples_are_no_accuracy_run_of_any_task(task: str, tmp_path: Path) -> None:
    found = checked(copied("accuracy", tmp_path), task)
    assert found[TOTAL].verdict is Verdict.DIFFERS
    assert found[TOTAL].says == "5"
    assert found[TOTAL].recomputed.split(" or ")[0] == str(SIZES[task])


@pytest.mark.parametrize(
    ("task", "size"), [*SIZES.items(), ("mobilebert", 100)], ids=lambda value: str(value)
)
def test_a_whole_set_is_one(task: str, size: int, tmp_path: Path) -> None:
    found = checked(sized("accuracy", tmp_path, **{TOTAL: size, ASKED: size}), task)
    assert (found[TOTAL].verdict, found[ASKED].verdict) == (Verdict.SAME, Verdict.SAME)


def test_a_part_of_the_set_is_no_accuracy_run(tmp_path: Path) -> None:
    found = checked(sized("accuracy", tmp_path, **{TOTAL: 2_000, ASKED: 5}), "mosaic")
    assert (found[TOTAL].verdict, found[ASKED].verdict) == (Verdict.SAME, Verdict.DIFFERS)


def test_an_accuracy_run_has_a_scenario_of_its_task(tmp_path: Path) -> None:
    folder = copied("accuracy", tmp_path)
    assert checked(folder, "mosaic")["effective_scenario"].verdict is Verdict.SAME
    assert checked(folder, None)["effective_scenario"].verdict is Verdict.SAME
    in_detail(folder, "effective_scenario", lambda _: '"Offline"')
    assert checked(folder, "mosaic")["effective_scenario"].verdict is Verdict.DIFFERS
    assert TOTAL not in checked(folder, None), "without a task, no size is known"


@pytest.mark.parametrize(
    ("task", "total", "said", "same"),
    [
        ("mosaic", 5, 5, False),  # a log that sets its own limit
        ("mosaic", 5, 635, False),
        ("mosaic", 300, 635, True),  # SD8G3 of mobile_results_v4.0
        ("mosaic", 2_000, 256, True),
        ("mosaic", 2_000, 255, False),
        ("mobilenet_edgetpu", 300, 3_321, False),  # SD8G3 too, below what the rules print
        ("mobilenet_edgetpu", 50_000, 1_024, True),
        ("mobilebert", 100, 108_506, True),  # SD8G3: the first 100, which are adopted
        ("mobilebert", 99, 99, False),
        ("mobilebert", 101, 101, False),
        ("edsr", 25, 25, True),
    ],
)
def test_a_timed_run_draws_from_as_many_samples_as_the_rules_print(
    task: str, total: int, said: int, same: bool, tmp_path: Path
) -> None:
    found = checked(sized("single_stream", tmp_path, **{TOTAL: total, DRAWN: said}), task)[DRAWN]
    assert found.verdict is (Verdict.SAME if same else Verdict.DIFFERS), found
    assert found.says == (str(said) if said <= total else f"{said}, of a set of {total}")
