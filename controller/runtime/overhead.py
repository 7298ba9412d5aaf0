"""Benchmark of a query's overhead, in a process of the agents' side."""

from __future__ import annotations

from controller.contracts.bench import OverheadRequest, OverheadSamples
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.platform.helper import Helper
from controller.platform.programs import python_module


def measure_overhead(workload: str, numerics: str, pairs: int) -> OverheadSamples:
    """Run the interleaved benchmark; raises UserError, which names what is missing."""
    known = {w.name: w.on_device for w in load_catalog().workloads.values() if w.on_device}
    chosen = known.get(workload)
    if chosen is None or numerics not in chosen.models:
        names = ", ".join(f"{name} ({'/'.join(w.models)})" for name, w in known.items())
        tried = f"measure the overhead of {workload} {numerics}"
        raise UserError(tried, "there is no such model", f"Choose one of {names}.")
    helper = Helper(
        python_module("agents.inference.bench_harness"),
        "measure the overhead",
        remedy="Run `make setup`: the benchmark needs the extra `dev`.",
        quiet=True,
    )
    request = OverheadRequest(workload=workload, numerics=numerics, pairs=pairs)
    return helper.ask(request, OverheadSamples)
