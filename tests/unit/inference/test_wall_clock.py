"""A wall clock that is set while LoadGen measures by it."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.inference.runner.wall_clock import Clocks
from controller.platform.programs import python_module
from tests.support.clock_setting_run import CLOCK
from tests.support.wall_clock import build_shim

BY_IT = "and LoadGen measures by it"


@pytest.mark.parametrize(
    ("passed", "objection"),
    [
        (Clocks(60.009, 60.0, 60.0, 0.0), None),
        (
            Clocks(60.03, 60.0, 60.0, 0.0),
            "set by +0.03 s during the run, or the device was suspended, ",
        ),
        (Clocks(59.5, 60.0, 60.0, 0.0), "set by -0.5 s during the run, "),
        (
            Clocks(61.0, 60.0, 60.0, 0.0),
            "set by +1 s during the run, or the device was suspended, ",
        ),
        (Clocks(59.0, 60.0, 60.0, 0.0), "set by -1 s during the run, "),
        (Clocks(-340.0, 60.0, 60.0, 0.0), "set by -400 s during the run, "),
        (Clocks(0.13, 0.1, 0.1, 0.03), None),  # interrupted between the clocks
        (Clocks(0.209, 0.2, 0.2, 0.0), None),
        # As chrony slews, and as ntpd does.
        (Clocks(108.3, 108.3, 100.0, 0.0), "slewed by +8.3 s during the run, "),
        (Clocks(91.7, 91.7, 100.0, 0.0), "slewed by -8.3 s during the run, "),
        (Clocks(100.04, 100.04, 100.0, 0.0), None),
        (Clocks(99.95, 99.95, 100.0, 0.0), None),
        (Clocks(0.13, 0.13, 0.1, 0.03), None),
        (Clocks(0.22, 0.22, 0.2, 0.0), "slewed by +0.02 s during the run, "),
        # Of a clock that is set and slewed, the greater fault is told.
        (
            Clocks(113.3, 108.3, 100.0, 0.0),
            "set by +5 s during the run, or the device was suspended, ",
        ),
    ],
)
def test_a_clock_is_set_if_it_leaves_the_monotonic_one_and_slewed_if_both_leave_the_raw_one(
    passed: Clocks, objection: str | None
) -> None:
    assert passed.objection == (objection and f"the wall clock was {objection}{BY_IT}")


@pytest.fixture
def measure(tmp_path: Path) -> Any:  # noqa: ANN401 - JSON
    """Return what a run says, in which the clock is set so much ahead at an answer, and set right
    at another if there is one."""
    shim, clock = build_shim(tmp_path, tmp_path / CLOCK), tmp_path / CLOCK
    clock.write_bytes(struct.pack("d", 0.0))

    def said(scenario: str, step_s: int, at: int, until: int = 0) -> Any:  # noqa: ANN401 - JSON
        told = (str(tmp_path), scenario, str(step_s), str(at), str(until))
        command = python_module("tests.support.clock_setting_run", *told)
        environment = {**os.environ, "LD_PRELOAD": str(shim)}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return said


@pytest.mark.parametrize(
    ("scenario", "step_s", "at"),
    [("offline", -5, 32), ("offline", 1, 32), ("single_stream", 1, 70)],
)
def test_a_run_in_which_the_clock_is_set_is_invalid_though_loadgen_says_nothing(
    measure: Any,  # noqa: ANN401 - JSON
    scenario: str,
    step_s: int,
    at: int,
) -> None:
    result = measure(scenario, step_s, at)
    (reason,) = result["reasons"]
    assert result["validity"] == "INVALID"
    assert reason.startswith(f"the wall clock was set by {step_s:+d} s during the run, ")
    assert reason.endswith(BY_IT)
    assert result["environment"]["wall_clock_set_by_s"] == pytest.approx(step_s, abs=0.5)


def test_a_run_whose_clock_nobody_sets_is_valid(measure: Any) -> None:  # noqa: ANN401 - JSON
    result = measure("offline", 0, 0)
    assert (result["validity"], result["reasons"]) == ("VALID", [])
    assert abs(result["environment"]["wall_clock_set_by_s"]) < 0.5


@pytest.mark.parametrize(
    ("scenario", "step_s", "at"), [("offline", -5, 0), ("single_stream", -5, 50)]
)
def test_a_clock_set_back_beyond_the_run_or_a_query_is_not_the_device_s_fault(
    measure: Any,  # noqa: ANN401 - JSON
    scenario: str,
    step_s: int,
    at: int,
) -> None:
    fault = measure(scenario, step_s, at)
    assert (fault["kind"], fault["blame"]) == ("clock_set", "harness")
    assert fault["message"].startswith(f"the wall clock was set by {step_s:+d} s during the run, ")
    assert fault["message"].endswith("Run it again.")


def test_a_time_below_0_is_told_though_the_clock_was_set_right_again(
    measure: Any,  # noqa: ANN401 - JSON
) -> None:
    fault = measure("single_stream", -5, 50, 60)
    assert (fault["kind"], fault["blame"]) == ("clock_set", "harness")
    assert re.fullmatch(
        r"LoadGen's latency_min is -\d(\.\d+)? s, so the wall clock was set during the run\. "
        r"Run it again\.",
        fault["message"],
    )
