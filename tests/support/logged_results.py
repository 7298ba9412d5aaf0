"""Stored runs whose figures come from recorded logs of LoadGen."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit
from controller.loadgen import logs
from controller.loadgen.run_logs import SCENARIOS, read_run

CELL = Cell(
    workload="mobilenet_edgetpu",
    stack="litert",
    scenario="single_stream",
    knobs={"suite_version": "v4.0", "numerics": "int8", "dataset": "full"},
    selector="any",
)


def logged_result(folder: Path) -> Result:
    """Return the result of a VALID run of single_stream, as the runner reads it from its logs."""
    run = read_run(folder)
    log, scenario = run.detail.log, SCENARIOS[run.scenario]
    assert run.raw
    seconds = {"duration": logs.duration_s(log, scenario), **logs.latency_metrics(log, scenario)}
    metrics = {name: Measurement(value=value, unit=Unit.SECONDS) for name, value in seconds.items()}
    samples = tuple(latency / 1e9 for latency in run.raw.samples)
    return Result(
        validity=Validity.VALID,
        metrics={"latency": Measurement.of_samples(samples, Unit.SECONDS), **metrics},
        environment={
            "loadgen": str(log["loadgen_version"]),
            "loadgen_seeds": tuple(logs.seeds(log)),
            **logs.asked(log, scenario),
        },
        artefacts={path.stem: str(path) for path in sorted(folder.iterdir())},
    )
