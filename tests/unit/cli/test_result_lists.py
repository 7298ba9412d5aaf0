"""Filters of `results list` and `results export` mean the same in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.command_line import complaint_of, printed_by
from tests.support.sample_store import make
from tests.support.store_examples import sweep_record

SWEEP = sweep_record(generation=1, repeats=12).sweep_id
LIST = ("results", "list")
FILTERS = [
    ((), 36),
    (("--sweep", SWEEP), 9),
    (("--tag", "g1", "--tag", "paper"), 9),
    (("--tag", "g1", "--tag", "g2"), 0),
    (("--device", "phone-1"), 12),
    (("--workload", "retinanet", "--stack", "eager", "--scenario", "training"), 36),
    (("--knob", "batch=2", "--knob", "dtype=bf16"), 36),
    (("--knob", "steps=3"), 0),
    (("--validity", "invalid"), 4),
    (("--since", "1970-01-01T00:40", "--until", "1970-01-01T00:41"), 4),
    (("--since", "1d"), 0),
    (("--last", "5"), 5),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lists")
    make(home / "store.sqlite")
    return home


@pytest.mark.parametrize(("options", "expected"), FILTERS)
def test_json_csv_and_table_have_the_same_results(
    home: Path, options: tuple[str, ...], expected: int
) -> None:
    records = json.loads(printed_by(home, *LIST, *options, "--json"))
    ids = [record["run_id"] for record in records]
    rows = list(csv.DictReader(io.StringIO(printed_by(home, *LIST, *options, "--csv"))))
    assert list(dict.fromkeys(row["run_id"] for row in rows)) == ids
    lines = printed_by(home, *LIST, *options).splitlines()
    assert [line.split()[0] for line in lines if line.split()[0] in ids] == ids
    assert len(ids) == expected
    assert ("nothing is stored that fits" in lines) == (expected == 0)


def test_export_takes_the_same_filters(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    said = printed_by(home, "results", "export", str(file), "--device", "phone-1")
    assert said == f"12 results written to {file}\n"
    assert json.loads(file.read_text()) == json.loads(
        printed_by(home, *LIST, "--device", "phone-1", "--json")
    )


def test_a_table_that_is_not_whole_says_so(home: Path) -> None:
    *_, rest, failed = printed_by(home, *LIST, "--last", "5").splitlines()
    assert rest == "the newest 5 of 36; to see all, add --last 0"
    assert failed == "8 attempts failed; see: benchfarm results list --failures"
    assert "the newest" not in printed_by(home, *LIST, "--last", "0")
    failures = json.loads(printed_by(home, *LIST, "--failures", "--device", "phone-1", "--json"))
    assert [failure["device"] for failure in failures] == ["phone-1"] * 8


@pytest.mark.parametrize(
    ("option", "value", "see"),
    [
        ("--device", "nope", "device list"),
        ("--workload", "nope", "workload list"),
        ("--stack", "nope", "stacks list"),
        ("--scenario", "nope", "scenario list"),
        ("--knob", "nope=1", "workload show WORKLOAD"),
    ],
)
def test_a_name_that_nothing_has_is_refused(
    home: Path, tmp_path: Path, option: str, value: str, see: str
) -> None:
    for call in (LIST, ("results", "export", str(tmp_path / "out"))):
        said = complaint_of(home, *call, option, value)
        noun = option.removeprefix("--")
        where = "ever registered" if noun == "device" else "is in the catalogue"
        assert said == (
            f"benchfarm: cannot find results of {noun} 'nope': nothing is stored that fits, "
            f"and no such {noun} {where}. Run `benchfarm {see}`.\n"
        )
