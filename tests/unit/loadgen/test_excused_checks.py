"""An INVALID run that was made VALID, with an entry more or less that would excuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.loadgen.checks import Verdict
from controller.loadgen.logs import DETAIL, SUMMARY
from controller.loadgen.run_logs import read_run
from controller.loadgen.verifying import verify
from tests.support.altered_logs import NEWER, copied

LATE = ("server_late", "multi_stream", "server")
"""Recorded runs that are INVALID."""


def made_valid(name: str, folder: Path) -> Path:
    """Copy logs of an INVALID run and call it VALID; return their folder."""
    found = copied(name, folder)
    (found / SUMMARY).unlink()
    path = found / DETAIL
    path.write_text(path.read_text().replace('"INVALID"', '"VALID"'))
    return found


def appended(folder: Path, key: str, value: str) -> None:
    """Add an entry before the last one, with its time and thread."""
    path = folder / DETAIL
    *lines, end = path.read_text().splitlines(keepends=True)
    entry = end.replace('"num_errors", "value": 0', f'"{key}", "value": {value}')
    assert entry != end
    path.write_text("".join((*lines, entry, end)))


def differing(folder: Path) -> set[str]:
    found = verify(read_run(folder))
    return {check.figure for check in found if check.verdict is Verdict.DIFFERS}


@pytest.mark.parametrize("name", LATE)
def test_a_run_that_does_not_count_tokens_is_not_excused_by_saying_so(
    name: str, tmp_path: Path
) -> None:
    folder = made_valid(name, tmp_path)
    appended(folder, "requested_use_token_latencies", "true")
    assert differing(folder) >= {"result_validity", "requested_use_token_latencies"}


@pytest.mark.parametrize("name", LATE)
def test_forged_results_of_tokens_do_not_excuse_the_rest(name: str, tmp_path: Path) -> None:
    folder = made_valid(name, tmp_path)
    appended(folder, "requested_use_token_latencies", "true")
    appended(folder, "result_first_token_99.00_percentile_latency_ns", "1")
    expected = {"result_validity", "requested_use_token_latencies", "early_stopping_ttft_result"}
    assert differing(folder) >= expected


@pytest.mark.parametrize("name", LATE)
def test_a_log_without_early_stopping_is_excused_by_its_release_alone(
    name: str, tmp_path: Path
) -> None:
    folder = made_valid(name, tmp_path)
    path = folder / DETAIL
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"early_stopping_' not in line))
    assert differing(folder) >= {"result_validity", "early_stopping_met"}


@pytest.mark.parametrize("kept", [key for key in NEWER if "query_count" not in key])
@pytest.mark.parametrize("name", LATE)
def test_a_log_that_calls_itself_older_than_an_entry_in_it_is_named(
    name: str, kept: str, tmp_path: Path
) -> None:
    folder = made_valid(name, tmp_path)
    path = folder / DETAIL
    lines = path.read_text().replace("6.0.16 @", "1.0 @").splitlines(keepends=True)
    others = [key for key in NEWER if key != kept]
    path.write_text("".join(line for line in lines if not any(key in line for key in others)))
    # With early_stopping_met, the verdict depends on it in whatever release.
    assert differing(folder) & {"loadgen_version", "result_validity"}
