"""Faults that pydantic finds are said in our own words."""

from __future__ import annotations

import pytest

from agents.virtual_phone.errors import PhoneOptionsInvalid
from agents.virtual_phone.faults import parse_fault
from controller.contracts.base import Contract
from controller.contracts.catalog import Catalog
from controller.contracts.device import RegisteredAgent
from controller.contracts.sweep import Sweep
from controller.contracts.wire import Orders
from controller.contracts.wording import PATTERNS


def patterns_in(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(patterns_in, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    return own.union(*map(patterns_in, schema.values()))


@pytest.mark.parametrize("kind", [Catalog, RegisteredAgent, Sweep, Orders])
def test_every_pattern_has_words(kind: type[Contract]) -> None:
    found = patterns_in(kind.model_json_schema())
    assert found
    assert found - set(PATTERNS) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("explode", "cannot read fault 'explode': it is not one of offline, unauthorized, hang,"),
        ("slow", "bytes_per_s: it is missing. Write KIND or KIND:key=value"),
        ("slow:bytes_per_s=x", "bytes_per_s: it is not a whole number. Write KIND"),
    ],
)
def test_a_fault_of_a_phone_that_there_is_not(text: str, expected: str) -> None:
    with pytest.raises(PhoneOptionsInvalid) as told:
        parse_fault(text)
    assert expected in str(told.value)
