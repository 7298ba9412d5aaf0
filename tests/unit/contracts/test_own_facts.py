"""Facts that stacks and scenarios declare in their manifests: what is refused, and why."""

from __future__ import annotations

import pytest

from controller.contracts.added_manifests import require_one_meaning
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.manifests import ScenarioManifest, StackManifest

GOOD: dict[str, object] = {"kind": "setting", "means": "the clock mode"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"cpu_model": GOOD}, "benchfarm writes a fact of this name"),
        ({"celsius_skin_before": GOOD}, "benchfarm writes a fact of this name"),
        ({"delegate": GOOD}, "benchfarm writes a fact of this name"),
        ({"a.clock": GOOD}, "String should match"),
        ({"Clock": GOOD}, "String should match"),
        ({"clock": {"means": "the clock mode"}}, "kind"),
        ({"clock": {"kind": "setting"}}, "means"),
        ({"clock": {**GOOD, "kind": "guess"}}, "identity"),
        ({"clock": {**GOOD, "means": ""}}, "String should match"),
        ({"clock": {**GOOD, "means": "two\nlines"}}, "String should match"),
        ({"clock": {**GOOD, "unit": "kilo hertz"}}, "String should match"),
        ({"clock": {**GOOD, "equal": "results"}}, "stack"),
        ({"clock": {**GOOD, "equal": "maybe"}}, "stack"),
        ({"clock": {**GOOD, "except": "kernel"}}, "Extra inputs"),
        ({"clock": {**GOOD, "programs": True}}, "Extra inputs"),
    ],
)
def test_a_manifest_declares_facts_strictly(facts: dict[str, object], said: str) -> None:
    for owner in (load_catalog().stacks["torch"], load_catalog().scenarios["training"]):
        fields = owner.model_dump()
        type(owner).model_validate({**fields, "facts": {"clock": {**GOOD, "equal": "side"}}})
        with pytest.raises(ValueError, match=said):
            type(owner).model_validate({**fields, "facts": facts})


@pytest.mark.parametrize(
    ("read", "declared", "said"),
    [
        (("clock",), (), r"command\.facts\.clock is not declared"),
        (("clock",), ("clock", "mode_used"), r"facts\.mode_used: no pattern of command\.facts"),
        (("delegate",), (), None),
        (("clock",), ("clock",), None),
    ],
)
def test_a_program_writes_what_its_stack_declares_and_no_less(
    read: tuple[str, ...], declared: tuple[str, ...], said: str | None
) -> None:
    fields = load_catalog().stacks["llama-bench"].model_dump()
    command = {**fields["command"], "facts": dict.fromkeys(read, "is (?P<value>.)")}
    changed = {**fields, "command": command, "facts": dict.fromkeys(declared, GOOD)}
    if said is None:
        StackManifest.model_validate(changed)
        return
    with pytest.raises(ValueError, match=said):
        StackManifest.model_validate(changed)


def test_a_fact_means_the_same_in_all_manifests() -> None:
    def owner(name: str, **fact: str) -> ScenarioManifest:
        facts = {"clock": {**GOOD, **fact}}
        document = {"name": name, "title": "t", "metric": "m", "facts": facts}
        return ScenarioManifest.model_validate(document)

    require_one_meaning([owner("one"), owner("two")])
    with pytest.raises(SweepInvalid, match="one declares the fact clock in another way"):
        require_one_meaning([owner("one"), owner("two", unit="kHz")])
