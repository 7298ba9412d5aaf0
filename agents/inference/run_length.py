"""What a job asks of LoadGen: scenario, mode, and the length of its run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.audit import AUDIT, audit_of
from controller.contracts.mobile import RunLength, RunLengths
from controller.contracts.policy import load_policy
from controller.contracts.suite_rules import SuiteRules
from controller.contracts.suite_version import rules_of
from controller.contracts.wire import Job

MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "performance": ("performance",),
    "accuracy": ("accuracy",),
    "submission": ("performance", "accuracy"),
}
"""Modes of LoadGen's runs by the knob `mode`."""
OFFLINE: Final[Mapping[str, RunLength]] = {
    "normal": RunLength(queries=24_576),
    "quick": RunLength(queries=2_457),
    "rapid": RunLength(queries=64),
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
    rules = rules_of(job.workload, job.knobs)
    length = run_length(job.scenario, str(job.knobs["length"]), lengths, rules)
    names = ("samples_per_query", "target_qps", "target_latency_ms")
    audit = audit_of(job.knobs)
    return {
        "scenario": job.scenario,
        "mode": mode,
        "min_query_count": length.queries,
        "min_duration_ms": round(length.least_ms),
        "max_duration_ms": round(length.most_ms) if mode == "performance" else 0,
        "sampling_s": SAMPLING_S,
        "rest_s": load_policy(str(job.knobs["policy"])).rest_s,
        **{name: job.knobs[name] for name in names if name in job.knobs},
        **({AUDIT: audit} if audit else {}),
        **_seeds(rules),
    }


def _seeds(rules: SuiteRules | None) -> Mapping[str, int]:
    """Return the seeds of a round; none: LoadGen's own."""
    if rules is None or rules.seeds is None:
        return {}
    return {f"{name}_rng_seed": seed for name, seed in rules.seeds.model_dump().items()}


def repeats(job: Job, samples: int, held: int) -> int:
    """Return how many samples LoadGen asks for again to fill the queries of an accuracy run.

    It asks for all that are held in memory, then for the next ones.

    held: most samples in memory.
    """
    if job.scenario != "multi_stream" or not held:
        return 0
    at_once = int(job.knobs["samples_per_query"])
    full, rest = divmod(samples, held)
    return full * (-held % at_once) + -rest % at_once


def run_length(
    scenario: str, name: str, lengths: RunLengths, rules: SuiteRules | None = None
) -> RunLength:
    """Return how long a run is, by the rules of its suite's version if it has one."""
    length = _app_length(scenario, name, lengths)
    if rules is None:
        return length
    if name == "normal":
        length = next((of for asked, of in rules.scenarios.items() if asked == scenario), length)
    return length if rules.ends_runs else length.model_copy(update={"most_seconds": None})


def _app_length(scenario: str, name: str, lengths: RunLengths) -> RunLength:
    """Return a length as the suite's app has it."""
    if scenario == "offline":
        return OFFLINE[name]
    length = lengths.of(name)
    if scenario == "single_stream":
        return length
    # The app, which has neither scenario, ends no run of other scenarios early.
    return RunLength(queries=max(length.queries, ESTIMABLE), seconds=length.seconds)
