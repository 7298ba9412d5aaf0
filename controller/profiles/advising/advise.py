"""All advice that a profile gives: the rules, and the seconds that each is granted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.advice import Advice, Advised, Remedy
from controller.contracts.proof import Prediction
from controller.profiles.advising import fusing, products, running, units, work
from controller.profiles.advising.claims import Claim, Seen
from controller.profiles.model import Profile
from controller.profiles.step_time import step_time

RULES: tuple[Callable[[Seen], Claim | None], ...] = (
    *(work.layout, work.packed, work.unpacked, work.reorders),
    *(work.fallback, work.precision, work.frozen),
    *(units.hidden_isa, units.amx_unused, units.denormals),
    *(fusing.norms, fusing.relu, fusing.other_relu, fusing.optimizer, fusing.loss),
    *(products.tiny, products.other_tiny, products.direct),
    *(running.malloc, running.page_faults, running.fragmentation, running.threads),
    *(running.idle_threads, running.waiting, running.loading),
)
LEAST_SHARE = 0.01
"""Share of the step, with its loading, below which what all rules predict a change to save is not
advised."""


def advise(profile: Profile) -> Advised:
    """Return what a profile advises, that which is predicted to save most first.

    Of several rules, the one that saves most is granted its seconds, and the others a share of what
    remains of the same parts: all advice together never saves more than the step.
    """
    found = _claimed(profile)
    return Advised(
        per_step=profile.summary.steps is not None,
        whole_s=found.whole_s,
        validity=profile.summary.validity,
        notes=tuple(_notes(profile)),
        advice=tuple(_advice(found)),
    )


def predict_alone(profile: Profile) -> list[Prediction]:
    """Return what each advised change is predicted to save if only it is made, most first.

    So other changes leave it all of its time, unlike in `advise`.
    """
    found = _claimed(profile)
    advised = {advice.remedy for advice in _advice(found)}
    by_remedy: dict[Remedy, list[Claim]] = {}
    for claim in found.claims:
        if claim.remedy in advised:
            by_remedy.setdefault(claim.remedy, []).append(claim)
    predictions = [_prediction(found, remedy, same) for remedy, same in by_remedy.items()]
    return sorted(predictions, key=lambda prediction: -prediction.predicted_s)


@dataclass(frozen=True, slots=True)
class _Claimed:
    """What all rules claim of a profile."""

    seen: Seen
    claims: Sequence[Claim]
    step_s: float
    """The step, without loading beside it; all of its parts, if steps are not known."""
    whole_s: float
    """The step with its loading."""
    scales: Sequence[float]
    """Of each part's time, what the step has: operations on several threads overlap."""


def _claimed(profile: Profile) -> _Claimed:
    seen = Seen(profile)
    parts_s = seen.seconds(seen.in_step)
    step_s = step_time(profile.summary, parts_s)
    whole_s = step_s + (profile.summary.load_s or 0.0)
    claims = [claim for rule in RULES if (claim := rule(seen)) and claim.shares]
    of_step = min(1.0, step_s / parts_s) if parts_s else 1.0
    scales = [of_step if i in seen.in_step else 1.0 for i in range(len(seen.parts))]
    return _Claimed(seen, claims, step_s, whole_s, scales)


def _advice(found: _Claimed) -> list[Advice]:
    """Return what is granted to claims whose change saves enough by all rules, most first."""
    granted = [(claim, low, high, (low + high) / 2) for claim, low, high in _granted(found)]
    by_remedy: dict[Remedy, float] = {}
    for claim, _, _, predicted_s in granted:
        by_remedy[claim.remedy] = by_remedy.get(claim.remedy, 0.0) + predicted_s
    advice = [
        Advice(
            rule=claim.rule,
            evidence=claim.evidence,
            remedy=claim.remedy,
            low_s=low,
            high_s=high,
            share=predicted_s / found.whole_s,
        )
        for claim, low, high, predicted_s in granted
        if predicted_s > 0 and by_remedy[claim.remedy] >= LEAST_SHARE * found.whole_s
    ]
    return sorted(advice, key=lambda one: -one.predicted_s)


def _granted(found: _Claimed) -> Iterator[tuple[Claim, float, float]]:
    """Yield each claim with the least and most seconds that it saves of what is left by others."""
    seen, left = found.seen, list(found.scales)
    open_claims = list(found.claims)
    while open_claims:
        best = max(open_claims, key=lambda claim: sum(_saved(seen, claim.shares, left)))
        open_claims.remove(best)
        yield best, *_saved(seen, best.shares, left)
        for i, (_, high) in best.shares.items():
            left[i] *= 1 - high


def _saved(
    seen: Seen, shares: Mapping[int, tuple[float, float]], left: Sequence[float]
) -> tuple[float, float]:
    """Return the least and most seconds that shares of parts come to.

    left: of each part's time, the share that the step has and others leave.
    """
    times = {i: seen.parts[i].seconds * left[i] for i in shares}
    low = sum(times[i] * share for i, (share, _) in shares.items())
    high = sum(times[i] * share for i, (_, share) in shares.items())
    return min(low, high), high


def _prediction(found: _Claimed, remedy: Remedy, same: Sequence[Claim]) -> Prediction:
    """Return what the rules of one remedy predict; where several see a part, it counts once.

    Its share is of the step without loading beside it, as is what a comparison realises.
    """
    shares: dict[int, tuple[float, float]] = {}
    for claim in same:
        for i, (low, high) in claim.shares.items():
            least, most = shares.get(i, (0.0, 0.0))
            shares[i] = max(least, low), max(most, high)
    low_s, high_s = _saved(found.seen, shares, found.scales)
    return Prediction(
        remedy=remedy,
        rules=tuple(claim.rule for claim in same),
        low_s=low_s,
        high_s=high_s,
        share=(low_s + high_s) / 2 / found.step_s if found.step_s else 0.0,
    )


def _notes(profile: Profile) -> Iterator[str]:
    summary = profile.summary
    yield from (f"the profile is {summary.validity}: {reason}" for reason in summary.reasons)
    if summary.origin is None or summary.origin.knobs is None:
        yield "knobs are not known: what could be one is advised in words"
    if summary.peaks is None:
        yield "peaks are not known: predictions take all of the time as avoidable"
