"""A test's settings against the rules of a round of MLPerf Mobile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller.contracts.mobile import RunLength
from controller.contracts.suite_rules import SuiteRules, TaskRules, load_suites
from controller.loadgen.checks import Check, at_least, equal, judged, unchecked
from controller.loadgen.logs import ended_at_longest
from controller.loadgen.run_logs import SCENARIOS, RunLogs

SEEDS: Final = ("qsl", "sample_index", "schedule")


def seed_key(name: str) -> str:
    """Return the key of a seed's value in the detail log."""
    return f"effective_{name}_rng_seed"


def rule_checks(run: RunLogs, rules: SuiteRules, task: str | None) -> Iterator[Check]:
    """Yield the checks of seeds, lengths and samples.

    task: its rules count, too. None: not known.
    """
    yield from _seeds(run, rules)
    scenario = SCENARIOS[run.scenario]
    asked = {str(name): length for name, length in rules.scenarios.items()}
    of_task = rules.tasks.get(task) if task else None
    allowed = sorted(of_task.scenarios if of_task else asked)
    same = scenario in allowed
    by = rules.title
    yield judged("effective_scenario", scenario, " or ".join(allowed), by, same=same)
    if not run.is_performance:
        if of_task:
            yield from _whole_set(run, of_task, by)
        return
    if same:
        length = asked[scenario]
        least = (of_task.queries if of_task else None) or length.queries
        yield from _length(run, least, length, by)
    if of_task:
        yield _drawn(run, of_task, by)


def _whole_set(run: RunLogs, of_task: TaskRules, by: str) -> Iterator[Check]:
    """Yield the checks that an accuracy run had all samples of a set that counts."""
    counted = [*of_task.datasets.values()]
    expected = " or ".join(map(str, counted))
    for key in ("qsl_reported_total_count", "effective_accuracy_sample_count"):
        said = run.count(key)
        if said is not None:
            yield judged(key, said, expected, by, same=said in counted)
        elif key == "qsl_reported_total_count":
            yield unchecked(key, None, "the logs do not have it")


def _drawn(run: RunLogs, of_task: TaskRules, by: str) -> Check:
    """Return the check of how many samples a performance run drew from.

    They may be a part of the set that counts (rules 4.0, Data Sets), and no fewer than the rules
    print. The published logs of v4.0 draw from 100 or 300; their count of performance samples is
    what memory holds, which may be more.
    """
    key, counted = "effective_performance_sample_count", [*of_task.datasets.values()]
    said, total = run.count(key), run.count("qsl_reported_total_count")
    if said is None:
        return unchecked(key, None, "the logs do not have it")
    size = total if total in counted else max(counted)
    least = min(of_task.performance_samples, size)
    drawn, shown = said, str(said)
    if total is not None and total < said:
        drawn, shown = total, f"{said}, of a set of {total}"
    return judged(key, shown, f"at least {least}", by, same=drawn >= least)


def _seeds(run: RunLogs, rules: SuiteRules) -> Iterator[Check]:
    for name in SEEDS:
        said = run.count(seed_key(name))
        if rules.seeds is None:
            yield unchecked(seed_key(name), said, f"the seeds of {rules.title} are not known")
        else:
            yield equal(seed_key(name), said, getattr(rules.seeds, name), rules.title)


def _length(run: RunLogs, least: int, length: RunLength, by: str) -> Iterator[Check]:
    counted = "min_sample_count" if run.scenario == "Offline" else "min_query_count"
    for key, value in (
        (f"effective_{counted}", least),
        ("effective_min_duration_ms", length.least_ms),
    ):
        said = run.count(key)
        if said is None:
            yield unchecked(key, None, "the logs do not have it")
        else:
            yield at_least(key, said, value, by)
    longest = run.count("effective_max_duration_ms")
    if longest is None:
        yield unchecked("effective_max_duration_ms", None, "the logs do not have it")
    else:
        most, same = int(length.most_ms), not length.ends_too_soon(longest)
        allowed = f"at least {most}, or 0 for any" if most else "0"
        yield judged("effective_max_duration_ms", longest, allowed, by, same=same)
    queries = run.count("result_query_count")
    if run.scenario != "Offline" and queries is not None and run.detail.has_results:
        enough = 1 if ended_at_longest(run.detail.log) else least
        yield at_least("result_query_count", queries, enough, by)


def round_of(run: RunLogs, suites: Sequence[SuiteRules] | None = None) -> Check:
    """Return which round's seeds these are; it differs if only some of them are one round's."""
    said = {name: run.count(seed_key(name)) for name in SEEDS}
    shown = ", ".join(str(value) for value in said.values())
    known = [of for of in (load_suites() if suites is None else suites) if of.seeds]
    rules = max(known, key=lambda of: _hits(said, of), default=None)
    hits = _hits(said, rules) if rules else 0
    if rules is None or not hits:
        return unchecked("seeds", shown, "they are those of no known round of MLPerf Mobile")
    if hits == len(SEEDS):
        by = "the seeds of all known rounds"
        return judged("seeds", shown, f"those of {rules.title}", by, same=True)
    odd = next(name for name in SEEDS if said[name] != getattr(rules.seeds, name))
    by = f"{rules.title}, of which the other seeds are"
    return equal(seed_key(odd), said[odd], getattr(rules.seeds, odd), by)


def _hits(said: Mapping[str, int | None], rules: SuiteRules) -> int:
    return sum(said[name] == getattr(rules.seeds, name) for name in SEEDS)
