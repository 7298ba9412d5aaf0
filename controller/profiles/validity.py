"""Whether the steps that were watched are like the one that was timed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from controller.contracts.profile import ProfileSummary
from controller.profiles.attribution import Attribution
from controller.profiles.model import Profile
from controller.profiles.parts import UNEXPLAINED

APART = 0.3
"""Steps that differ by more than this share are not the same step: what takes its time in one need
not do so in the other. Watching alone adds less, except to models of very many small operations."""

NOISE = 0.1
"""Share by which medians of a few steps may differ on a quiet machine."""
SHARES_APART = 0.04
"""Shares of a kernel in two watched runs of a quiet machine differ by less."""


def objections(medians: Mapping[str, float], runs: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield why a profile is INVALID.

    medians: the step of each run, in seconds, by what it was. runs: all steps of each.
    """
    for (one, one_s), (other, other_s) in combinations(medians.items(), 2):
        if are_apart((one_s, other_s)):
            yield (
                f"a step took {other_s:.4g} s {other}, and {one_s:.4g} s {one}: more than "
                f"{APART:.0%} apart"
            )
    for name, steps in runs.items():
        if are_apart(steps):
            yield (
                f"the {len(steps)} steps {name} took from {min(steps):.4g} to {max(steps):.4g} s: "
                f"more than {APART:.0%} apart"
            )


def drift(one: Attribution, other: Attribution) -> Iterator[str]:
    """Yield why two watched runs don't agree where the time goes, if they don't."""
    shares = [_shares(found) for found in (one, other)]
    apart = {name: [of.get(name, 0.0) for of in shares] for name in {**shares[0], **shares[1]}}
    name, (first, second) = max(apart.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    if abs(first - second) > SHARES_APART:
        yield (
            f"{name} took {first:.1%} of the step under torch.profiler, and {second:.1%} under "
            f"oneDNN's verbose mode: more than {SHARES_APART * 100:.0f} points apart"
        )


def _shares(found: Attribution) -> dict[str, float]:
    seconds: dict[str, float] = {UNEXPLAINED: 0.0}
    for place, spent in found.kernels.items():
        name = place.kernel or UNEXPLAINED
        seconds[name] = seconds.get(name, 0.0) + spent.self_s
    total = sum(seconds.values()) or 1.0
    return {name: spent / total for name, spent in seconds.items()}


def are_apart(seconds: Sequence[float]) -> bool:
    """Return whether steps, in seconds, differ too much to be the same step."""
    return max(seconds) > (1 + APART) * min(seconds)


def unlikely(summary: ProfileSummary) -> Iterator[str]:
    """Yield why runs of a profile can't all have been on a quiet machine: alone is not slower."""
    low, high = summary.efficiency_low, summary.efficiency_high
    if summary.efficiency is None or low is None or high is None:
        return
    if summary.efficiency > 1 + NOISE and low > 1:
        yield (
            f"the machine was not quiet: replays took {summary.efficiency:.0%} of the step's own "
            f"time, at least {low:.0%}"
        )


def judged(profile: Profile, broken: Sequence[str], disturbed: Sequence[str] = ()) -> Profile:
    """Return a profile that is INVALID if rules were broken, else DISTURBED if it was disturbed.

    It keeps the reasons that it had.
    """
    had = profile.summary
    known = tuple(dict.fromkeys((*had.reasons, *broken, *disturbed)))
    validity = "INVALID" if broken else "DISTURBED" if disturbed else "VALID"
    if had.validity == "INVALID" or validity == "VALID":
        validity = had.validity
    told = {"validity": validity, "reasons": known}
    return replace(profile, summary=had.model_copy(update=told))
