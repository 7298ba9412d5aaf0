"""A wall clock that is set while LoadGen measures by it."""

from __future__ import annotations

import json
import os
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
        (Clocks(60.03, 60.0, 0.0), None),  # NTP slews by no more
        (Clocks(59.5, 60.0, 0.0), None),
        (Clocks(61.0, 60.0, 0.0), "set by +1 s during the run, or the device was suspended, "),
        (Clocks(59.0, 60.0, 0.0), "set by -1 s during the run, "),
        (Clocks(-340.0, 60.0, 0.0), "set by -400 s during the run, "),
        (Clocks(0.13, 0.1, 0.03), None),  # interrupted between the clocks
        (Clocks(0.209, 0.2, 0.0), None),
    ],
)
def test_a_clock_is_set_beyond_what_loadgen_lets_clocks_differ(
    passed: Clocks, objection: str | None
) -> None:
    assert passed.objection == (objection and f"the wall clock was {objection}{BY_IT}")


@pytest.fixture
def measure(tmp_path: Path) -> Any:  # noqa: ANN401 - JSON
    """Return what a run says, in which the clock is set so much ahead at an answer."""
    shim, clock = build_shim(tmp_path, tmp_path / CLOCK), tmp_path / CLOCK
    clock.write_bytes(struct.pack("d", 0.0))

    def said(scenario: str, step_s: int, at: int) -> Any:  # noqa: ANN401 - JSON
        told = (str(tmp_path), scenario, str(step_s), str(at))
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
    [("offline", -5, 32), ("offline", 1, 32), ("single_stream", 1, 100)],
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


def test_a_clock_set_back_beyond_the_run_is_not_the_device_s_fault(
    measure: Any,  # noqa: ANN401 - JSON
) -> None:
    fault = measure("offline", -5, 0)
    assert (fault["kind"], fault["blame"]) == ("clock_set", "harness")
    assert fault["message"].startswith("the wall clock was set by -5 s during the run, ")
    assert fault["message"].endswith("Run it again.")
