"""The result of a paired comparison: one Result for both sides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Final

from agents.pairing.interleave import ComparisonState
from controller.contracts.pair import Pair
from controller.contracts.result import Environment, Measurement, Result, Validity, worst
from controller.contracts.units import Unit
from controller.stats.pairs import MIN_PAIRS, times_better

PAIRED: Final = "a paired comparison"
"""The run rule that no comparison meets: two systems take turns on one device."""
_RULES: Final[Environment] = {"meets_run_rules": False, "run_rules_missed": (PAIRED,)}
REST_BOUND = 0.02
"""CPU time, as a share of one core, that a side may use while the other is timed."""


def paired_result(
    metric: str,
    a: Result,
    b: Result,
    state: ComparisonState,
    rest_cpu_s: tuple[float | None, float | None],
    setup_s: float,
) -> Result:
    """Return the result of a comparison; INVALID if either side is, or for reasons of its own.

    DISTURBED if a side is: both were measured in turns on a machine that was not quiet.

    rest_cpu_s: CPU seconds of A and B while the other side ran, see MeasuredSide.
    setup_s: seconds until both sides were ready.
    """
    unit = a.metrics[metric].unit
    a_share = _rest_share(rest_cpu_s[0], [pair.b for pair in state.pairs])
    b_share = _rest_share(rest_cpu_s[1], [pair.a for pair in state.pairs])
    own = (*_restless("A", a_share), *_restless("B", b_share), *_too_few(state, setup_s))
    return Result(
        validity=Validity.INVALID if own else worst((a.validity, b.validity)),
        reasons=(
            *(f"side A: {reason}" for reason in a.reasons),
            *(f"side B: {reason}" for reason in b.reasons),
            *own,
        ),
        metrics={
            **_ratio(state, unit),
            **_sides(metric, unit, state),
            **_named(a, "a", metric),
            **_named(b, "b", metric),
        },
        environment={
            **by_no_rules(both(a.environment, b.environment)),
            "pairs": state.ratio.pairs,
            "warmup_pairs": state.ratio.warmup_pairs,
            "setup_s": round(setup_s, 3),
            "compared_s": round(state.elapsed_s, 3),
            "a.rest_cpu_share": a_share,
            "b.rest_cpu_share": b_share,
        },
        artefacts={
            f"{side}_{name}": path
            for side, result in (("a", a), ("b", b))
            for name, path in result.artefacts.items()
        },
        pairs=state.pairs,
    )


def both(a: Environment, b: Environment) -> Environment:
    """Return the facts of both sides: once if equal, else as `a.name` and `b.name`."""
    facts: Environment = {}
    for name in {**a, **b}:
        if name in a and name in b and a[name] == b[name]:
            facts[name] = a[name]
        else:
            facts |= {f"{side}.{name}": of[name] for side, of in (("a", a), ("b", b)) if name in of}
    return facts


def by_no_rules(said: Environment) -> Environment:
    """Return the facts of a comparison, judged as one where its sides were judged, each alone."""
    kept = {name: fact for name, fact in said.items() if name.partition(".")[2] not in _RULES}
    return {**kept, **_RULES} if any(rule in said for rule in _sided(_RULES)) else kept


def _sided(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from (name, f"a.{name}", f"b.{name}")


def _ratio(state: ComparisonState, unit: Unit) -> dict[str, Measurement]:
    found = times_better(state.ratio, unit)
    each = [median(pair.b) / median(pair.a) for pair in _steady(state)]
    better = tuple(1 / r if unit.lower_is_better else r for r in each)
    metrics = {"ratio": Measurement(value=found.value, unit=Unit.RATIO, samples=better)}
    if found.bounded:
        metrics["ratio_low"] = Measurement(value=found.low, unit=Unit.RATIO)
        metrics["ratio_high"] = Measurement(value=found.high, unit=Unit.RATIO)
    return metrics


def _sides(metric: str, unit: Unit, state: ComparisonState) -> dict[str, Measurement]:
    """Return the compared metric of both sides, from all samples of the steady pairs."""
    steady = _steady(state)
    samples = {
        "a": tuple(sample for pair in steady for sample in pair.a),
        "b": tuple(sample for pair in steady for sample in pair.b),
    }
    return {f"{metric}_{s}": Measurement.of_samples(found, unit) for s, found in samples.items()}


def _named(result: Result, side: str, metric: str) -> dict[str, Measurement]:
    others = {name: m for name, m in result.metrics.items() if name != metric}
    return {f"{name}_{side}": m.model_copy(update={"samples": ()}) for name, m in others.items()}


def _steady(state: ComparisonState) -> Sequence[Pair]:
    return state.pairs[state.ratio.warmup_pairs :]


def _rest_share(cpu_s: float | None, others: Sequence[tuple[float, ...]]) -> float | None:
    """Return the share of a core that a side used during the other side's batches."""
    if cpu_s is None:
        return None
    return round(cpu_s / sum(seconds for batch in others for seconds in batch), 4)


def _restless(name: str, share: float | None) -> list[str]:
    if share is None or share <= REST_BOUND:
        return []
    used = f"side {name} used {share:.1%} of a core while the other was timed"
    return [f"{used}, more than {REST_BOUND:.0%}: its threads do not sleep between batches"]


def _too_few(state: ComparisonState, setup_s: float) -> list[str]:
    if state.ratio.bounded:
        return []
    found = f"{state.ratio.pairs} steady pairs in {state.elapsed_s:.0f} s"
    before = f"after {setup_s:.0f} s in which both sides started"
    needs = f"an interval takes {MIN_PAIRS}, about {time_needed_s(state, setup_s):.0f} s in all"
    return [f"{found}, {before}: {needs}. Raise the time limit."]


def time_needed_s(state: ComparisonState, setup_s: float) -> float:
    """Return about how long the fewest pairs of an interval would have taken, set-up included."""
    return setup_s + state.elapsed_s + (MIN_PAIRS - state.ratio.pairs) * state.next_pair_s
