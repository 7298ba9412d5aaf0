"""What a job asks of LoadGen: scenario, mode, and the length of its run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.mobile import RunLength, RunLengths
from controller.contracts.policy import load_policy
from controller.contracts.suite_rules import rules_of
from controller.contracts.wire import Job

OFFLINE: Final[Mapping[str, RunLength]] = {
    "normal": RunLength(queries=24_576, seconds=0),
    "quick": RunLength(queries=2_457, seconds=0),
    "rapid": RunLength(queries=64, seconds=0),
}
"""Samples of the only query; no minimum duration (run rules of MLPerf Mobile, and its app)."""
ESTIMABLE: Final = 662
"""Fewest queries from which LoadGen can estimate the 99th percentile, the metric of these
scenarios."""

MADE_UP_SAMPLES: Final = 64
"""Random samples generated when there is no data set."""
SAMPLING_S: Final = 2.0
"""Seconds between samples of a device's conditions during a measurement."""


def loadgen_spec(job: Job, mode: str, lengths: RunLengths) -> dict[str, object]:
    """Return the part of a runner's spec that its system has no say in."""
    length = run_length(job.scenario, str(job.knobs["length"]), lengths)
    names = ("samples_per_query", "target_qps", "target_latency_ms")
    return {
        "scenario": job.scenario,
        "mode": mode,
        "min_query_count": length.queries,
        "min_duration_ms": round(length.seconds * 1000),
        "max_duration_ms": _longest_ms(job, length) if mode == "performance" else 0,
        "sampling_s": SAMPLING_S,
        "rest_s": load_policy(str(job.knobs["policy"])).rest_s,
        **{name: job.knobs[name] for name in names if name in job.knobs},
        **_seeds(job.workload),
    }


def _longest_ms(job: Job, length: RunLength) -> int:
    """Return when a run ends at the latest; 0: rounds before v3.1 have no such end."""
    rules = rules_of(job.workload)
    ends = rules is None or any(of.most_seconds for of in rules.scenarios.values())
    return round(1000 * (length.most_seconds or 0.0)) if ends else 0


def _seeds(workload: str) -> Mapping[str, int]:
    """Return the seeds of the round whose rules a workload's runs go by; none: LoadGen's own."""
    rules = rules_of(workload)
    if rules is None or rules.seeds is None:
        return {}
    return {f"{name}_rng_seed": seed for name, seed in rules.seeds.model_dump().items()}


def run_length(scenario: str, name: str, lengths: RunLengths) -> RunLength:
    """Return the least number of queries (offline: samples) and seconds of a run."""
    if scenario == "offline":
        return OFFLINE[name]
    length = lengths.of(name)
    if scenario == "single_stream":
        return length
    # The app, which has neither scenario, ends no run of other scenarios early.
    return RunLength(queries=max(length.queries, ESTIMABLE), seconds=length.seconds)
