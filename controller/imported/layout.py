"""Where the logs of a published tree lie: which system's, which benchmark's, which run's. Pure.

The forms, of rounds v0.7 to v5.0 of MLPerf Mobile and of MLPerf Inference:

    closed/ORG/results/SYSTEM/BENCHMARK/SCENARIO/performance/run_1        Inference
    closed/ORG/results/SYSTEM/BENCHMARK/SCENARIO/log_performance          Mobile
    closed/ORG/results/BENCHMARK/SCENARIO/log_performance                 … of a single system
    closed/ORG/results/SYSTEM/BENCHMARK-performance                       the app's own folders
    closed/ORG/results/SYSTEM/2025-11-16T15-50-55.588359/BENCHMARK-performance
    closed/ORG/results/BENCHMARK-performance                              … of a single system
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOBILE: Final = "MLPerf Mobile"
INFERENCE: Final = "MLPerf Inference"
DIVISIONS: Final = frozenset({"closed", "open", "network"})
SCENARIOS: Final = {
    "SingleStream": "single_stream",
    "MultiStream": "multi_stream",
    "Offline": "offline",
    "Server": "server",
}
"""LoadGen's name of a scenario → ours."""
_SCENARIO_OF: Final = {name.lower(): ours for name, ours in SCENARIOS.items()}
RESULTS: Final = "results"
PERFORMANCE, ACCURACY = "performance", "accuracy"
_ROLE: Final = re.compile(r"(?:(?P<benchmark>.+)-|log_)?(?P<role>performance|accuracy)")
_RUN: Final = re.compile(r"run_(\d{1,3})")
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}[-:]")
_REPOSITORY: Final = re.compile(r"(mobile|inference)_results_(v\d{1,2}\.\d{1,2})")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose results lie in a folder."""

    division: str
    """Empty if the path does not say."""
    submitter: str
    place: tuple[str, ...]
    """Parts of the path up to the submitter's folder."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the path of a folder with logs says."""

    owner: Owner
    suite: str
    system: str
    """Empty if the submitter has only one, which has no folder."""
    benchmark: str
    scenario: str | None
    """Ours; None where only the log says it."""
    role: str
    """PERFORMANCE or ACCURACY."""
    run: int
    """From 0."""


def owner_of(parts: Sequence[str]) -> Owner | None:
    """Return whose results a path is of; None for one outside `ORG/results`."""
    at = _last(parts, RESULTS)
    if at is None or at == 0:
        return None
    division = parts[at - 2] if at > 1 and parts[at - 2] in DIVISIONS else ""
    return Owner(division, parts[at - 1], tuple(parts[:at]))


def place_of(parts: Sequence[str]) -> Place | None:
    """Return what the path of a folder with logs says; None for another layout.

    parts: of the whole path, so that a part of a tree can be read, too.
    """
    owner = owner_of(parts)
    if owner is None:
        return None
    rest = [p for p in parts[len(owner.place) + 1 :] if not _MOMENT.match(p)]
    run = 0
    if rest and (numbered := _RUN.fullmatch(rest[-1])):
        run, rest = max(int(numbered[1]) - 1, 0), rest[:-1]
    found = _ROLE.fullmatch(rest[-1]) if rest else None
    if found is None:
        return None
    rest = rest[:-1]
    scenario: str | None = None
    benchmark: str | None = found["benchmark"]
    if benchmark is None:
        if len(rest) < 2:
            return None
        scenario, benchmark = _SCENARIO_OF.get(rest[-1].lower()), rest[-2]
        rest = rest[:-2]
        if scenario is None:
            return None
    if len(rest) > 1:
        return None
    app = found["benchmark"] is not None
    plain = not app and not found[0].startswith("log_")
    suite = INFERENCE if plain else MOBILE
    system = rest[0] if rest else ""
    return Place(owner, suite, system, benchmark, scenario, found["role"], run)


def round_of(parts: Sequence[str]) -> tuple[str, str] | None:
    """Return suite and round that the name of a repository in a path says, or None."""
    for part in reversed(parts):
        if found := _REPOSITORY.search(part):
            return (MOBILE if found[1] == "mobile" else INFERENCE), found[2]
    return None


def _last(parts: Sequence[str], wanted: str) -> int | None:
    return next((n for n in reversed(range(len(parts))) if parts[n] == wanted), None)
