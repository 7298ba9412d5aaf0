"""`benchfarm results verify` of folders: its table, its JSON and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.loadgen.logs import DETAIL
from tests.support.altered_logs import RECORDED, copied, in_detail, plus
from tests.support.command_line import complaint_of, outcome_of, printed_by

VERIFY = ("results", "verify")


def test_unaltered_logs_end_with_status_0(tmp_path: Path) -> None:
    said = printed_by(tmp_path, *VERIFY, str(RECORDED))
    assert said.count("0 different") == len([*RECORDED.iterdir()])
    assert "early_stopping_latency_ss" in said


def test_an_altered_figure_ends_with_status_1_and_its_name(tmp_path: Path) -> None:
    folder = copied("offline", tmp_path)
    in_detail(folder, "result_max_latency_ns", plus(1))
    said, complained, status = outcome_of(tmp_path, *VERIFY, str(folder), "--json")
    assert (complained, status) == ("", 1)
    (found,) = json.loads(said)
    assert found["where"] == str(folder)
    odd = [check for check in found["checks"] if check["verdict"] == "differs"]
    assert {check["figure"] for check in odd} >= {"result_max_latency_ns"}
    assert all(check["says"] and check["recomputed"] and check["by"] for check in odd)


def test_an_unreadable_log_ends_with_status_2_beside_others(tmp_path: Path) -> None:
    copied("offline", tmp_path)
    (copied("single_stream", tmp_path) / DETAIL).write_text("\x1b[2Jhello\n")
    said, complained, status = outcome_of(tmp_path, *VERIFY, str(tmp_path))
    assert status == 2
    assert complained.count("\n") == 1
    assert "not a log of LoadGen" in complained
    assert "\x1b" not in complained
    assert "0 different" in said


@pytest.mark.parametrize(
    ("options", "figure"),
    [
        (("--suite-version", "v4.0"), "effective_min_sample_count"),
        (("--suite-version", "v5.0"), "effective_qsl_rng_seed"),
        (("--suite-version", "v4.0", "--task", "mosaic"), "effective_scenario"),
    ],
)
def test_a_rule_of_a_round_that_is_broken_is_named(
    options: tuple[str, ...], figure: str, tmp_path: Path
) -> None:
    said, _, status = outcome_of(tmp_path, *VERIFY, str(RECORDED / "offline"), "--json", *options)
    assert status == 1
    odd = {c["figure"] for c in json.loads(said)[0]["checks"] if c["verdict"] == "differs"}
    assert figure in odd


def test_the_round_of_the_seeds_is_told(tmp_path: Path) -> None:
    said = printed_by(tmp_path, *VERIFY, str(RECORDED / "offline"))
    assert "MLPerf Mobile v4.0" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("{home}/none",), "there is no such folder"),
        (("{home}",), f"no folder of it has {DETAIL}"),
        (("{home}", "--task", "mosaic"), "--task says no round"),
        (("{home}", "--suite-version", "v9.9"), "there is no v9.9"),
        (("{home}", "--suite-version", "v4.0", "--task", "chess"), "v4.0 has no chess"),
    ],
)
def test_a_wrong_call_is_refused(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    given = [argument.format(home=tmp_path) for argument in arguments]
    assert expected in complaint_of(tmp_path, *VERIFY, *given)
