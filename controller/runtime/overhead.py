"""Benchmark of a query's overhead, in a process of the agents' side."""

from __future__ import annotations

import subprocess

from controller.contracts.bench import OverheadSamples
from controller.contracts.catalog import load_catalog
from controller.contracts.error_payload import USER_ERROR, ErrorPayload
from controller.contracts.errors import UserError
from controller.platform.programs import python_module


def measure_overhead(workload: str, numerics: str, pairs: int) -> OverheadSamples:
    """Run the interleaved benchmark; raises UserError, which names what is missing."""
    known = {w.name: w.on_device for w in load_catalog().workloads.values() if w.on_device}
    chosen = known.get(workload)
    if chosen is None or numerics not in chosen.models:
        names = ", ".join(f"{name} ({'/'.join(w.models)})" for name, w in known.items())
        tried = f"measure the overhead of {workload} {numerics}"
        raise UserError(tried, "there is no such model", f"Choose one of {names}.")
    module = "agents.inference.bench_harness"
    arguments = [workload, numerics, str(pairs)]
    done = subprocess.run(
        python_module(module, *arguments), capture_output=True, text=True, check=False
    )
    if done.returncode == USER_ERROR:
        raise ErrorPayload.model_validate_json(done.stdout).error()
    if done.returncode != 0:
        seen = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        remedy = "Run `make setup`: the benchmark needs the extra `dev`."
        raise UserError("measure the overhead", seen, remedy)
    return OverheadSamples.model_validate_json(done.stdout)
