"""`benchfarm results replicate --check`: what an audit found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.table import Table

from controller.cli.common import show_table
from controller.contracts.audit import (
    AuditCheck,
    AuditFinding,
    AuditSummary,
    AuditTry,
    AuditVerdict,
)
from controller.contracts.records import StoredResult
from controller.contracts.suite_session import RuleVerdict, Verdict
from controller.contracts.units import Unit
from controller.loadgen.audit_verdicts import findings_of, passes, times_of
from controller.platform.terminal import say
from controller.reports.figures import shown
from controller.scheduling.suite_session import PartRun, Session

RULES: Final = {
    AuditVerdict.PASSES: Verdict.MET,
    AuditVerdict.UNCHECKED: Verdict.MET,
    AuditVerdict.UNRESOLVED: Verdict.OPEN,
    AuditVerdict.REFUSED: Verdict.MISSED,
}
"""What a finding means for whoever carries the audit on."""


@dataclass(frozen=True, slots=True)
class Audit:
    """A result, and what it is audited for."""

    original: StoredResult
    check: AuditCheck
    tries: int

    def findings(self, session: Session) -> tuple[AuditFinding, ...]:
        """Return what the audit shows so far."""
        measured = [run.result for run in session.runs if run.result]
        elsewhere = {r.device for r in measured} - {self.original.device}
        found = findings_of(self.check, self.original, measured)
        lost = [run for run in session.runs if run.is_lost]
        short = len(measured) < self.tries
        if elsewhere or lost or short:
            why = f"{len(measured)} of {self.tries} tries"
            if elsewhere:
                why = f"a try ran on {', '.join(sorted(elsewhere))}"
            elif lost:
                why = f"try {lost[0].number} has no result: {lost[0].failure or lost[0].state}"
            unresolved = AuditVerdict.UNRESOLVED
            more = AuditFinding(name="tries", verdict=unresolved, why=f"{unresolved}: {why}")
            return (*found, more)
        return found

    def verdicts(self, session: Session) -> tuple[RuleVerdict, ...]:
        """Return the findings as rules of the session."""
        return tuple(
            RuleVerdict(rule=each.name, verdict=RULES[each.verdict], why=(each.why,))
            for each in self.findings(session)
        )

    def summary(self, session: Session) -> AuditSummary:
        """Return what the audit has measured, and whether the result passes."""
        original, found = self.original, self.findings(session)
        return AuditSummary(
            run_id=original.run_id,
            session=session.id,
            check=self.check,
            device=original.device,
            workload=original.workload,
            scenario=original.scenario,
            tries=tuple(map(_try, session.runs)),
            findings=found,
            passes=passes(found),
        )


def _try(run: PartRun) -> AuditTry:
    times = sorted(times_of(run.result)) if run.result else []
    return AuditTry(
        number=run.number,
        sweep_id=run.sweep_id,
        run_id=run.result.run_id if run.result else None,
        state=str(run.state),
        answers=len(times),
        median_s=times[len(times) // 2] if times else None,
        why=run.failure,
    )


def show_audit(found: AuditSummary) -> None:
    """Print an audit: its runs, one line a finding, and the verdict."""
    title = f"audit {found.check}: {found.workload} {found.scenario} on {found.device}"
    table = Table("", "answers", "median", "state", "run", title=title, title_justify="left")
    for one in found.tries:
        middle = "-" if one.median_s is None else shown(one.median_s, Unit.SECONDS)
        table.add_row(f"try {one.number}", str(one.answers), middle, one.state, one.run_id)
    show_table(table)
    for finding in found.findings:
        say(f"{finding.name}: {finding.why}")
    say(f"run {found.run_id} passes" if found.passes else f"run {found.run_id} does not pass")
