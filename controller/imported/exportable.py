"""Which results of the farm can be exported as a submission has them, and why not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.contracts.audit import audit_of
from controller.contracts.device import DeviceKind
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.contracts.suite_rules import SuiteRules
from controller.contracts.suite_version import rules_of
from controller.imported.layout import SCENARIOS
from controller.imported.tasks import PUBLISHED
from controller.loadgen.logs import ACCURACY, DETAIL, SUMMARY, TRACE

LOADGENS: Final[Mapping[str, str]] = {ours: name for name, ours in SCENARIOS.items()}
LOGS: Final[Mapping[str, tuple[str, str]]] = {
    "performance_loadgen_detail": ("performance", DETAIL),
    "performance_loadgen_summary": ("performance", SUMMARY),
    "performance_loadgen_trace": ("performance", TRACE),
    "accuracy_loadgen_detail": ("accuracy", DETAIL),
    "accuracy_loadgen_summary": ("accuracy", SUMMARY),
    "accuracy_loadgen_trace": ("accuracy", TRACE),
    "accuracy_loadgen_accuracy": ("accuracy", ACCURACY),
}
"""Artefact of a result → role and name of the log; all are mandatory (rules 4.0, Directory
structure)."""
_TRY: Final = re.compile(r"(suite-v\d+\.\d+-[0-9a-f]{6}-\d+\.\d+)\.\d+-[0-9a-f]+")
"""Id of a sweep that is a part of a session's try: see scheduling/suite_plan.py."""
DETAIL_ARTEFACT: Final = "performance_loadgen_detail"


@dataclass(frozen=True, slots=True)
class Exportable:
    """A result with what the round calls it."""

    result: StoredResult
    rules: SuiteRules
    system: str
    """Name of its device as a folder."""

    @property
    def scenario(self) -> str:
        """LoadGen's name of the scenario."""
        return LOADGENS[self.result.scenario]

    @property
    def benchmark(self) -> str:
        """The task's folder."""
        return PUBLISHED[self.result.workload].folder

    @property
    def suite_run(self) -> str:
        """The try of a suite's session that it belongs to; else its sweep."""
        found = _TRY.fullmatch(self.result.sweep_id)
        return found[1] if found else self.result.sweep_id

    @property
    def app_benchmark(self) -> str:
        """The task's id in the app."""
        names = PUBLISHED[self.result.workload]
        return (names.app_offline if self.result.scenario == "offline" else "") or names.app


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is exported, and a line for each result that is not."""

    kept: tuple[Exportable, ...]
    left_out: tuple[str, ...]


def choose_exportable(results: Iterable[StoredResult]) -> Chosen:
    """Return the newest result of each phone, task and scenario, a VALID one if there is any.

    results: oldest first.
    """
    best: dict[tuple[str, str, str], StoredResult] = {}
    left_out: list[str] = []
    for result in results:
        if why := objection(result):
            left_out.append(f"{result.run_id}: {why}")
            continue
        key = (result.device, result.workload, result.scenario)
        former = best.get(key)
        if former and former.validity is Validity.VALID is not result.validity:
            former, result = result, former  # the VALID one stays
        if former:
            left_out.append(f"{former.run_id}: {result.run_id} is taken for this task")
        best[key] = result
    names = system_names(best.values())
    kept = [Exportable(r, _rules(r), names[r.device]) for r in best.values()]
    return Chosen(tuple(kept), tuple(left_out))


def objection(result: StoredResult) -> str:
    """Return why a result cannot be in a submission's tree; empty if it can."""
    if not result.counted or result.versus is not None or result.profile is not None:
        return "late, paired or profiled: not the result of one plain run"
    if audit_of(result.knobs):
        return "an audit of another result"
    if result.virtual or result.emulated:
        return "of a virtual or emulated phone, which is none"
    if result.device_kind is not DeviceKind.ANDROID:
        return "not of a phone"
    if result.workload not in PUBLISHED or rules_of(result.workload, result.knobs) is None:
        return f"{result.workload} is no task of MLPerf Mobile"
    if result.scenario not in ("single_stream", "offline"):
        return f"MLPerf Mobile has no scenario {result.scenario}"
    if DETAIL_ARTEFACT not in result.artefacts:
        return "it has no log of a performance run"
    return ""


def _rules(result: StoredResult) -> SuiteRules:
    rules = rules_of(result.workload, result.knobs)
    assert rules is not None  # else `objection` has left it out
    return rules


def system_names(results: Iterable[StoredResult]) -> dict[str, str]:
    """Return a name for each device's folder, by its id; no two are equal, whatever the case."""
    names: dict[str, str] = {}
    for result in results:
        if result.device in names:
            continue
        said = [str(result.environment.get(fact) or "") for fact in ("manufacturer", "model")]
        name = re.sub(r"[^A-Za-z0-9]+", "_", " ".join(said)).strip("_") or "phone"
        taken = {one.lower() for one in names.values()}
        number = next(
            n for n in range(1, len(names) + 2) if _numbered(name, n).lower() not in taken
        )
        names[result.device] = _numbered(name[:60], number)
    return names


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"
