"""What times and accuracies of an audit's runs show: in words, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from controller.contracts.audit import (
    LATENCY,
    OWN_VALIDITY,
    SCORED,
    AuditCheck,
    AuditFinding,
    AuditVerdict,
)
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.units import Unit
from controller.loadgen.audit_verdicts import findings_of, passes
from controller.stats.across_runs import between, share_interval
from controller.stats.order_statistics import quantile_bounds
from tests.support.audits import original_result, try_result

CACHE, COLD, RANDOM = AuditCheck.CACHE, AuditCheck.COLD_START, AuditCheck.RANDOM_DATA
PASSES, REFUSED = AuditVerdict.PASSES, AuditVerdict.REFUSED
UNRESOLVED, UNCHECKED = AuditVerdict.UNRESOLVED, AuditVerdict.UNCHECKED
GENERATOR = np.random.default_rng(27)


def noisy(pattern: Sequence[float], count: int, noise: float = 0.02) -> list[float]:
    """Return `count` times of a pattern, in ms, that repeats."""
    factors = np.exp(GENERATOR.normal(0, noise, count))
    return [pattern[n % len(pattern)] * float(factors[n]) / 1e3 for n in range(count)]


def tried(
    check: AuditCheck, times: Sequence[float], top1: float | None = None, **facts: int
) -> StoredResult:
    metrics = {LATENCY: Measurement.of_samples(tuple(times), Unit.SECONDS)}
    if top1 is not None:
        metrics["top1"] = Measurement(value=top1, unit=Unit.FRACTION)
    said: Environment = dict(facts)
    return try_result(check, metrics, said)


def by_name(found: Sequence[AuditFinding]) -> dict[str, AuditFinding]:
    return {finding.name: finding for finding in found}


@pytest.mark.parametrize(
    ("check", "pattern", "verdict", "words"),
    [
        (CACHE, (1, 1, 1, 1), PASSES, "passes: repeated samples are answered"),
        (CACHE, (1, 0.1, 0.1, 0.1), REFUSED, "refused: answers are cached: repeated samples"),
        (CACHE, (1, 1, 1, 0.5), REFUSED, "refused: answers are cached: repeated samples"),
        (CACHE, (1, 1, 1, 1 / 1.05), PASSES, "passes: repeated samples"),
        (CACHE, (1, 1.5, 1.5, 1.5), PASSES, "passes: repeated samples"),
        (RANDOM, (1, 1), PASSES, "passes: random samples take"),
        (RANDOM, (1, 1.2), REFUSED, "refused: only known samples are fast: random"),
        (RANDOM, (1, 0.7), PASSES, "passes: random samples take 0.7"),
        (COLD, (1,), PASSES, "passes: nine in ten of all answers keep 1.0"),
    ],
)  # fmt: skip
def test_a_ratio_is_judged_by_its_interval(
    check: AuditCheck, pattern: Sequence[float], verdict: AuditVerdict, words: str
) -> None:
    found = findings_of(check, original_result(), [tried(check, noisy(pattern, 400))])[0]
    assert found.verdict is verdict, found.why
    assert found.why.startswith(words)
    assert None not in (found.low, found.value, found.high)
    assert sorted(filter(None, (found.low, found.value, found.high)))[1] == found.value
    ends = f"{found.low:.2f}, {found.high:.2f}"
    assert f"95 % [{ends}]; limit {found.limit:.2f}" in found.why


def test_slow_answers_at_the_beginning_are_named_if_they_are_more_than_a_tenth() -> None:
    steady = noisy((1,), 400)
    slow = [time * 3 for time in steady[:60]] + steady[60:]
    found = findings_of(COLD, original_result(), [tried(COLD, slow)])[0]
    assert found.verdict is REFUSED
    assert found.why.startswith("refused: the speed is reached warm only: ")
    few = [time * 30 for time in steady[:5]] + steady[5:]
    found = findings_of(COLD, original_result(), [tried(COLD, few)])[0]
    assert found.verdict is PASSES, found.why
    assert "the first takes 3" in found.why


def test_a_wide_interval_resolves_nothing_and_says_how_wide() -> None:
    uneven = noisy((1.3, 1, 1, 1, 0.8, 1, 1, 1), 160, 0.0)
    found = findings_of(CACHE, original_result(), [tried(CACHE, uneven)])[0]
    assert found.verdict is UNRESOLVED
    assert found.why.startswith("not resolved: ±")
    assert " %: repeated samples are answered" in found.why


@pytest.mark.parametrize("count", [2, 8, 20])
def test_too_few_answers_resolve_nothing(count: int) -> None:
    for check in AuditCheck:
        found = findings_of(check, original_result(), [tried(check, noisy((1, 9), count))])[0]
        if check is RANDOM and count == 20:
            assert found.verdict is REFUSED
        else:
            assert found.verdict is UNRESOLVED, found.why


def test_nothing_timed_is_not_resolved() -> None:
    assert [f.verdict for f in findings_of(CACHE, original_result(), [])] == [UNRESOLVED]
    empty = tried(CACHE, [1.0])
    assert [f.verdict for f in findings_of(CACHE, original_result(), [empty])] == [UNRESOLVED]


def test_several_tries_are_draws_of_their_own() -> None:
    """One try in which all is cached does not hide between two in which nothing is."""
    honest, cached = noisy((1,) * 4, 400), noisy((1, 0.2, 0.2, 0.2), 400)
    tries = [tried(CACHE, times) for times in (honest, cached, honest)]
    assert findings_of(CACHE, original_result(), tries)[0].verdict is UNRESOLVED
    tries = [tried(CACHE, noisy((1, 0.2, 0.2, 0.2), 400)) for _ in range(3)]
    assert findings_of(CACHE, original_result(), tries)[0].verdict is REFUSED
    tries = [tried(CACHE, noisy((1,) * 4, 400)) for _ in range(3)]
    assert findings_of(CACHE, original_result(), tries)[0].verdict is PASSES


def test_a_cache_by_address_is_seen_where_memory_is_fresh() -> None:
    """Its first 40 groups are the only ones in which an address is new."""
    times = noisy((1, 0.1, 0.1, 0.1), 160) + noisy((0.1,) * 4, 640)
    found = findings_of(CACHE, original_result(), [tried(CACHE, times, performance_samples=40)])[0]
    assert found.verdict is REFUSED, found.why


def test_honest_systems_are_refused_in_at_most_one_of_forty_drawn_audits() -> None:
    refused = 0
    for _ in range(200):
        noise = float(GENERATOR.uniform(0.01, 0.3))
        for check in AuditCheck:
            found = findings_of(check, original_result(), [tried(check, noisy((1,), 128, noise))])
            refused += found[0].verdict is REFUSED
    assert refused <= 600 / 40


class TestClaim:
    def claim(self, check: AuditCheck, *ms: float, scenario: str = "single_stream") -> AuditFinding:
        tries = [tried(check, noisy((each,), 200, noise=0.001)) for each in ms]
        return by_name(findings_of(check, original_result(scenario), tries))["claim"]

    @pytest.mark.parametrize("check", AuditCheck)
    @pytest.mark.parametrize("scenario", ["single_stream", "offline"])
    def test_ordinary_answers_are_compared_with_the_original(
        self, check: AuditCheck, scenario: str
    ) -> None:
        assert self.claim(check, 1.0, 1.01, 0.99, scenario=scenario).verdict is PASSES
        refused = self.claim(check, 9.0, 9.1, 9.2, scenario=scenario)
        assert refused.verdict is REFUSED
        assert refused.why.startswith("refused: the original's speed is not reached again: ")

    @pytest.mark.parametrize(
        ("ms", "disturbed", "verdict", "why"),
        [
            ((9.0, 9.1, 9.2), 1, REFUSED, "refused: the original's speed is not reached again"),
            (
                *((9.0, 9.1, 9.2), 2, UNRESOLVED),
                "not resolved, since 2 of 3 tries were disturbed: answers take 9.1",
            ),
            ((9.0, 1.0, 1.0), 1, PASSES, "passes: answers take 1.0"),
            ((1.0, 1.0, 1.01), 3, PASSES, "passes: answers take 1.0"),
        ],
    )
    def test_what_disturbed_a_try_is_no_fault(
        self, ms: Sequence[float], disturbed: int, verdict: AuditVerdict, why: str
    ) -> None:
        facts = {OWN_VALIDITY: str(Validity.DISTURBED)}
        tries = [tried(CACHE, noisy((each,), 200, noise=0.001)) for each in ms]
        tries[:disturbed] = [t.model_copy(update={"environment": facts}) for t in tries[:disturbed]]
        found = by_name(findings_of(CACHE, original_result(), tries))["claim"]
        assert found.verdict is verdict
        assert found.why.startswith(why)

    def test_a_tail_is_slower_than_the_claimed_percentile(self) -> None:
        """Every fifth ordinary answer takes three times as long; the median is the original's."""
        pattern = (1, 1) * 4 + (3, 3)
        tries = [tried(RANDOM, noisy(pattern, 400, noise=0.001)) for _ in range(3)]
        found = by_name(findings_of(RANDOM, original_result(), tries))["claim"]
        assert found.verdict is REFUSED, found.why
        assert "answers take 3.00×" in found.why

    @pytest.mark.parametrize("scenario", ["single_stream", "offline"])
    @pytest.mark.parametrize(("reached", "verdict"), [(0.951, PASSES), (0.949, REFUSED)])
    def test_95_percent_of_the_claim_is_enough(
        self, reached: float, verdict: AuditVerdict, scenario: str
    ) -> None:
        tries = [tried(RANDOM, [0.001 / reached] * 400)] * 3
        found = by_name(findings_of(RANDOM, original_result(scenario), tries))["claim"]
        assert found.verdict is verdict, found.why

    def test_one_try_resolves_no_claim(self) -> None:
        assert self.claim(CACHE, 1.0).verdict is UNRESOLVED

    @pytest.mark.parametrize("scenario", ["server", "multi_stream"])
    def test_where_a_result_tells_no_time_of_an_answer_it_is_said(self, scenario: str) -> None:
        found = self.claim(CACHE, 1.0, 1.0, scenario=scenario)
        assert found.verdict is UNCHECKED
        assert found.why.startswith(f"cannot be checked: under {scenario}")


class TestAccuracy:
    def accuracy(
        self, claimed: float | None, on_random: float | None, samples: int
    ) -> AuditFinding:
        tries = [tried(RANDOM, noisy((1,), 100), on_random, **{SCORED: samples})]
        return by_name(findings_of(RANDOM, original_result(top1=claimed), tries))["accuracy"]

    @pytest.mark.parametrize(
        ("claimed", "on_random", "samples", "verdict"),
        [
            (0.9, 0.1, 100, PASSES),
            (0.9, 0.9, 100, REFUSED),
            (0.9, 0.5, 1000, PASSES),
            (0.9, 0.9, 10, UNRESOLVED),
            (0.9, 0.1, 10, PASSES),
            (0.9, None, 10, UNCHECKED),
            (None, None, 10, UNCHECKED),
        ],
    )
    def test_it_is_lost_on_random_samples(
        self, claimed: float | None, on_random: float | None, samples: int, verdict: AuditVerdict
    ) -> None:
        found = self.accuracy(claimed, on_random, samples)
        assert found.verdict is verdict, found.why
        assert found.why.startswith(str(verdict))


def test_an_audit_passes_if_something_was_checked_and_nothing_is_open() -> None:
    def of(*verdicts: AuditVerdict) -> bool:
        return passes([AuditFinding(name="a", verdict=v, why="") for v in verdicts])

    assert [of(PASSES), of(PASSES, UNCHECKED)] == [True, True]
    assert [of(), of(UNCHECKED), of(PASSES, UNRESOLVED), of(PASSES, REFUSED)] == [False] * 4


def test_the_interval_of_a_quantile_holds_it_as_often_as_it_says() -> None:
    for count, share in ((64, 0.8), (200, 0.9)):
        truth = -np.log(1 - share)
        held = 0
        for _ in range(2000):
            _, low, high = quantile_bounds(list(GENERATOR.exponential(1, count)), share, 0.025)
            held += bool(low <= truth <= high)
        assert held / 2000 >= 0.94


def test_a_quantile_that_too_few_samples_bound_has_no_bound() -> None:
    assert quantile_bounds([1.0, 2.0, 3.0], 0.9, 0.025)[2] == np.inf
    assert quantile_bounds([1.0, 2.0], 0.5, 0.025)[1] == 0.0
    with pytest.raises(ValueError, match="no sample"):
        quantile_bounds([], 0.5, 0.025)


def test_intervals_between_runs_and_of_shares() -> None:
    assert between([2.0])[1:] == (0.0, np.inf)
    value, low, high = between([2.0, 2.1, 1.9])
    assert 1.5 < low < value < high
    assert share_interval(0.5, 0) == (0.5, 0.5, 0.5)
    assert share_interval(0.9, 10) == pytest.approx((0.9, 0.5958, 0.9821), abs=1e-3)
