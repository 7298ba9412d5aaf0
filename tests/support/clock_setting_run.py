"""`python -m tests.support.clock_setting_run FOLDER SCENARIO STEP_S AT UNTIL`: a run of LoadGen, in
which the wall clock of tests/support/wall_clock.cc is set so much ahead at an answer, and set right
at another if UNTIL isn't 0.

FOLDER has the clock's file. Prints the result as JSON, or the fault. Steps ahead should be small:
LoadGen waits by the wall clock, and the kernel's isn't set.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.inference.runner.dataset import Dataset
from agents.inference.runner.faults import RunnerFault
from agents.inference.runner.graphs import Sample
from agents.inference.runner.measuring import Prepared, measured
from agents.inference.runner.session import Session, WarmUp
from agents.inference.runner.spec import RunSpec

CLOCK = "clock-offset"
ANSWER_S = 0.002


@dataclass(slots=True)
class ClockSetter:
    """A System that sets the clock as it gives some of its answers."""

    clock: Path
    ahead_s: Mapping[int, float]
    """By the number of the answer."""
    given: int = 0

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        """See System.prepare."""
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        """See System.answer."""
        if self.given in self.ahead_s:
            with self.clock.open("r+b") as file:  # in place: it is mapped
                file.write(struct.pack("d", self.ahead_s[self.given]))
        self.given += 1
        time.sleep(ANSWER_S)
        return sample[0]


def main() -> int:
    """Measure once."""
    folder, scenario, step_s, at, until = sys.argv[1:]
    ahead_s = {int(until): 0.0} if int(until) else {}
    system = ClockSetter(Path(folder) / CLOCK, {**ahead_s, int(at): float(step_s)})
    given = {
        "model": "",
        "dataset": "",
        "log_dir": str(Path(folder) / "logs"),
        "scenario": scenario,
        "mode": "performance",
        "min_query_count": 64 if scenario == "offline" else 128,
        "min_duration_ms": 0,
        "max_duration_ms": 0,
        "performance_sample_count": 64,
        "threads": 1,
        "delegate": "none",
        "batch_size": 1,
    }
    spec = RunSpec.of(given)
    data = Dataset([np.zeros((64, 1), np.float32)])
    prepared = Prepared(Session(system, data, spec), WarmUp(8, ANSWER_S), len(data), {})
    try:
        said = measured(spec, lambda *_: None, lambda: prepared)
    except RunnerFault as fault:
        said = {"kind": fault.kind, "blame": fault.blame, "message": fault.message}
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
