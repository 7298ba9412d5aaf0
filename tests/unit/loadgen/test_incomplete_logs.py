"""Entries that were taken from a log: each is named, and a log that was cut is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.loadgen.checks import Check, Verdict
from controller.loadgen.logs import DETAIL, MARK, SUMMARY, LogUnreadable
from controller.loadgen.releases import Kind, always, last, release
from controller.loadgen.run_logs import read_run
from controller.loadgen.verifying import verify
from tests.support.altered_logs import RECORDED, as_release, copied

NAMES = sorted(path.name for path in RECORDED.iterdir())
TAKEN = (
    *("requested_", "effective_", "result_", "early_stopping_", "num_errors", "power_"),
    *("generated_", "loaded_qsl_set", "qsl_", "sut_name", "test_datetime"),
)
"""How keys begin that every log of 6.0 has, and on which something depends."""


def key_of(line: str) -> str:
    return str(json.loads(line.removeprefix(MARK))["key"])


def lines_of(name: str) -> list[str]:
    return (RECORDED / name / DETAIL).read_text().splitlines(keepends=True)


def named(folder: Path) -> dict[str, Check] | str:
    """Return what differs, by its figure; or the line by which the logs are refused."""
    try:
        checks = verify(read_run(folder))
    except LogUnreadable as error:
        return str(error)
    return {check.figure: check for check in checks if check.verdict is Verdict.DIFFERS}


@pytest.mark.parametrize("has_summary", [True, False], ids=["summary", "alone"])
@pytest.mark.parametrize("name", NAMES)
def test_each_entry_that_was_taken_is_named(name: str, has_summary: bool, tmp_path: Path) -> None:
    folder, lines = copied(name, tmp_path), lines_of(name)
    if not has_summary:
        (folder / SUMMARY).unlink()
    keys = [key for key in dict.fromkeys(map(key_of, lines)) if key.startswith(TAKEN)]
    assert len(keys) > len(TAKEN)
    for key in keys:
        (folder / DETAIL).write_text("".join(line for line in lines if key_of(line) != key))
        found = named(folder)
        of_key = f"truncated: it has no {key}" in found if isinstance(found, str) else key in found
        assert of_key, (key, found)


@pytest.mark.parametrize("name", NAMES)
def test_a_log_that_was_cut_after_any_entry_does_not_pass(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    (folder / SUMMARY).unlink()
    lines = lines_of(name)
    for count in range(1, len(lines)):
        (folder / DETAIL).write_text("".join(lines[:count]))
        assert named(folder), f"cut after {count} of {len(lines)} entries"


def test_both_halves_of_a_setting_that_were_taken_are_named(tmp_path: Path) -> None:
    folder = copied("single_stream", tmp_path)
    both = ("requested_max_duration_ms", "effective_max_duration_ms")
    kept = [line for line in lines_of("single_stream") if key_of(line) not in both]
    (folder / DETAIL).write_text("".join(kept))
    found = named(folder)
    assert isinstance(found, dict)
    assert found.keys() >= {*both}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_of_a_release_is_there(name: str) -> None:
    there = set(map(key_of, lines_of(name)))
    run = read_run(RECORDED / name)
    assert set(always(run.kind)) <= there
    assert last(run.kind) == key_of(lines_of(name)[-1])


@pytest.mark.parametrize(
    ("said", "mode", "expected"),
    [
        ("6.0.16 @ 2b5f63eb56", "PerformanceOnly", "num_errors"),
        ("4.0 @ 238d035ab4", "PerformanceOnly", "result_99.90_percentile_latency_ns"),
        ("2.1 @ NA", "PerformanceOnly", "result_99.90_percentile_latency_ns"),
        ("1.1 @ NA", "PerformanceOnly", "result_99.90_percentile_latency_ns"),
        ("2.1 @ NA", "AccuracyOnly", "power_end"),
        ("4.0 @ 238d035ab4", "AccuracyOnly", "power_end"),
        (".5a1 @ 413dbabcb3", "PerformanceOnly", None),
    ],
)
def test_what_a_release_writes_last_is_that_of_published_logs(
    said: str, mode: str, expected: str | None
) -> None:
    """The ends of published logs of MLPerf Mobile v2.0, v2.1 and v5.0, and of 6.0 here."""
    assert last(Kind(release(said), "SingleStream", mode)) == expected


@pytest.mark.parametrize("name", ["single_stream", "offline", "server"])
@pytest.mark.parametrize("said", ["1.1 @ NA", "2.1 @ NA", "4.0 @ 238d035ab4", "5.0 @ x"])
def test_what_a_release_does_not_write_is_not_missed(said: str, name: str, tmp_path: Path) -> None:
    folder = as_release(copied(name, tmp_path), said)
    (folder / SUMMARY).unlink()
    if said.startswith("1.1"):  # whose verdict knows no early stopping
        path = folder / DETAIL
        path.write_text(path.read_text().replace('"INVALID"', '"VALID"'))
    assert named(folder) == {}
