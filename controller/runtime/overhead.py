"""The overhead of a query, measured by a process of the agents' side, judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

from controller.contracts.base import Contract
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.reports.statistics import paired_ratio


class Overhead(Contract):
    """How much longer a query takes through LoadGen and our runner than in a bare loop."""

    workload: str
    numerics: str
    pairs: int
    query_s: float
    """Median period of the bare loop."""
    ratio: float
    ratio_low: float
    ratio_high: float


def measure_overhead(workload: str, numerics: str, pairs: int) -> Overhead:
    """Run the interleaved benchmark; raises UserError naming what is missing."""
    known = {w.name: w.on_device for w in load_catalog().workloads.values() if w.on_device}
    chosen = known.get(workload)
    if chosen is None or numerics not in chosen.models:
        names = ", ".join(f"{name} ({'/'.join(w.models)})" for name, w in known.items())
        raise UserError(f"benchmark {workload} {numerics}", "there is no such model", names)
    module = "agents.android.bench_harness"
    arguments = [chosen.models[numerics].path, chosen.dataset.writer, str(pairs)]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        seen = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise UserError("measuring the overhead", seen, "it needs the extra `dev`: make setup")
    samples = json.loads(done.stdout)
    ratio = paired_ratio(samples["harness_s"], samples["bare_s"])
    low, high = ratio.interval or (ratio.value, ratio.value)
    return Overhead(
        workload=workload,
        numerics=numerics,
        pairs=pairs,
        query_s=median(period for pair in samples["bare_s"] for period in pair),
        ratio=ratio.value,
        ratio_low=low,
        ratio_high=high,
    )
