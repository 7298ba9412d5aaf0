"""docs/result-format.md says what is stored and shown, no more and no less."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from controller.contracts.base import Contract
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.units import Unit
from controller.store import tables

TEXT = (Path(__file__).parents[3] / "docs" / "result-format.md").read_text()
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]


KINDS: list[type[Contract]] = [StoredResult, StoredFailure]


@pytest.mark.parametrize(("example", "kind"), list(zip(EXAMPLES, KINDS, strict=True)))
def test_the_example_is_what_is_shown(example: dict[str, object], kind: type[Contract]) -> None:
    times = {name: example[name] for name in ("started_at", "recorded_at")}
    parsed = kind.model_validate({**example, **dict.fromkeys(times, 0.0)})
    shown = parsed.model_dump(mode="json")
    assert list(shown) == list(example)
    assert {**shown, **times} == example


def test_every_field_unit_and_table_is_described() -> None:
    beside_facts = re.sub(r"^\| fact \|.*?\n\n", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`[^|]+) \|", beside_facts, re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    fields = {*StoredResult.model_fields, *StoredFailure.model_fields, "value", "unit", "samples"}
    assert described == {*fields, *(unit.value for unit in Unit), *tables.metadata.tables}
