"""Whether the steps that were watched are like the one that was timed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from controller.profiles.model import Profile

APART = 0.3
"""Steps that differ by more than this share are not the same step: what takes its time in one need
not do so in the other. Watching alone adds less, except to models of very many small operations."""


def objections(medians: Mapping[str, float], runs: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield why a profile is INVALID.

    medians: the step of each run, in seconds, by what it was. runs: all steps of each.
    """
    for (one, one_s), (other, other_s) in combinations(medians.items(), 2):
        if _are_apart((one_s, other_s)):
            yield (
                f"a step took {other_s:.4g} s {other}, and {one_s:.4g} s {one}: more than "
                f"{APART:.0%} apart"
            )
    for name, steps in runs.items():
        if _are_apart(steps):
            yield (
                f"the {len(steps)} steps {name} took from {min(steps):.4g} to {max(steps):.4g} s: "
                f"more than {APART:.0%} apart"
            )


def _are_apart(seconds: Sequence[float]) -> bool:
    return max(seconds) > (1 + APART) * min(seconds)


def judged(profile: Profile, reasons: Sequence[str]) -> Profile:
    """Return a profile that is INVALID if there are reasons for it, beside those it had."""
    known = tuple(dict.fromkeys((*profile.summary.reasons, *reasons)))
    told = {"validity": "INVALID" if known else "VALID", "reasons": known}
    return replace(profile, summary=profile.summary.model_copy(update=told))
