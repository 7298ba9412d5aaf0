"""What the runs of an audit show, from the times of their answers and their accuracy. Pure.

What is compared lies within one run, alternating, so that neither heat nor other load is taken for
a difference. See docs/checking-results.md for the limits and where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from controller.contracts.audit import (
    LATENCY,
    OWN_VALIDITY,
    SCORED,
    AuditCheck,
    AuditFinding,
    AuditVerdict,
)
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.contracts.units import Unit
from controller.loadgen.audit_pattern import REPEATS
from controller.stats.across_runs import (
    Interval,
    between,
    combined,
    median_ratio,
    share_interval,
)
from controller.stats.order_statistics import quantile_bounds
from controller.stats.pairs import CONFIDENCE

CACHED: Final = 1.10
"""Most that repeated samples may be faster (TEST04 of MLPerf Inference's compliance tests)."""
SLOWER: Final = 1 / 0.95
"""Most that answers may take longer: an audit of MLPerf Mobile has to reach 95 % of a claim."""
CLAIMED_SHARE: Final = 0.9
"""Quantile of its answers' times that a result of single_stream claims."""
KEPT: Final = 0.75
"""Share of its accuracy that a model may keep on random samples: with two classes, chance is half.
"""
FEWEST: Final = 6
"""Fewest ratios whose median has a 95 % interval."""
FEWEST_TRIES: Final = 2
"""Fewest tries that resolve a claim, which lies between runs."""
FRESH: Final = 32
"""From so many groups in memory that was never used before, later ones are left out."""
COLD_SHARES: Final = (0.9, 0.8)
"""Quantiles of a cold start; the second if so few answers bound no first."""
ACCURACIES: Final = ("top1", "mAP", "mIoU", "F1", "PSNR")
"""Metrics of accuracy; a task has one of them."""
SLOWER_THAN_CLAIMED: Final = "the original's speed is not reached again"
Series = Sequence[float]
"""Seconds an answer, in the order of the audit's pattern."""


@dataclass(frozen=True, slots=True)
class Words:
    """How a ratio is said, and what it shows if it is beyond its limit."""

    name: str
    limit: float
    says: Callable[[float], str]
    beyond: str


def findings_of(
    check: AuditCheck, original: StoredResult, tries: Sequence[StoredResult]
) -> tuple[AuditFinding, ...]:
    """Return what the tries of an audit show of a result."""
    timed = [result for result in tries if len(times_of(result)) > 1]
    series = [times_of(result) for result in timed]
    if not series:
        why = "not resolved: no try has timed answers yet"
        return (AuditFinding(name=str(check), verdict=AuditVerdict.UNRESOLVED, why=why),)
    match check:
        case AuditCheck.CACHE:
            speed = cache(series, [groups_in_fresh_memory(result) for result in timed])
        case AuditCheck.COLD_START:
            speed = cold_start(series)
        case AuditCheck.RANDOM_DATA:
            speed = random_data(series)
    found = (speed, undisturbed_claim(check, original, timed))
    return (*found, accuracy(original, tries)) if check is AuditCheck.RANDOM_DATA else found


def passes(findings: Iterable[AuditFinding]) -> bool:
    """Return whether nothing was refused or left unresolved, and something was checked."""
    verdicts = {finding.verdict for finding in findings} - {AuditVerdict.UNCHECKED}
    return verdicts == {AuditVerdict.PASSES}


def times_of(result: StoredResult) -> Series:
    """Return the seconds of a run's answers; none if it has none."""
    measured = result.metrics.get(LATENCY)
    return measured.samples if measured else ()


def groups_in_fresh_memory(result: StoredResult) -> int:
    """Return how many groups of a cache's audit had samples in memory that was never used before.

    A cache that goes by addresses is filled from then on, whatever lies there.
    """
    held = result.environment.get("performance_samples")
    at_once = result.environment.get("samples_at_once")
    if not isinstance(held, int):
        return 0
    return held // at_once if isinstance(at_once, int) and at_once else held


def cache(series: Sequence[Series], fresh: Sequence[int]) -> AuditFinding:
    """Return whether samples are answered faster when they were answered before.

    fresh: see groups_in_fresh_memory, of each run.
    """
    logs = []
    for times, most in zip(series, fresh, strict=True):
        pairs = list(zip(times[::REPEATS], times[REPEATS - 1 :: REPEATS], strict=False))
        logs.append(_logs(pairs[:most] if most >= FRESH else pairs))
    words = Words(
        "cache",
        CACHED,
        lambda ratio: f"repeated samples are answered {ratio:.2f}× as fast as new ones",
        "answers are cached",
    )
    return judged(words, median_ratio(logs), sum(map(len, logs)))


def random_data(series: Sequence[Series]) -> AuditFinding:
    """Return whether random samples take longer than those of the data set."""
    logs = [_logs(zip(times[1::2], times[::2], strict=False)) for times in series]
    words = Words(
        "speed",
        SLOWER,
        lambda ratio: f"random samples take {ratio:.2f}× as long as the run's own",
        "only known samples are fast",
    )
    return judged(words, median_ratio(logs), sum(map(len, logs)))


def cold_start(series: Sequence[Series]) -> AuditFinding:
    """Return whether answers of a process that has not warmed up are slower than its later ones.

    A slow first answer alone is no fault: rules allow a warm-up. What counts is the time that nine
    in ten of all answers keep, beside that of the run's second half.
    """
    first = median(times[0] / median(later_half(times)) for times in series)

    def says(ratio: float) -> str:
        kept = f"nine in ten of all answers keep {ratio:.2f}× the time of the later half"
        return f"{kept}, the first takes {first:.1f}×"

    words = Words("cold start", SLOWER, says, "the speed is reached warm only")
    return judged(words, combined([_cold(times) for times in series]), sum(map(len, series)))


def _cold(times: Series) -> Interval:
    """Return the ratio of a quantile of all answers to that of the second half."""
    chance = (1 - CONFIDENCE) / 4  # beyond each of four bounds
    for share in COLD_SHARES:
        later = quantile_bounds(later_half(times), share, chance)
        if math.isfinite(later[2]):
            break
    whole = quantile_bounds(times, share, chance)
    return whole[0] / later[0], whole[1] / later[2], whole[2] / later[1] if later[1] else math.inf


def later_half(times: Series) -> Series:
    """Return the second half of a run."""
    return times[len(times) // 2 :]


def claim(check: AuditCheck, original: StoredResult, series: Sequence[Series]) -> AuditFinding:
    """Return whether the audit's ordinary answers take longer than the original claims.

    So a system that is slower under any audit is found, however it notices one. The claim is what
    ranks the scenario: the 90th percentile of single_stream, the rate of offline.
    """
    name, claimed = "claim", claimed_s(original)
    if claimed is None:
        why = f"under {original.scenario} a result does not tell the time of one answer"
        why = f"cannot be checked: {why}"
        return AuditFinding(name=name, verdict=AuditVerdict.UNCHECKED, why=why)
    reached = fmean if original.scenario == "offline" else _claimed_quantile
    ratios = [reached(ordinary(check, times)) / claimed for times in series]
    words = Words(
        name,
        SLOWER,
        lambda ratio: f"answers take {ratio:.2f}× as long as the original's",
        SLOWER_THAN_CLAIMED,
    )
    return judged(words, between(ratios), len(ratios), fewest=FEWEST_TRIES)


def undisturbed_claim(
    check: AuditCheck, original: StoredResult, tries: Sequence[StoredResult]
) -> AuditFinding:
    """Return the finding on the claim, of the tries that nothing disturbed, if these are enough.

    If they are not, what disturbed the others may be why they are slower, and accuses nobody.
    """
    calm = [r for r in tries if r.environment.get(OWN_VALIDITY) != Validity.DISTURBED]
    is_enough = len(calm) >= FEWEST_TRIES
    finding = claim(check, original, [times_of(r) for r in (calm if is_enough else tries)])
    if is_enough or len(calm) == len(tries) or finding.verdict is not AuditVerdict.REFUSED:
        return finding
    lead = f"not resolved, since {len(tries) - len(calm)} of {len(tries)} tries were disturbed"
    said = finding.why.removeprefix(f"refused: {SLOWER_THAN_CLAIMED}: ")
    unresolved = AuditVerdict.UNRESOLVED
    return finding.model_copy(update={"verdict": unresolved, "why": f"{lead}: {said}"})


def _claimed_quantile(times: Series) -> float:
    """Return the quantile that a result of single_stream claims."""
    return quantile_bounds(times, CLAIMED_SHARE, (1 - CONFIDENCE) / 2)[0]


def claimed_s(original: StoredResult) -> float | None:
    """Return the seconds an answer that a result claims; None if it does not tell."""
    name = {"single_stream": "latency_p90", "offline": "throughput"}.get(original.scenario, "")
    measured = original.metrics.get(name)
    if measured is None or measured.value <= 0:
        return None
    return 1 / measured.value if name == "throughput" else measured.value


def ordinary(check: AuditCheck, times: Series) -> Series:
    """Return the times of the answers that are like those of an ordinary run."""
    match check:
        case AuditCheck.CACHE:
            return times[::REPEATS]
        case AuditCheck.COLD_START:
            return later_half(times)
        case AuditCheck.RANDOM_DATA:
            return times[::2]


def accuracy(original: StoredResult, tries: Sequence[StoredResult]) -> AuditFinding:
    """Return whether the accuracy is lost on random samples, as it is if it is measured on them."""
    name = next((name for name in ACCURACIES if name in original.metrics), "")
    scored = [result for result in tries if name in result.metrics]
    if not scored:
        why = f"cannot be checked: {'no try measures' if name else 'the original has'} no accuracy"
        return AuditFinding(name="accuracy", verdict=AuditVerdict.UNCHECKED, why=why)
    claimed = original.metrics[name]
    mean = fmean(result.metrics[name].value for result in scored)
    counts = [result.environment.get(SCORED) for result in scored]
    count = sum(each for each in counts if isinstance(each, int))
    # Of decibels no interval is known; they are taken as they are.
    value, low, high = share_interval(mean, count if claimed.unit is Unit.FRACTION else 0)
    limit = KEPT * claimed.value
    verdict = _verdict(low, high, limit)
    lead = {
        AuditVerdict.PASSES: "passes",
        AuditVerdict.REFUSED: "refused: accuracy is not measured on the data",
    }.get(verdict, f"not resolved: ±{(high - low) / 2:.3g}")
    said = f"{name} is {value:.3g} on random samples, {claimed.value:.3g} on the data set"
    why = f"{lead}: {said}, 95 % [{low:.3g}, {high:.3g}]; limit {limit:.3g}"
    ends = {"low": low, "high": high, "limit": limit}
    return AuditFinding(name="accuracy", verdict=verdict, why=why, value=value, **ends)


def judged(words: Words, ratio: Interval, count: int, fewest: int = FEWEST) -> AuditFinding:
    """Return the finding on a ratio that may not exceed its limit; count: what it is made from."""
    value, low, high = ratio
    if count < fewest or not low or math.isinf(high):
        why = f"not resolved: {count} of at least {fewest} values bound nothing"
        if count >= fewest:
            why = "not resolved: too few values to bound it"
        unresolved = AuditVerdict.UNRESOLVED
        why = f"{why}: {words.says(value)}; limit {words.limit:.2f}"
        return AuditFinding(
            name=words.name, verdict=unresolved, why=why, value=value, limit=words.limit
        )
    verdict = _verdict(low, high, words.limit)
    lead = {
        AuditVerdict.PASSES: "passes",
        AuditVerdict.REFUSED: f"refused: {words.beyond}",
    }.get(verdict, f"not resolved: ±{(math.sqrt(high / low) - 1) * 100:.1f} %")
    why = f"{lead}: {words.says(value)}, 95 % [{low:.2f}, {high:.2f}]; limit {words.limit:.2f}"
    ends = {"low": low, "high": high, "limit": words.limit}
    return AuditFinding(name=words.name, verdict=verdict, why=why, value=value, **ends)


def _verdict(low: float, high: float, limit: float) -> AuditVerdict:
    if low > limit:
        return AuditVerdict.REFUSED
    return AuditVerdict.PASSES if high <= limit else AuditVerdict.UNRESOLVED


def _logs(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """Return the logarithm of over / under of each pair whose times were measured."""
    return [math.log(over / under) for over, under in pairs if over > 0 and under > 0]
