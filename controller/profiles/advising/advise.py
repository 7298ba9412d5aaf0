"""All advice that a profile gives: the rules, and the seconds that each is granted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from controller.contracts.advice import Advice, Advised
from controller.profiles.advising import fusing, running, units, work
from controller.profiles.advising.claims import Claim, Seen
from controller.profiles.model import Profile

RULES: tuple[Callable[[Seen], Claim | None], ...] = (
    *(work.layout, work.packed, work.reorders, work.fallback, work.precision, work.frozen),
    *(units.hidden_isa, units.amx_unused, units.denormals),
    *(fusing.norms, fusing.relu, fusing.optimizer, fusing.loss, work.tiny),
    *(running.malloc, running.page_faults, running.fragmentation, running.threads),
    *(running.idle_threads, running.waiting, running.loading),
)
LEAST_SHARE = 0.01
"""Share of the step below which nothing is advised."""


def advise(profile: Profile) -> Advised:
    """Return what a profile advises, that which is predicted to save most first.

    Of several rules, the one that saves most is granted its seconds, and the others a share of what
    remains of the same parts: all advice together never saves more than the step.
    """
    seen = Seen(profile)
    summary = profile.summary
    total_s = seen.seconds(range(len(seen.parts)))
    whole_s = total_s if summary.step_s is None else summary.step_s + (summary.load_s or 0.0)
    scale = min(1.0, whole_s / total_s) if total_s else 1.0
    claims = [claim for rule in RULES if (claim := rule(seen)) and claim.shares]
    granted = [
        _advice(claim, low * scale, high * scale, whole_s)
        for claim, low, high in _granted(seen, claims)
        if high * scale >= LEAST_SHARE * whole_s > 0
    ]
    return Advised(
        per_step=summary.steps is not None,
        whole_s=whole_s,
        validity=summary.validity,
        notes=tuple(_notes(profile)),
        advice=tuple(sorted(granted, key=lambda advice: -advice.predicted_s)),
    )


def _granted(seen: Seen, claims: Sequence[Claim]) -> Iterator[tuple[Claim, float, float]]:
    """Yield each claim with the least and most seconds that it saves of what is left by others."""
    left = [1.0] * len(seen.parts)
    open_claims = list(claims)

    def saved(claim: Claim) -> tuple[float, float]:
        times = {i: seen.parts[i].seconds * left[i] for i in claim.shares}
        low = sum(times[i] * share for i, (share, _) in claim.shares.items())
        high = sum(times[i] * share for i, (_, share) in claim.shares.items())
        return min(low, high), high

    while open_claims:
        best = max(open_claims, key=lambda claim: sum(saved(claim)))
        open_claims.remove(best)
        yield best, *saved(best)
        for i, (_, high) in best.shares.items():
            left[i] *= 1 - high


def _advice(claim: Claim, low_s: float, high_s: float, whole_s: float) -> Advice:
    return Advice(
        rule=claim.rule,
        evidence=claim.evidence,
        remedy=claim.remedy,
        low_s=low_s,
        high_s=high_s,
        share=(low_s + high_s) / 2 / whole_s,
    )


def _notes(profile: Profile) -> Iterator[str]:
    summary = profile.summary
    yield from (f"the profile is {summary.validity}: {reason}" for reason in summary.reasons)
    if summary.origin is None or summary.origin.knobs is None:
        yield "knobs are not known: what could be one is advised in words"
    if summary.peaks is None:
        yield "peaks are not known: predictions take all of the time as avoidable"
