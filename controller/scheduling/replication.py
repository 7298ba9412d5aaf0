"""Measuring a cell again to see whether its result replicates, by MLPerf Mobile's rule, or to
audit it; pure.

A replication is kept nowhere but in its sweeps, as a session of the suite is: each has the cell of
one run, and a name that says of which run, replication and try it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

from controller.contracts.audit import AUDIT, AuditCheck, audit_of
from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.errors import UserError
from controller.contracts.records import StoredResult
from controller.contracts.replication import ReplicationSummary, ReplicaTry
from controller.contracts.result import Validity
from controller.contracts.run import Run
from controller.contracts.suite_session import RuleVerdict, SessionRules, Verdict
from controller.contracts.sweep import Cell, PairedComparison, Side, Sweep
from controller.scheduling.expansion import cells_of
from controller.scheduling.suite_plan import Part, Place, numbered
from controller.scheduling.suite_session import PartRun, Session
from controller.scheduling.suite_verdicts import ACCURACIES, Finding, spread, too_far, verdict_on

RATIO: Final = "ratio"
"""The metric of a paired comparison."""
_NUMBERS: Final = re.compile(r"(\d{1,6})\.(\d{1,3})")
"""How the name of a try's sweep ends: replication and try."""


@dataclass(frozen=True, slots=True)
class ReplicationPlan:
    """The tries of one replication of a run."""

    run: Run
    selector: str
    """Selects the device that measured the run, or all hosts of a run on several."""
    check: AuditCheck | None = None
    """What the tries are an audit of; None: they are the cell again."""

    @property
    def parts(self) -> Sequence[Part]:
        """What each try measures."""
        cell = self.run.cell
        return (Part(workload=cell.workload, scenario=cell.scenario, knobs=self._knobs()),)

    @property
    def prefix(self) -> str:
        """What the ids of its sessions begin with."""
        return f"{self.run.run_id}-{self.check}-" if self.check else f"{self.run.run_id}-"

    def _knobs(self) -> dict[str, Scalar]:
        return {**self.run.cell.knobs, **({AUDIT: str(self.check)} if self.check else {})}

    def session(self, number: int) -> str:
        """Return the id of the run's n-th replication, from 1; raises UserError beyond the
        last."""
        return numbered(self.prefix, number)

    def number(self, session: str) -> int:
        """Return the number of a replication, by its id."""
        return int(session.removeprefix(self.prefix))

    def sweep(self, place: Place) -> Sweep:
        """Return the sweep of a try: every knob is written out, so that it has the same cell."""
        cell = self.run.cell
        shared = {
            "name": f"replicate-{place.session}.{place.number}",
            "description": f"try {place.number} of {self._what()}run {self.run.run_id}",
            "workload": (cell.workload,),
            "scenario": (cell.scenario,),
            "devices": (self.selector,),
            "deadline_s": self.run.deadline_s,
            "profile": cell.profiled,
        }
        if cell.versus is None:
            knobs = {name: (value,) for name, value in self._knobs().items()}
            return Sweep.model_validate({**shared, "stack": (cell.stack,), "knobs": knobs})
        b = Side(stack=cell.versus.stack, knobs=cell.versus.knobs)
        paired = PairedComparison(
            a=Side(stack=cell.stack, knobs=cell.knobs),
            b=(b,),
            width=cell.versus.width,
            time_limit_s=cell.versus.time_limit_s,
        )
        return Sweep.model_validate({**shared, "paired": paired})

    def _what(self) -> str:
        return f"audit {self.check} of " if self.check else ""

    def place_of(self, sweep: Sweep) -> Place | None:
        """Return the replication and try that a sweep is of; None if it is of none.

        It may have another selector: which one selects the same device changes with the fleet.
        """
        found = _NUMBERS.fullmatch(sweep.name.removeprefix(f"replicate-{self.prefix}"))
        if found is None:
            return None
        place = Place(self.session(int(found[1])), int(found[2]), 0)
        own = self.sweep(place).model_copy(update={"devices": sweep.devices})
        return place if own.sweep_id(1) == sweep.sweep_id(1) else None


def require_same_cell(plan: ReplicationPlan, catalog: Catalog) -> None:
    """Raise UserError if the run's cell can't be measured again as it was."""
    tried = f"replicate run {plan.run.run_id}"
    again = replace(plan, check=None)
    place = Place(again.session(1), 1, 0)
    (cell,) = cells_of(again.sweep(place), catalog, f"run {plan.run.run_id}")
    if _measured(cell) != _measured(plan.run.cell):
        names = sorted(cell.knobs.keys() ^ plan.run.cell.knobs.keys())
        seen = f"its cell has other knobs today: {', '.join(names) or 'of another type'}"
        raise UserError(tried, seen, "Submit a sweep of the cell as it is today.")


def require_auditable(plan: ReplicationPlan, catalog: Catalog) -> None:
    """Raise UserError if the run's cell can't be audited; else its cell can be measured again."""
    run, tried = plan.run, f"check run {plan.run.run_id}"
    cell, remedy = run.cell, "Choose a run in which LoadGen issued the queries."
    if audit_of(cell.knobs):
        raise UserError(tried, "it is an audit's own run", "Choose the run that it is an audit of.")
    if cell.versus:
        raise UserError(tried, "it is a paired comparison", remedy)
    if AUDIT not in catalog.knobs_of(cell.workload, cell.stack, cell.scenario):
        raise UserError(tried, f"under {cell.scenario}, LoadGen issues no queries", remedy)


def _measured(cell: Cell) -> Cell:
    return cell.model_copy(update={"selector": ""})


@dataclass(frozen=True, slots=True)
class Replication:
    """A result, and by which rules its tries replicate it."""

    original: StoredResult
    devices: Collection[str]
    """Those that measured it: one, or the hosts of a run on several, each of which may lead."""
    metric: str
    """The one that ranks the scenario."""
    rules: SessionRules
    tries: int

    def verdicts(self, session: Session) -> tuple[RuleVerdict, ...]:
        """Return by which rules a replication succeeds so far."""
        return (
            verdict_on("all tries", self._whole(session)),
            verdict_on("valid results", self._valid(session)),
            verdict_on("same device", self._device(session)),
            verdict_on("replication", self._replication(session)),
        )

    def _results(self, session: Session) -> list[StoredResult]:
        return [run.result for run in session.runs if run.result]

    def _whole(self, session: Session) -> Iterator[Finding]:
        for run in session.runs:
            if run.is_lost:
                why = run.failure or str(run.state)
                yield Verdict.MISSED, f"try {run.number} has no result: {why}"
        done = len(self._results(session))
        if done < self.tries:
            yield Verdict.OPEN, f"{done} of {self.tries} tries"

    def _valid(self, session: Session) -> Iterator[Finding]:
        named = [("the original", self.original)]
        named += [(f"try {run.number}", run.result) for run in session.runs if run.result]
        for name, result in named:
            if result.validity is not Validity.VALID:
                why = result.reasons[0] if result.reasons else "no reason is known"
                yield Verdict.MISSED, f"{name} is {result.validity}: {why}"

    def _device(self, session: Session) -> Iterator[Finding]:
        for run in session.runs:
            if run.result and run.result.device not in self.devices:
                yield Verdict.MISSED, f"try {run.number} ran on {run.result.device}"

    def _replication(self, session: Session) -> Iterator[Finding]:
        found = self._results(session)
        if not found:
            yield Verdict.OPEN, "no try has a result yet"
        metrics = [m for m in (self.metric, *ACCURACIES) if m in self.original.metrics]
        for said in too_far([self.original, *found], metrics, self.rules.spread):
            yield Verdict.MISSED, said


def summary_of(replication: Replication, session: Session) -> ReplicationSummary:
    """Return what a replication has measured, and whether it succeeds."""
    original, metric = replication.original, replication.metric
    verdicts = replication.verdicts(session)
    measured = original.metrics[metric]
    results = [original, *(run.result for run in session.runs if run.result)]
    return ReplicationSummary(
        run_id=original.run_id,
        session=session.id,
        device=original.device,
        workload=original.workload,
        scenario=original.scenario,
        metric=metric,
        unit=measured.unit,
        value=measured.value,
        tries=tuple(_try(run, metric, measured.value) for run in session.runs),
        spreads=_spreads(results, (metric, *ACCURACIES)),
        limit=replication.rules.spread,
        replicates=all(rule.verdict is Verdict.MET for rule in verdicts),
        rules=verdicts,
    )


def _try(run: PartRun, metric: str, original: float) -> ReplicaTry:
    value = (
        run.result.metrics[metric].value if run.result and metric in run.result.metrics else None
    )
    return ReplicaTry(
        number=run.number,
        sweep_id=run.sweep_id,
        run_id=run.result.run_id if run.result else None,
        state=str(run.state),
        value=value,
        deviation=value / original - 1 if value is not None and original else None,
        validity=run.result.validity if run.result else None,
    )


def _spreads(results: Sequence[StoredResult], metrics: Sequence[str]) -> Mapping[str, float]:
    found = {
        metric: spread([r.metrics[metric].value for r in results if metric in r.metrics])
        for metric in metrics
    }
    return {name: value for name, value in found.items() if value is not None and isfinite(value)}
