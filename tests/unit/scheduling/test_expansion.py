from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device
from controller.contracts.errors import NoMatchingDevice, SelectorInvalid, SweepInvalid
from controller.contracts.run import RunState
from controller.contracts.sweep import Cell, Sweep
from controller.contracts.wire import TrainingProgram
from controller.scheduling.binding import awaited, place_cells, runs_of
from controller.scheduling.expansion import axis_value, cells_of
from controller.scheduling.program import program_of
from tests.support import builders

CATALOG = builders.catalog()
SERVERS = [builders.cpu(f"cpu-{n}", facts={"cores": 8 * n}) for n in (1, 2)]
DEFAULTS = {
    "batch_size": 2,
    "rate": 0.5,
    "precision": "fp32",
    "fused": False,
    "steps": 10,
    "threads": 0,
}


def cells(**changes: object) -> list[Cell]:
    return cells_of(builders.sweep(**changes), CATALOG, "s.yaml")


def complaint(**changes: object) -> SweepInvalid:
    with pytest.raises(SweepInvalid) as caught:
        cells(**changes)
    return caught.value


def bound(fleet: list[Device], **changes: object) -> list[Cell]:
    sweep = builders.sweep(**changes)
    return place_cells(sweep, cells_of(sweep, CATALOG), fleet, CATALOG)


def test_every_knob_is_written_out_in_the_cell() -> None:
    (cell,) = cells()
    assert cell.knobs == DEFAULTS
    assert list(cell.knobs) == sorted(cell.knobs)


def test_a_cell_has_the_knobs_of_its_own_workload_stack_and_scenario() -> None:
    (cell,) = cells(stack="litert", scenario="offline")
    own = {"batch_size", "rate", "precision", "fused", "samples", "delegate"}
    assert set(cell.knobs) == own


def test_axes_multiply_in_reading_order() -> None:
    found = cells(
        workload=["resnet", "bert"],
        knobs={"batch_size": [1, 2], "precision": ["fp32", "bf16"]},
        devices=["any", "cores > 8"],
    )
    seen = [(c.workload, c.knobs["batch_size"], c.knobs["precision"], c.selector) for c in found]
    assert seen == [
        (workload, batch, precision, selector)
        for workload in ("resnet", "bert")
        for batch in (1, 2)
        for precision in ("fp32", "bf16")
        for selector in ("any", "cores > 8")
    ]


def test_recipes_change_knobs_together() -> None:
    found = cells(
        knobs={"batch_size": [1, 2]},
        recipes={"plain": {}, "fast": {"precision": "bf16", "fused": True}},
    )
    seen = [(c.knobs["batch_size"], c.knobs["precision"], c.knobs["fused"]) for c in found]
    assert seen == [(1, "fp32", False), (1, "bf16", True), (2, "fp32", False), (2, "bf16", True)]


def test_a_recipe_may_name_its_stack() -> None:
    sweep = builders.sweep(
        stack=["torch", "litert"],
        knobs={"batch_size": [1, 2]},
        recipes={"all": {"fused": True}, "own": {"stack": "litert", "precision": "bf16"}},
    )
    seen = [
        (c.stack, c.knobs["batch_size"], c.knobs["precision"], c.knobs["fused"])
        for c in cells_of(sweep, CATALOG)
    ]
    assert seen == [
        ("torch", 1, "fp32", True),
        ("litert", 1, "bf16", False),
        ("torch", 2, "fp32", True),
        ("litert", 2, "bf16", False),
        ("litert", 1, "fp32", True),
        ("litert", 2, "fp32", True),
    ]


def test_where_every_recipe_names_its_stack_the_sweep_needs_none() -> None:
    recipes = {"a": {"stack": "torch", "fused": True}, "b": {"stack": "litert"}}
    found = cells(stack=[], knobs={"batch_size": [1, 2]}, recipes=recipes)
    seen = [(c.stack, c.knobs["batch_size"], c.knobs["fused"]) for c in found]
    assert seen == [
        ("torch", 1, True),
        ("litert", 1, False),
        ("torch", 2, True),
        ("litert", 2, False),
    ]


@pytest.mark.parametrize("recipes", [{}, {"a": {"stack": "torch"}, "b": {"fused": True}}])
def test_a_sweep_or_each_of_its_recipes_names_a_stack(recipes: dict[str, object]) -> None:
    error = complaint(stack=[], recipes=recipes)
    assert error.seen == "key stack: it is missing"
    assert error.remedy == "Add key stack, name a stack in every recipe, or add key paired."


def test_a_recipe_that_names_no_stack_there_is() -> None:
    error = complaint(recipes={"r": {"stack": "toch"}})
    assert error.tried == "read s.yaml"
    assert error.seen == "key recipes.r.stack: there is no stack 'toch'"
    assert error.remedy == "Did you mean torch? Known: litert, torch."


def test_a_value_given_twice_makes_one_cell() -> None:
    assert len(cells(knobs={"batch_size": [2, 2]})) == 1
    assert len(cells(knobs={"rate": [1, 1.0]})) == 1
    assert cells(knobs={"rate": 1}) == cells(knobs={"rate": 1.0})


def test_writing_a_default_out_changes_nothing() -> None:
    assert cells(knobs={"batch_size": 2}) == cells()


KNOBS = st.permutations(
    [("batch_size", [1, 2]), ("rate", [0.5]), ("precision", ["fp32", "bf16"]), ("steps", [5, 10])]
)


@given(KNOBS)
def test_ids_do_not_depend_on_the_order_of_keys(pairs: list[tuple[str, list[object]]]) -> None:
    sorted_sweep = builders.sweep(knobs=dict(sorted(pairs)), recipes={"a": {}}, repeats=2)
    sweep = builders.sweep(repeats=2, recipes={"a": {}}, knobs=dict(pairs))

    assert sweep.sweep_id(1) == sorted_sweep.sweep_id(1)
    assert ids(sweep) == ids(sorted_sweep)


def ids(sweep: Sweep) -> set[str]:
    runs = runs_of(sweep, sweep.sweep_id(1), cells_of(sweep, CATALOG), now=1.0)
    assert len({run.run_id for run in runs}) == len(runs)
    return {run.run_id for run in runs}


def test_equal_sweeps_give_equal_ids_and_others_do_not() -> None:
    sweep = builders.sweep(repeats=3)
    assert sweep.sweep_id(1) == builders.sweep(repeats=3, workload=["resnet"]).sweep_id(1)
    assert sweep.sweep_id(1) != sweep.sweep_id(2)
    assert sweep.sweep_id(1) != builders.sweep(repeats=3, knobs={"batch_size": 4}).sweep_id(1)
    assert sweep.sweep_id(1).startswith("demo-")


def test_a_changed_knob_or_selector_is_another_history() -> None:
    (cell,) = cells()
    same = cell.model_copy(update={"knobs": dict(reversed(cell.knobs.items()))})
    other = cell.model_copy(update={"knobs": {**cell.knobs, "fused": True}})
    assert cell.key == same.key
    assert len({cell.key, other.key, cell.model_copy(update={"selector": "x == 1"}).key}) == 3


def test_repeats_are_interleaved() -> None:
    sweep = builders.sweep(knobs={"batch_size": [1, 2]}, repeats=2, deadline_s=7)
    runs = runs_of(sweep, "demo-1", cells_of(sweep, CATALOG), now=5.0)

    seen = [(r.position, r.repeat, r.cell.knobs["batch_size"]) for r in runs]
    assert seen == [(0, 0, 1), (1, 0, 2), (2, 1, 1), (3, 1, 2)]
    assert {(r.state, r.sweep_id, r.deadline_s, r.created_at, r.attempts) for r in runs} == {
        (RunState.QUEUED, "demo-1", 7.0, 5.0, ())
    }


@pytest.mark.parametrize(
    ("key", "name", "seen", "remedy"),
    [
        ("workload", "resnat", "no workload 'resnat'", "mean resnet? Known: bert, resnet."),
        ("stack", "jax", "no stack 'jax'", "Known: litert, torch."),
        (
            "scenario",
            "trainin",
            "no scenario 'trainin'",
            "mean training? Known: offline, training.",
        ),
    ],
)
def test_an_unknown_name_is_answered_with_the_known(
    key: str, name: str, seen: str, remedy: str
) -> None:
    error = complaint(**{key: [name]})
    assert error.tried == "read s.yaml"
    assert error.seen.startswith(f"key {key}: ")
    assert seen in error.seen
    assert remedy in error.remedy


def test_an_unknown_knob_is_answered_with_the_known() -> None:
    error = complaint(knobs={"batchsize": 4})
    assert error.tried == "read s.yaml"
    assert error.seen == "key knobs: there is no knob 'batchsize'"
    assert error.remedy.startswith("Did you mean batch_size? Known: batch_size, fused, precision")


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("batch_size", 0, "Give at least 1."),
        ("batch_size", "4", "Give a value of type int."),
        ("batch_size", True, "Give a value of type int."),
        ("batch_size", 2.0, "Give a value of type int."),
        ("steps", 105, "Give at most 100."),
        ("steps", 7, "Give a multiple of 5."),
        ("precision", "fp8", "Give one of: fp32, bf16."),
        ("precision", 16, "Give a value of type str."),
        ("fused", 1, "Give a value of type bool."),
        ("fused", "yes", "Give a value of type bool."),
        ("rate", "fast", "Give a value of type float."),
        ("rate", -0.5, "Give at least 0."),
    ],
)
def test_a_value_not_allowed_is_answered_with_what_is(
    name: str, value: object, remedy: str
) -> None:
    for changes in ({"knobs": {name: [value]}}, {"recipes": {"r": {name: value}}}):
        error = complaint(**changes)
        assert error.tried == "read s.yaml"
        assert error.seen == f"key knobs.{name}: {value!r} is not allowed"
        assert error.remedy == remedy


def test_a_scenario_the_workload_does_not_run_under() -> None:
    error = complaint(workload="bert", scenario="offline")
    assert error.tried == "read s.yaml"
    assert error.seen == "key scenario: workload bert does not run under 'offline'"
    assert error.remedy == "Give one of: training."


def test_a_knob_set_in_two_places() -> None:
    error = complaint(knobs={"precision": ["fp32", "bf16"]}, recipes={"r": {"precision": "bf16"}})
    assert error.tried == "read s.yaml"
    assert error.seen == "key recipes.r: it sets precision, which knobs sets too"


def test_a_sweep_too_large_is_refused_before_it_is_expanded() -> None:
    values = list(range(1, 1000))
    error = complaint(knobs={"batch_size": values, "rate": values, "threads": values})
    assert error.seen == f"it has {999**3} runs; the limit is 10000"


def test_a_selector_that_is_none() -> None:
    with pytest.raises(SelectorInvalid):
        cells(devices="cores =>")


@pytest.mark.parametrize(
    "baseline",
    [
        {},
        {"precision": "bf16", "batch_size": 4},
        {"workload": "bert"},
        {"stack": "torch", "scenario": "training"},
        {"samples": 1},
        {"device": "cpu-1"},
    ],
)
def test_a_baseline_names_what_some_cell_has(baseline: dict[str, object]) -> None:
    found = cells(
        workload=["resnet", "bert"] if "samples" not in baseline else "resnet",
        scenario=["training", "offline"] if "samples" in baseline else "training",
        recipes={"a": {}, "b": {"precision": "bf16", "batch_size": 4}},
        baseline=baseline,
    )
    assert len(found) == 4


@pytest.mark.parametrize(
    ("baseline", "key", "seen", "remedy"),
    [
        ({"precision": "fp16"}, "baseline.precision", "no cell has precision = fp16", "bf16, fp32"),
        ({"batch_size": 3}, "baseline.batch_size", "no cell has batch_size = 3", "Give one of: 2."),
        ({"workload": "bert"}, "baseline.workload", "no cell has workload = bert", "resnet"),
        ({"precison": "fp32"}, "baseline", "no baseline 'precison'", "mean precision?"),
    ],
)
def test_a_baseline_that_marks_no_cell(
    baseline: dict[str, object], key: str, seen: str, remedy: str
) -> None:
    error = complaint(knobs={"precision": ["fp32", "bf16"]}, baseline=baseline)
    assert error.tried == "read s.yaml"
    assert error.seen.startswith(f"key {key}: ")
    assert seen in error.seen
    assert remedy in error.remedy


def test_a_baseline_is_one_cell_s() -> None:
    recipes = {"fast": {"precision": "bf16", "batch_size": 4}, "plain": {"precision": "fp32"}}
    error = complaint(recipes=recipes, baseline={"batch_size": 4, "precision": "fp32"})
    assert error.seen == "key baseline: no cell has batch_size = 4 and precision = fp32"
    assert error.remedy == "Give what one cell has, such as batch_size = 4 and precision = bf16."
    with_device = {"batch_size": 4, "precision": "bf16", "device": "cpu-1"}
    assert len(cells(recipes=recipes, baseline=with_device)) == 2


@pytest.mark.parametrize(
    ("knobs", "baseline"),
    [
        ({"flush_denormals": [False, True]}, {"flush_denormals": False}),
        ({"flush_denormals": [False, True]}, {"flush_denormals": True}),
        ({"precision": ["fp32", "bf16"]}, {"precision": "fp32", "master_weights": False}),
        ({"ranks": 2, "hosts": [1, 2]}, {"hosts": 1}),
    ],
)
def test_a_baseline_may_be_a_default_that_cells_omit(
    knobs: dict[str, object], baseline: dict[str, object]
) -> None:
    sweep = builders.sweep(workload="resnet18", knobs=knobs, baseline=baseline)
    found = cells_of(sweep, load_catalog(), "s.yaml")
    without = sweep.model_copy(update={"baseline": {}})
    assert found == cells_of(without, load_catalog(), "s.yaml"), "the cells keep their keys"
    assert len(found) == 2


@pytest.mark.parametrize(
    ("baseline", "seen", "remedy"),
    [
        ({"flush_denormals": True}, "no cell has flush_denormals = True", "Give one of: False."),
        ({"hosts": 2}, "no cell has hosts = 2", "Give one of: 1."),
    ],
)
def test_a_baseline_beside_an_omitted_default_is_told_what_to_give(
    baseline: dict[str, object], seen: str, remedy: str
) -> None:
    sweep = builders.sweep(workload="resnet18", baseline=baseline)
    with pytest.raises(SweepInvalid) as caught:
        cells_of(sweep, load_catalog(), "s.yaml")
    assert seen in caught.value.seen
    assert caught.value.remedy == remedy


def test_any_leaves_the_choice_of_device_to_placement() -> None:
    assert [cell.selector for cell in bound(SERVERS, devices="cores >= 8")] == ["cores >= 8"]


def test_each_gives_every_matching_device_a_cell() -> None:
    found = bound([*SERVERS, builders.phone()], devices="any", run_on="each")
    assert [cell.selector for cell in found] == ['device == "cpu-1"', 'device == "cpu-2"']
    assert [c.selector for c in bound(SERVERS, devices="cores > 8", run_on="each")] == [
        'device == "cpu-2"'
    ]


def test_each_gives_a_device_that_two_selectors_match_one_cell() -> None:
    found = bound(SERVERS, devices=["any", "cores > 8"], run_on="each")
    assert [cell.selector for cell in found] == ['device == "cpu-1"', 'device == "cpu-2"']


@pytest.mark.parametrize("wanted", [1, 2])
def test_a_number_gives_so_many_devices_a_cell_each(wanted: int) -> None:
    found = bound([builders.phone(), *SERVERS], run_on=wanted)
    assert [c.selector for c in found] == [f'device == "{d.id}"' for d in SERVERS[:wanted]]


def test_more_devices_than_match_are_refused() -> None:
    with pytest.raises(NoMatchingDevice) as caught:
        bound([*SERVERS, builders.phone()], run_on=len(SERVERS) + 1)
    assert f"on {len(SERVERS) + 1} devices" in caught.value.tried
    assert f"only {', '.join(d.id for d in SERVERS)} matches" in caught.value.seen


@pytest.mark.parametrize("wanted", [0, -1, True, 1.5, "some"])
def test_what_is_no_number_of_devices_is_refused(wanted: object) -> None:
    with pytest.raises(ValidationError):
        builders.sweep(run_on=wanted)


@pytest.mark.parametrize("run_on", ["any", "each"])
def test_no_match_names_what_excluded_each_device(run_on: str) -> None:
    with pytest.raises(NoMatchingDevice) as caught:
        bound([*SERVERS, builders.phone()], devices="cores >= 64", run_on=run_on)
    assert caught.value.tried == "place resnet on stack torch (devices: cores >= 64)"
    assert caught.value.seen == (
        "cpu-1 is excluded by cores >= 64 (it has 8); "
        "cpu-2 is excluded by cores >= 64 (it has 16); "
        "phone-1 is excluded by stack torch (it runs on cpu_host), "
        "cores >= 64 (it has no cores)"
    )
    assert "benchfarm device list" in caught.value.remedy


AWAY = [(builders.cpu("cpu-0"), "its state, lost"), (builders.phone(), "its state, offline")]


def placed(there: list[Device], **given: object) -> tuple[list[str], list[str]]:
    """Return the selectors of a sweep's cells, and the devices that they wait for."""
    sweep = builders.sweep(**given)
    cells = place_cells(sweep, cells_of(sweep, CATALOG), there, CATALOG, AWAY)
    return [c.selector for c in cells], awaited(sweep, cells, there, AWAY, CATALOG)


def test_a_sweep_that_awaits_keeps_cells_for_devices_that_are_away() -> None:
    each: dict[str, object] = {"run_on": "each", "await": True}
    found = [f'device == "cpu-{n}"' for n in (1, 2, 0)]
    assert placed(SERVERS, **each) == (found, ["cpu-0 (its state, lost)"])
    assert placed(SERVERS, run_on="each") == (found[:2], [])
    only: dict[str, object] = {"devices": "device == cpu-0", "await": True}
    assert placed(SERVERS, **only) == (["device == cpu-0"], ["cpu-0 (its state, lost)"])
    assert placed(SERVERS, **{"devices": "cores >= 8", "await": True}) == (["cores >= 8"], [])


def test_a_number_of_devices_takes_those_that_are_there_first() -> None:
    found = placed(SERVERS, **{"run_on": 2, "await": True})
    assert found == (['device == "cpu-1"', 'device == "cpu-2"'], [])
    selectors, waited = placed(SERVERS, **{"run_on": 3, "await": True})
    assert (selectors[2], waited) == ('device == "cpu-0"', ["cpu-0 (its state, lost)"])


@pytest.mark.parametrize(
    "given", [{"devices": "device == cpu-9"}, {"run_on": 4}, {"devices": "rack == b"}]
)
def test_no_sweep_awaits_a_device_that_the_farm_never_had(given: dict[str, object]) -> None:
    with pytest.raises(NoMatchingDevice) as caught:
        placed(SERVERS, **given, **{"await": True})
    assert "\n" not in str(caught.value)
    assert "awaits only devices that the farm has had" in caught.value.remedy


@pytest.mark.parametrize("absent", [[], [(builders.phone(), "its state, absent")]])
def test_no_device_that_would_do_is_known(absent: list[tuple[Device, str]]) -> None:
    sweep = builders.sweep()
    with pytest.raises(NoMatchingDevice) as caught:
        place_cells(sweep, cells_of(sweep, CATALOG), [], CATALOG, absent)
    assert caught.value.seen == "the farm has no device"


def test_the_axes_of_a_cell_by_name() -> None:
    (cell,) = cells(knobs={"batch_size": 4})
    names = ("workload", "stack", "scenario", "batch_size", "nothing")
    assert [axis_value(cell, n) for n in names] == ["resnet", "torch", "training", 4, None]


def test_cells_that_need_the_same_model_on_the_device_come_together() -> None:
    sweep = builders.sweep(
        workload=["mobiledet_surrogate", "shapes_classifier"],
        stack=["litert", "tflite"],
        scenario=["single_stream", "offline"],
        knobs={"threads": [1, 2]},
    )
    catalog = load_catalog()
    devices = [builders.phone(), builders.phone().model_copy(update={"id": "phone-2"})]
    each = sweep.model_copy(update={"run_on": "each"})
    cells = place_cells(each, cells_of(each, catalog), devices, catalog)
    assert len(cells) == 2 * 2 * 2 * 2 * 2
    needs = [(cell.workload, cell.stack) for cell in cells]
    changes = sum(before != after for before, after in pairwise(needs))
    assert changes == len(set(needs)) - 1
    # Numerics is the second axis of the sweep, and yet its models are not pushed in turns.
    mixed = builders.sweep(
        workload="shapes_classifier",
        stack="litert",
        scenario=["single_stream", "offline"],
        knobs={"numerics": ["int8", "fp32"]},
    )
    placed = place_cells(mixed, cells_of(mixed, catalog), devices, catalog)
    assert [cell.knobs["numerics"] for cell in placed] == ["int8", "int8", "fp32", "fp32"]


@pytest.mark.parametrize(("knob", "value"), [("mode", "accuracy"), ("quality_target", 0.7)])
@pytest.mark.parametrize("paired", [False, True])
def test_no_accuracy_is_asked_of_random_weights(knob: str, value: object, paired: bool) -> None:
    given: dict[str, object] = {"workload": "resnet50", "scenario": "offline", "stack": "torch"}
    given["knobs"] = {knob: value}
    if paired:
        sides = {"a": "torch", "b": [{"stack": "torch-compile", "knobs": {knob: value}}]}
        given |= {"knobs": {}, "stack": [], "paired": sides, "deadline_s": 10_000}
    with pytest.raises(SweepInvalid, match=rf"key knobs.{knob}: .* has random weights on stack"):
        cells_of(builders.sweep(**given), load_catalog())


@pytest.mark.parametrize(
    ("workload", "knobs", "lacks"),
    [
        ("retinanet_images", {"weights": "own", "data": "coco"}, None),
        ("retinanet_images", {"weights": "own", "data": "synthetic"}, "made-up samples"),
        ("retinanet_images", {"weights": "own", "data": "made"}, "made-up samples"),
        ("retinanet_images", {"data": "coco"}, "random weights"),
        ("retinanet_overfit", {"weights": "own"}, None),
        ("retinanet_overfit", {}, "random weights"),
        ("retinanet_resnext50", {"weights": "own"}, "made-up samples"),
    ],
)
def test_an_accuracy_is_asked_of_learnt_weights_and_samples_with_truths_alone(
    workload: str, knobs: dict[str, object], lacks: str | None
) -> None:
    given: dict[str, object] = {"workload": workload, "stack": "torch", "scenario": "offline"}
    asked = builders.sweep(**given, knobs={**knobs, "mode": "accuracy", "quality_target": 0.2})
    if lacks:
        with pytest.raises(SweepInvalid, match=f"has {lacks} on stack torch"):
            cells_of(asked, load_catalog())
        return
    catalog = load_catalog()
    for cell in cells_of(asked, catalog):
        program = program_of(cell, catalog)
        assert isinstance(program, TrainingProgram)
        assert program.quality_target == catalog.workloads[workload].quality_target


@pytest.mark.parametrize("scenario", ["single_stream", "multi_stream", "server"])
@pytest.mark.parametrize("stack", ["litert", "tflite"])
def test_batches_are_asked_for_under_offline_only(stack: str, scenario: str) -> None:
    given = {"workload": "shapes_classifier", "stack": stack, "knobs": {"batch_size": [1, 8]}}
    message = f"key knobs.batch_size: 8 has no meaning under scenario {scenario}"
    with pytest.raises(SweepInvalid, match=message) as raised:
        cells_of(builders.sweep(**given, scenario=["offline", scenario]), load_catalog())
    assert raised.value.remedy == "Set it under scenario offline only."
    found = cells_of(builders.sweep(**given, scenario="offline"), load_catalog())
    assert [cell.knobs["batch_size"] for cell in found] == [1, 8]
    alone = builders.sweep(**given | {"knobs": {"batch_size": 1}}, scenario=scenario)
    assert len(cells_of(alone, load_catalog())) == 1


def test_only_steps_of_training_are_profiled() -> None:
    given = {"workload": "kernels", "stack": "torch", "scenario": "kernel", "profile": True}
    with pytest.raises(SweepInvalid, match="kernels does not train under scenario kernel"):
        cells_of(builders.sweep(**given), load_catalog())
    training = {"workload": "retinanet_resnext50", "scenario": "training"}
    assert cells_of(builders.sweep(**given | training), load_catalog())[0].profiled
    ranks = {"knobs": {"ranks": (2,)}}
    with pytest.raises(SweepInvalid, match="a profile is of one process, not of ranks=2"):
        cells_of(builders.sweep(**given | training | ranks), load_catalog())


def test_ranks_are_for_training() -> None:
    given = {"workload": "resnet50", "stack": "torch", "scenario": "offline"}
    with pytest.raises(SweepInvalid, match=r"knobs.ranks: 2 has no meaning under scenario offline"):
        cells_of(builders.sweep(**given, knobs={"ranks": (2,)}), load_catalog())
