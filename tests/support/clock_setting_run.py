"""`python -m tests.support.clock_setting_run FOLDER SCENARIO STEP_S AT`: a run of LoadGen, in which
the wall clock of tests/support/wall_clock.cc is set so much ahead at an answer.

FOLDER has the clock's file. Prints the result as JSON, or the fault. Steps ahead should be small:
LoadGen waits by the wall clock, and the kernel's isn't set.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Sequence
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
    """A System that sets the clock as it gives one of its answers."""

    clock: Path
    step_s: float
    at: int
    given: int = 0

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        """See System.prepare."""
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        """See System.answer."""
        if self.given == self.at:
            with self.clock.open("r+b") as file:  # in place: it is mapped
                file.write(struct.pack("d", self.step_s))
        self.given += 1
        time.sleep(ANSWER_S)
        return sample[0]


def main() -> int:
    """Measure once."""
    folder, scenario, step_s, at = sys.argv[1:]
    system = ClockSetter(Path(folder) / CLOCK, float(step_s), int(at))
    offline = scenario == "offline"
    given = {
        "model": "",
        "dataset": "",
        "log_dir": str(Path(folder) / "logs"),
        "scenario": scenario,
        "mode": "performance",
        "min_query_count": 64 if offline else 1024,
        "min_duration_ms": 0 if offline else 100,
        "max_duration_ms": 0 if offline else 900,
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
