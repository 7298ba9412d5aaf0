"""Which round a published result is of. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.suite_rules import load_suites
from controller.imported.entries import Entry
from controller.imported.figures import LeftOut, Measured
from controller.imported.layout import MOBILE, round_of

ROUND: Final = re.compile(r"v\d{1,2}\.\d{1,2}")
_BRANCH: Final = re.compile(r"submission-(v\d{1,2}\.\d{1,2})")
_UNKNOWN: Final = "nothing says which round it is of; give it with --round"
INFERENCE_ROUNDS: Final = (
    *("v0.5", "v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0"),
    *("v3.1", "v4.0", "v4.1", "v5.0", "v5.1", "v6.0"),
)
"""Rounds of MLPerf Inference."""


def known_rounds() -> frozenset[str]:
    """Return the rounds of either suite that results can be of."""
    return frozenset((*INFERENCE_ROUNDS, *(rules.version for rules in load_suites())))


class Rounds:
    """Says the round of results: as the caller said, else as the tree does."""

    def __init__(self, given: str | None) -> None:
        self._given = given
        self._rounds = {rules.version for rules in load_suites()}
        seeds = {rules.seeds.said: rules.version for rules in load_suites() if rules.seeds}
        told = [rules.seeds.said for rules in load_suites() if rules.seeds]
        self._by_seeds: dict[tuple[Scalar, ...], str] = {
            said: seeds[said] for said in told if told.count(said) == 1
        }

    def suite_of(self, parts: Sequence[str]) -> str | None:
        """Return the suite that the name of the repository says, or None."""
        found = round_of(parts)
        return found[0] if found else None

    def of_log(
        self, suite: str, parts: Sequence[str], measured: Measured, entry: Entry | None
    ) -> str:
        """Return the round of a log, by its path, its app's branch or its seeds; raises LeftOut."""
        if told := self._given or _by_path(parts) or _by_branch(entry):
            return self._known(told, suite)
        seeds = measured.environment.get("loadgen_seeds")
        known = self._by_seeds.get(seeds) if isinstance(seeds, tuple) else None
        if known is None:
            raise LeftOut(_UNKNOWN)
        return known

    def of_app(self, parts: Sequence[str], entry: Entry) -> str:
        """Return the round of an app's result without logs; raises LeftOut."""
        version = re.match(r"\d{1,2}\.\d{1,2}", entry.session.build_info.version)
        by_version = f"v{version[0]}" if version and f"v{version[0]}" in self._rounds else None
        told = self._given or _by_path(parts) or _by_branch(entry) or by_version
        if told is None:
            raise LeftOut(_UNKNOWN)
        return self._known(told, MOBILE)

    def _known(self, told: str, suite: str) -> str:
        """Return a round if the suite has had it; raises LeftOut."""
        known = sorted(self._rounds) if suite == MOBILE else INFERENCE_ROUNDS
        if told not in known:
            raise LeftOut(f"{suite} has no round {told}: it has {', '.join(known)}")
        return told


def _by_path(parts: Sequence[str]) -> str | None:
    found = round_of(parts)
    return found[1] if found else None


def _by_branch(entry: Entry | None) -> str | None:
    found = _BRANCH.fullmatch(entry.session.build_info.git_branch) if entry else None
    return found[1] if found else None
