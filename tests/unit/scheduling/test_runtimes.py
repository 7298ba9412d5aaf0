"""A device that a stack has no runtime for is named before a run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agents.inference.bundle.recipe import recipe_names
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import Device, DeviceState, Fact
from controller.scheduling.placement import objections
from controller.scheduling.planning import plan_sweep
from controller.scheduling.runtimes import without_runtime
from tests.support import builders


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Builders' own, whose stack litert has the shipped one's architectures."""
    shipped, made = load_catalog().stacks["litert"], builders.catalog()
    litert = made.stacks["litert"].model_copy(update={"architectures": shipped.architectures})
    return made.model_copy(update={"stacks": {**made.stacks, "litert": litert}})


def phone(name: str, facts: Mapping[str, Fact]) -> Device:
    return builders.phone(name).model_copy(update={"facts": facts})


def test_manifests_name_the_architectures_that_have_a_recipe() -> None:
    stacks = [stack for stack in load_catalog().stacks.values() if stack.bundle]
    named = [f"{stack.bundle}-{arch}" for stack in stacks for arch in stack.architectures]
    assert sorted(named) == recipe_names()


@pytest.mark.parametrize(
    ("facts", "excluded"),
    [
        ({"abi": "arm64-v8a"}, False),
        ({"abi": "x86_64"}, False),
        ({}, False),  # the device is asked
        ({"abi": "armeabi-v7a"}, True),
        ({"abi": "riscv64"}, True),
        ({"architecture": "aarch64"}, True),
    ],
)
def test_a_run_goes_only_where_its_runtime_does(
    catalog: Catalog, facts: Mapping[str, Fact], excluded: bool
) -> None:
    device = phone("phone-0", facts)
    found = objections(builders.cell("any", "litert"), device, catalog)
    line = without_runtime(device, catalog.stacks.values())
    assert (bool(found), line is not None) == (excluded, excluded)
    if line:
        assert device.architecture
        assert device.architecture in found[0]
        assert device.architecture in line
        assert "arm64-v8a" in line
        assert "docs/mobile.md" in line


def test_a_device_that_another_stack_runs_on_is_not_named(catalog: Catalog) -> None:
    server = builders.cpu(facts={"architecture": "aarch64"})
    assert without_runtime(server, catalog.stacks.values()) is None


def test_the_other_phones_of_a_farm_are_planned(catalog: Catalog) -> None:
    sweep, cell = builders.sweep(), builders.cell("any", "litert")
    fleet = [phone("phone-0", {"abi": "armeabi-v7a"}), phone("phone-1", {"abi": "arm64-v8a"})]
    ready = [(device, DeviceState.READY) for device in fleet]
    plan = plan_sweep(sweep, [cell], ready, catalog, ())
    assert [each.device for each in plan.devices] == ["phone-1"]
    (alone,) = plan_sweep(sweep, [cell], ready[:1], catalog, ()).unmatched
    assert "its runtime is for arm64-v8a or x86_64, not armeabi-v7a" in alone.why
