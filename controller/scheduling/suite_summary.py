"""The summary of a session: what was measured, and which rules it meets; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from controller.contracts.mobile import SURROGATE
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement
from controller.contracts.suite_session import PartSummary, PartTry, SessionSummary, Verdict
from controller.contracts.suite_version import TARGET_UNKNOWN
from controller.scheduling.suite_session import PartRun, Session
from controller.scheduling.suite_verdicts import ACCURACIES, Judge, spread


def summary_of(session: Session, judge: Judge, device: str, *, virtual: bool) -> SessionSummary:
    """Return the summary of a session.

    device: the id of the session's; virtual: whether it is. A result on a virtual device counts,
    too.
    """
    rules = judge.verdicts(session)
    results = [run.result for run in session.runs if run.result]
    return SessionSummary(
        session=session.id,
        suite=judge.suite.title,
        device=device,
        virtual=virtual or any(result.virtual for result in results),
        surrogates=any(run.workload.endswith(SURROGATE) for run in session.runs),
        tries=len(list(session.tries())),
        is_running=any(not run.state.terminal for run in session.runs),
        meets_rules=all(rule.verdict is Verdict.MET for rule in rules),
        parts=tuple(_part(session, part, judge) for part in session.parts()),
        rules=rules,
    )


def _part(session: Session, part: tuple[str, str], judge: Judge) -> PartSummary:
    runs = [run for run in session.runs if run.part == part]
    results = [run.result for run in runs if run.result]
    metric = judge.metric_of.get(part[1], "")
    accuracy = next((name for name in ACCURACIES if _all(results, name)), "")
    values, accuracies = _all(results, metric), _all(results, accuracy)
    spreads = [found for of in (values, accuracies) if (found := spread(_figures(of))) is not None]
    return PartSummary(
        task=part[0],
        workload=runs[0].workload,
        scenario=part[1],
        metric=metric,
        unit=values[0].unit if values else None,
        accuracy_metric=accuracy,
        accuracy_unit=accuracies[0].unit if accuracies else None,
        target_unknown=next(filter(None, map(_target_unknown, results)), ""),
        tries=tuple(_try(run, metric, accuracy) for run in runs),
        spread=max(filter(math.isfinite, spreads), default=None),
    )


def _try(run: PartRun, metric: str, accuracy: str) -> PartTry:
    metrics = run.result.metrics if run.result else {}
    return PartTry(
        number=run.number,
        sweep_id=run.sweep_id,
        state=run.state,
        started_at=run.spans[0].start if run.spans else None,
        ended_at=run.end,
        value=metrics[metric].value if metric in metrics else None,
        accuracy=metrics[accuracy].value if accuracy in metrics else None,
        validity=run.result.validity if run.result else None,
    )


def _target_unknown(result: StoredResult) -> str:
    return str(result.environment.get(TARGET_UNKNOWN) or "")


def _all(results: Sequence[StoredResult], metric: str) -> list[Measurement]:
    return [result.metrics[metric] for result in results if metric in result.metrics]


def _figures(measured: Sequence[Measurement]) -> list[float]:
    return [one.value for one in measured]
