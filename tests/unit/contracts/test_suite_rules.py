"""The rules of MLPerf Mobile as data: whole, in order, and in step with the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from pydantic import ValidationError

from controller.contracts.catalog import load_catalog
from controller.contracts.mobile import ImageInput
from controller.contracts.suite_rules import SuiteRules, Target, TaskRules, load_suites

PAGE = Path(__file__).parents[3] / "docs" / "mobile.md"
TASKS = {
    name: w for name, w in load_catalog().workloads.items() if w.on_device and w.on_device.suite
}


def test_versions_are_in_order() -> None:
    versions = [rules.version for rules in load_suites()]
    assert versions == [
        *("v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1", "v4.0", "v4.1", "v5.0", "v6.0")
    ]


def test_every_task_of_the_suite_has_rules_and_no_other() -> None:
    assert {name for rules in load_suites() for name in rules.tasks} == {*TASKS}


@pytest.mark.parametrize("rules", load_suites(), ids=lambda rules: rules.version)
def test_tasks_have_what_their_rules_name(rules: SuiteRules) -> None:
    for name, of_task in rules.tasks.items():
        task = TASKS[name].on_device
        assert task
        sizes = {dataset: task.datasets[dataset].samples for dataset in of_task.datasets}
        assert sizes == of_task.datasets
        assert task.performance_samples == of_task.performance_samples
        assert {t.numerics for t in of_task.targets if t.numerics} <= {*task.models}
        assert {t.dataset for t in of_task.targets if t.dataset} <= {*task.datasets}


def test_seeds_of_no_round_are_those_of_another_but_for_v5() -> None:
    seeds = {rules.version: rules.seeds.said for rules in load_suites() if rules.seeds}
    assert len(seeds) == 10
    assert seeds.pop("v5.0") == seeds["v4.1"], "as its logs say"
    assert len({*seeds.values()}) == len(seeds)


def test_targets_by_numerics_and_data_set() -> None:
    v5 = next(rules for rules in load_suites() if rules.version == "v5.0")
    found = {
        (numerics, dataset): target.value
        for name in ("edsr", "mobilebert")
        for numerics in ("fp32", "int8")
        for dataset in ("full", "lite")
        if (target := v5.tasks[name].target_of({"numerics": numerics, "dataset": dataset}))
        and (name == "edsr") == (dataset == "full")
    }
    assert found == {
        ("fp32", "full"): 33.58,
        ("int8", "full"): 33.0,
        ("fp32", "lite"): 0.84165,
        ("int8", "lite"): 0.84165,
    }
    assert v5.tasks["mobilenet_v4"].target_of({}) is None


@pytest.mark.parametrize("rules", load_suites(), ids=lambda rules: rules.version)
def test_each_figure_says_which_rule_it_comes_from(rules: SuiteRules) -> None:
    fields = rules.model_dump(exclude_unset=True)
    for named in rules.rules:
        others = {name: rule for name, rule in rules.rules.items() if name != named}
        if "." in named:  # a narrower one: without it, the wider one is said, which is another
            assert others.get(named.partition(".")[0]) != rules.rules[named]
            continue
        with pytest.raises(ValidationError, match=f"rules lacks what {named}"):
            SuiteRules.model_validate(fields | {"rules": others})


@pytest.mark.parametrize("named", ["sedes", "tasks.mobilbert", "tasks.*.queues", "seeds.qsl.high"])
def test_a_rule_of_no_figure_is_refused(named: str) -> None:
    fields = load_suites()[-1].model_dump(exclude_unset=True)
    fields["rules"] |= {named: "x"}
    with pytest.raises(ValidationError, match="is of no figure"):
        SuiteRules.model_validate(fields)


def test_of_several_rules_the_narrowest_is_a_figure_s() -> None:
    v4 = next(rules for rules in load_suites() if rules.version == "v4.0")
    fields = v4.model_dump(exclude_unset=True)
    fields["rules"] |= {"tasks": "a", "tasks.*.targets": "b", "tasks.edsr.targets": "c"}
    found = SuiteRules.model_validate(fields)
    assert found.rule_of("tasks.mosaic.scenarios") == "a"
    assert found.rule_of("tasks.mosaic.targets") == "b"
    assert found.rule_of("tasks.edsr.targets") == "c"
    assert found.rule_of("scenarios.offline.queries") == v4.rules["scenarios"]
    assert found.rule_of("other") is None


def test_every_task_but_one_has_a_target() -> None:
    without = {
        (name, rules.version)
        for rules in load_suites()
        for name, of_task in rules.tasks.items()
        if not of_task.targets
    }
    assert without == {("mobilenet_v4", version) for version in ("v4.0", "v4.1", "v5.0", "v6.0")}


def test_a_scenario_without_a_length_is_refused() -> None:
    fields = load_suites()[-1].model_dump() | {"scenarios": {"offline": {"queries": 1}}}
    with pytest.raises(ValidationError, match="scenarios lacks single_stream"):
        SuiteRules.model_validate(fields)


def test_only_what_a_published_result_lacks_is_optional() -> None:
    found = {
        (rules.version, name, scenario)
        for rules in load_suites()
        for name, of_task in rules.tasks.items()
        for scenario in of_task.optional
    }
    assert found == {("v4.0", "mobilenet_v4", "offline")}
    v4 = next(rules for rules in load_suites() if rules.version == "v4.0")
    assert v4.tasks["mobilenet_v4"].required == ("single_stream",)
    assert "inferred" in (v4.rule_of("tasks.mobilenet_v4.optional") or "")


def test_an_optional_scenario_that_a_task_lacks_is_refused() -> None:
    fields = load_suites()[-1].tasks["mosaic"].model_dump() | {"optional": ["offline"]}
    with pytest.raises(ValidationError, match="optional has offline, which scenarios lacks"):
        TaskRules.model_validate(fields)


def test_runs_end_after_ten_minutes_from_v3_1_on() -> None:
    most = {rules.version: rules.scenarios["single_stream"].most_seconds for rules in load_suites()}
    without = ("v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0")
    assert most == {v: None if v in without else 600 for v in most}
    assert {rules.scenarios["offline"].most_seconds for rules in load_suites()} == {None}


def _rows() -> Iterator[str]:
    """Yield a row for each task and each run of versions that ask the same of it."""
    columns = ("workload", "versions", "scenarios", "data sets that count", "samples drawn from")
    yield f"| {' | '.join(columns)} | images | quality target |"
    yield "|---" * (len(columns) + 2) + "|"
    for name in TASKS:
        asked = [
            (rules.version, rules.tasks[name]) for rules in load_suites() if name in rules.tasks
        ]
        for of_task, versions in groupby(asked, lambda one: one[1]):
            found = [version for version, _ in versions]
            span = found[0] if len(found) == 1 else f"{found[0]} – {found[-1]}"
            yield f"| `{name}` | {span} | {_cells(name, of_task)} |"


def _cells(name: str, of_task: TaskRules) -> str:
    names = (
        ", ".join(f"`{one}`" + " (optional)" * (one in of_task.optional) for one in those)
        for those in (of_task.scenarios, of_task.datasets)
    )
    task = TASKS[name].on_device
    wanted = task.input if task else None
    fit = f"`{of_task.fit or wanted.fit}`" if isinstance(wanted, ImageInput) else "–"
    targets = "; ".join(map(_said, of_task.targets)) or "none printed"
    return " | ".join([*names, str(of_task.performance_samples), fit, targets])


def _said(target: Target) -> str:
    of = "".join(f" of `{one}`" for one in (target.numerics, target.dataset) if one)
    unit = " dB" if target.metric == "PSNR" else ""
    return f"{target.metric} {target.value:g}{unit}{of}"


def test_the_page_has_the_table() -> None:
    table = "\n".join(_rows()) + "\n"
    assert table in PAGE.read_text(), f"docs/mobile.md has to have:\n\n{table}"


SEEDS = {
    "v1.0": (7322528924094909334, 1570999273408051088, 3507442325620259414),
    "v1.1": (1624344308455410291, 517984244576520566, 10051496985653635065),
    "v2.0": (6655344265603136530, 15863379492028895792, 12662793979680847247),
    "v2.1": (14284205019438841327, 4163916728725999944, 299063814864929621),
    "v3.0": (10003631887983097364, 17183018601990103738, 12134888396634371638),
    "v3.1": (148687905518835231, 520418551913322573, 811580660758947900),
    "v4.0": (13281865557512327830, 198141574272810017, 7575108116881280410),
    "v4.1": (3066443479025735752, 10688027786191513374, 14962580496156340209),
    "v5.0": (3066443479025735752, 10688027786191513374, 14962580496156340209),
    "v6.0": (2465351861681999779, 14276810075590677512, 3936089224930324775),
}
"""Of samples, their order and times, as the rounds' published logs have them."""


def test_seeds_are_those_of_the_rounds_logs() -> None:
    read = {r.version: r.seeds for r in load_suites() if r.version in SEEDS}
    found = {v: s and (s.qsl, s.sample_index, s.schedule) for v, s in read.items()}
    assert found == SEEDS
