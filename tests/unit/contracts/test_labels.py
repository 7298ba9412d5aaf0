"""No label has the name of a field or a fact of devices: selectors would see it instead."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agents.host.facts import host_facts
from controller.contracts.administration import LabelRequest
from controller.contracts.device import FIELDS, shadowed

HARDWARE = [*host_facts(), "manufacturer", "model", "soc", "abi", "fingerprint", "android", "sdk"]


@pytest.mark.parametrize("name", [*FIELDS, *HARDWARE, "shell_v2", "emulated", "emulator"])
def test_a_name_that_selectors_use_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} is a f.* of devices"):
        LabelRequest(labels={"rack": "b2", name: "x"})


@pytest.mark.parametrize("name", ["rack", "room", "room_celsius", "baseline", "Cores", "cores2"])
def test_other_names_are_labels(name: str) -> None:
    assert shadowed(name) is None
    assert LabelRequest(labels={name: "x"}).labels == {name: "x"}


def test_a_label_from_before_can_be_removed() -> None:
    assert LabelRequest(labels={"cores": None}).labels == {"cores": None}
