"""Cells of plugins: which hosts may have them, what they make an agent run, what is comparable."""

from __future__ import annotations

import pytest

from controller.contracts.catalog import Catalog
from controller.contracts.device import PLUGINS
from controller.contracts.errors import SweepInvalid
from controller.contracts.manifests import Knob, ScenarioManifest
from controller.contracts.plugins import Plugin
from controller.contracts.run import AttemptState
from controller.contracts.sweep import Cell
from controller.contracts.wire import TrainingProgram
from controller.contracts.work import work_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.placement import objections
from controller.scheduling.program import candidate_of, job_of, program_of
from controller.scheduling.queued import asked
from tests.support import builders

ONE = Plugin(distribution="my-farm", version="1.0", package="my_farm", digest="a" * 8)
TWO = ONE.model_copy(update={"version": "2.0", "digest": "b" * 8})
EDITED = ONE.model_copy(update={"digest": "c" * 8})

CHANGED = "the run is of my-farm 1.0 (aaaaaaaa), the farm has my-farm 2.0 (bbbbbbbb)"


def origin(plugin: Plugin) -> Knob:
    return Knob(
        type="str", default=plugin.recorded, choices=(plugin.recorded,), description="", work=True
    )


def catalog(plugin: Plugin = ONE) -> Catalog:
    """Return the tests' catalogue, whose workload `bert`, stack and a scenario are a plugin's."""
    known = builders.catalog()
    bert = known.workloads["bert"]
    knobs = {**bert.knobs, "workload_package": origin(plugin)}
    first = ScenarioManifest(
        name="first",
        title="",
        metric="loss",
        module="my_farm.first",
        knobs={"scenario_package": origin(plugin)},
    )
    bert = bert.model_copy(update={"knobs": knobs, "scenarios": ("training", "first")})
    return known.model_copy(
        update={
            "workloads": {**known.workloads, "bert": bert},
            "scenarios": {**known.scenarios, "first": first},
            "plugins": {"workload": {"bert": plugin}, "scenario": {"first": plugin}},
        }
    )


def cell(plugin: Plugin = ONE, **axes: str) -> Cell:
    keys = {"workload": "bert", "scenario": "training", **axes}
    (found,) = cells_of(builders.sweep(**keys), catalog(plugin))
    return found


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ((ONE.recorded,), None),
        (("other 3.0 (d)", ONE.recorded), None),
        ((), "package my-farm 1.0 (the host does not have it; install"),
        (("my-farm-more 1.0 (d)",), "the host does not have it"),
        ((TWO.recorded,), "the host has my-farm 2.0 (bbbb"),
        ((EDITED.recorded,), "the host's has other files: my-farm 1.0 (cccc"),
        ("my-farm 1.0", "the host does not have it"),
    ],
)
def test_a_host_without_the_head_s_plugin_is_excluded(
    host: tuple[str, ...] | str, said: str | None
) -> None:
    device = builders.cpu(facts={PLUGINS: host} if host else {})
    found = objections(cell(), device, catalog())
    assert (said is None) == (found == [])
    assert said is None or said in found[0]


def test_only_what_needs_a_plugin_is_kept_from_a_host() -> None:
    assert objections(cell(workload="resnet"), builders.cpu(), catalog()) == []


@pytest.mark.parametrize("scenario", ["training", "first"])
def test_a_queued_run_of_another_version_waits_and_says_so(scenario: str) -> None:
    queued = cell(scenario=scenario)
    host = builders.cpu(facts={PLUGINS: (TWO.recorded,)})
    found = objections(queued, host, catalog(TWO))
    assert found[0] == f"workload bert: {CHANGED}"
    assert len(found) == (2 if scenario == "first" else 1)
    newer = cell(TWO, scenario=scenario)
    assert objections(newer, host, catalog(TWO)) == []
    assert asked(newer) != asked(queued)


def with_stack(plugin: Plugin) -> Catalog:
    """Return the tests' catalogue with a stack `mine` of a plugin."""
    known = builders.catalog()
    torch = known.stacks["torch"]
    knobs = {**torch.knobs, "stack_package": origin(plugin)}
    mine = torch.model_copy(update={"name": "mine", "knobs": knobs})
    stacks = {**known.stacks, "mine": mine}
    return known.model_copy(update={"stacks": stacks, "plugins": {"stack": {"mine": plugin}}})


def test_the_stack_of_either_side_of_a_comparison_may_be_a_plugin_s() -> None:
    paired = builders.sweep(stack=(), paired={"a": "torch", "b": "mine"})
    (queued,) = cells_of(paired, with_stack(ONE))
    (newer,) = cells_of(paired, with_stack(TWO))
    job = candidate_of(queued, with_stack(ONE))
    assert job is not None
    assert isinstance(job.program, TrainingProgram)
    assert (job.program.plugins, job.knobs["stack_package"]) == ({"stack": ONE}, ONE.recorded)
    host = builders.cpu(facts={PLUGINS: (TWO.recorded,)})
    assert objections(newer, host, with_stack(TWO)) == []
    (said,) = objections(queued, host, with_stack(TWO))
    assert said == f"stack mine: {CHANGED}"
    assert objections(newer, builders.cpu(), with_stack(TWO)) != []
    assert asked(newer) != asked(queued)


def test_a_run_whose_scenario_is_gone_waits_and_says_so() -> None:
    host = builders.cpu(facts={PLUGINS: (ONE.recorded,)})
    (said,) = objections(cell(scenario="first"), host, builders.catalog())
    assert said == "this release, which has no scenario first"


def test_a_job_names_its_plugins_and_keeps_their_version_from_the_builder() -> None:
    program = program_of(cell(scenario="first"), catalog())
    assert isinstance(program, TrainingProgram)
    assert program.plugins == {"workload": ONE, "scenario": ONE}
    assert program.scenario_module == "my_farm.first"
    assert set(program.arguments) == {"batch_size", "rate"}
    plain = program_of(cell(workload="resnet"), catalog())
    assert isinstance(plain, TrainingProgram)
    assert (plain.plugins, plain.scenario_module) == ({}, None)
    leased = builders.attempt("cpu-1", 1, AttemptState.LEASED)
    job = job_of(builders.run(of=cell(), attempts=(leased,)), catalog())
    assert job.knobs["workload_package"] == ONE.recorded


@pytest.mark.parametrize("other", [TWO, EDITED])
def test_what_another_version_or_changed_code_measured_is_other_work(other: Plugin) -> None:
    old, new = cell(), cell(other)
    assert old.key != new.key
    now = catalog(other)
    works = {work_of(now, c.workload, c.scenario, c.stack, c.knobs).key for c in (old, new)}
    assert len(works) == 2


def test_a_sweep_cannot_claim_another_version() -> None:
    sweep = builders.sweep(workload="bert", knobs={"workload_package": "my-farm 9.0"})
    with pytest.raises(SweepInvalid, match=r"Give one of: my-farm 1\.0 \(a"):
        cells_of(sweep, catalog())
