"""CSV files of results: texts from phones and users are no formulas, numbers stay numbers."""

from __future__ import annotations

import csv
import io

import pytest

from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from controller.reports import export, summary
from controller.reports.csv_text import csv_text
from tests.support.sweep_examples import catalog, result

FORMULA = '=HYPERLINK("http://evil.example","click")'


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_phones_model_is_no_formula_in_exported_results() -> None:
    named: list[StoredResult] = [result(device="a", environment={"model": FORMULA})]
    for row in rows(export.as_csv(named)):
        assert row["environment.model"] == f"'{FORMULA}"


def test_a_devices_name_is_no_formula_in_a_sweeps_summary() -> None:
    named = [result(device="a").model_copy(update={"device_name": FORMULA})]
    found = summary.summarise(named, [], {}, catalog())
    told = rows(summary.as_csv(found.rankings))
    assert told
    assert all(row["device_name"] == f"'{FORMULA}" for row in told)


@pytest.mark.parametrize("text", ["=1", "+1-1", "-1+1", "@SUM(1)", "\t=1", "\n=1", "-x"])
def test_a_text_that_begins_as_a_formula_has_an_apostrophe(text: str) -> None:
    (row,) = rows(csv_text(("a", "b"), [(text, 1)]))
    assert row["a"].startswith("'")
    assert row["b"] == "1"


@pytest.mark.parametrize(
    "value", [-0.5, -1, "-0.5", "-12", "-1e-05", "+3", "-0.5 0.25 -1e-07", "a-1", "", None, True]
)
def test_numbers_and_other_texts_are_as_they_were(value: object) -> None:
    (row,) = rows(csv_text(("a", "b"), [(value, "x")]))
    assert row["a"] == ("" if value is None else str(value))


def test_negative_values_and_facts_can_be_read_back() -> None:
    loss = Measurement(value=-0.5, unit=Unit.LOSS, samples=(-0.5, -0.25))
    one: StoredResult = result(device="a", environment={"battery_current_ua": -1200})
    (row,) = rows(export.as_csv([one.model_copy(update={"metrics": {"loss": loss}})]))
    assert float(row["value"]) == -0.5
    assert [float(sample) for sample in row["samples"].split()] == [-0.5, -0.25]
    assert int(row["environment.battery_current_ua"]) == -1200
