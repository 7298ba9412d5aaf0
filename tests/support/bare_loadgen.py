"""`python -m tests.support.bare_loadgen MODEL INPUT SECONDS`: LoadGen and an interpreter.

What the farm is held against. Says that it is ready, begins when a line comes, and prints the 90th
percentile of latency in seconds.
"""

from __future__ import annotations

import array
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlperf_loadgen as loadgen
import numpy as np
from ai_edge_litert.interpreter import Interpreter


def main() -> int:
    """Measure once."""
    model, input_file, seconds = sys.argv[1:]
    images = np.load(input_file)
    interpreter = Interpreter(model, num_threads=1)
    interpreter.allocate_tensors()
    taken = interpreter.get_input_details()[0]["index"]
    given = interpreter.get_output_details()[0]["index"]
    answer = array.array("q", [0])

    def issue(queries: list[Any]) -> None:
        for query in queries:
            interpreter.set_tensor(taken, images[query.index : query.index + 1])
            interpreter.invoke()
            answer[0] = int(interpreter.get_tensor(given).argmax())
            response = loadgen.QuerySampleResponse(query.id, answer.buffer_info()[0], 8)
            loadgen.QuerySamplesComplete([response])

    for _ in range(8):
        interpreter.invoke()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.SingleStream
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_query_count, settings.min_duration_ms = 64, int(float(seconds) * 1000)
    settings.single_stream_expected_latency_ns = 5_000_000
    system = loadgen.ConstructSUT(issue, lambda: None)
    library = loadgen.ConstructQSL(len(images), len(images), lambda _: None, lambda _: None)
    with TemporaryDirectory() as folder:
        output = loadgen.LogOutputSettings()
        output.outdir = folder
        logs = loadgen.LogSettings()
        logs.log_output, logs.enable_trace = output, False
        loadgen.StartTestWithLogSettings(system, library, settings, logs, "")
        said = (Path(folder) / "mlperf_log_summary.txt").read_text()
    found = re.search(r"^90.00 percentile latency \(ns\) *: (\d+)", said, re.MULTILINE)
    assert found, said
    sys.stdout.write(f"{int(found[1]) / 1e9}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
