"""Which rules a session meets, and why not; pure. What isn't known isn't met."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from controller.contracts.base import utc_minute
from controller.contracts.mobile import SURROGATE
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.contracts.suite_rules import SUITE_RULES, SuiteRules
from controller.contracts.suite_session import MEETS, RuleVerdict, SessionRules, Verdict
from controller.scheduling.suite_session import PartRun, Session, Span

ACCURACIES: Final = ("top1", "mAP", "mIoU", "F1", "PSNR")
"""Metrics of accuracy; a task has one of them."""
MISSES, SEEDS = "run_rules_missed", "loadgen_seeds"
ROUNDING: Final = 1e-9
"""Of a spread: so 1.05 is 5 % more than 1."""
Finding = tuple[Verdict, str]
"""What speaks against a rule, and why."""


@dataclass(frozen=True, slots=True)
class Judge:
    """The rules by which a session is judged."""

    suite: SuiteRules
    rules: SessionRules
    metric_of: Mapping[str, str]
    """Scenario → the metric that ranks its results."""

    def verdicts(self, session: Session) -> tuple[RuleVerdict, ...]:
        """Return what a session is worth by each rule."""
        rules = self.rules
        return (
            verdict_on("whole suite", self._whole(session)),
            verdict_on("run rules of each result", self._results(session)),
            verdict_on("one device", _one_device(session)),
            verdict_on("one build of its system", _constant(session, rules.build, known=True)),
            verdict_on("one framework", _constant(session, rules.framework, known=False)),
            verdict_on("nothing else on the device", _alone(session)),
            verdict_on("pauses between tasks", self._task_pauses(session)),
            verdict_on("pauses between tries", self._try_pauses(session)),
            verdict_on("times in order", _in_order(session)),
            verdict_on("replication", self._replication(session)),
        )

    def _whole(self, session: Session) -> Iterator[Finding]:
        asked = [(name, s) for name, task in self.suite.tasks.items() for s in task.required]
        tries = list(session.tries())
        if not tries:
            yield Verdict.OPEN, "nothing has run yet"
        for runs in tries:
            there = {run.part for run in runs}
            lacks = [" ".join(part) for part in asked if part not in there]
            is_last = runs is tries[-1]
            if lacks:
                said = "has not run yet" if is_last else "lacks"
                yield _open_if(is_last), f"try {runs[0].number} {said}: {', '.join(lacks)}"
            for run in runs:
                if run.is_lost:
                    yield Verdict.MISSED, f"{run.label}: {run.state}{_because(run.failure)}"
                elif not run.state.terminal:
                    yield Verdict.OPEN, f"{run.label}: {run.state}"
                elif run.result is None:
                    yield Verdict.MISSED, f"{run.label}: its result is not in the store"

    def _results(self, session: Session) -> Iterator[Finding]:
        measured = [(run, run.result) for run in session.runs if run.result]
        if not measured:
            yield Verdict.OPEN, "no result yet"
        found: dict[str, list[str]] = {}
        for run, result in measured:
            for why in dict.fromkeys(self._missed_by(run, result)):
                found.setdefault(why, []).append(run.label)
        for why, labels in found.items():
            if len(labels) == len(measured) > 1:
                who = f"all {len(labels)} results"
            else:
                more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
                who = f"{labels[0]}{more}"
            yield Verdict.MISSED, f"{who}: {why}"

    def _missed_by(self, run: PartRun, result: StoredResult) -> Iterator[str]:
        """Yield the run rules that a result misses: as it says itself, and of this version."""
        said = result.environment.get(MISSES)
        missed = said if isinstance(said, tuple) else ()
        if result.environment.get(MEETS) is not True and not missed:
            yield "it does not say that it meets them"
        yield from map(str, missed)
        if result.validity is not Validity.VALID and str(result.validity) not in missed:
            yield str(result.validity)
        title, of_task = self.suite.title, self.suite.tasks.get(run.part[0])
        if of_task is None or run.scenario not in of_task.scenarios:
            yield f"no part of {title}"
            return
        if (by := result.environment.get(SUITE_RULES)) not in (None, self.suite.claim):
            yield f"it ran by the rules of {by}"
        if wrong := self.suite.seeds_missed(result.environment.get(SEEDS)):
            yield wrong
        target = None if run.workload.endswith(SURROGATE) else of_task.target_of(result.knobs)
        needed = (self.metric_of.get(run.scenario), target.metric if target else None)
        yield from (f"it lacks {name}" for name in needed if name and name not in result.metrics)
        measured = result.metrics.get(target.metric) if target else None
        if wrong := self.suite.target_missed(target, measured.value if measured else None):
            yield wrong

    def _task_pauses(self, session: Session) -> Iterator[Finding]:
        least, most = self.rules.task_pause_s
        pauses = [pause for runs in session.tries() for pause in _pauses(runs)]
        if not pauses:
            yield Verdict.OPEN, "no two tasks yet"
        for seconds, run in pauses:
            before = f"before {run.label}"
            if seconds > most:
                yield Verdict.MISSED, f"{_more(seconds)} {before}; at most {_more(most)}"
            elif 0 <= seconds < least:
                yield Verdict.MISSED, f"{_less(seconds)} {before}; at least {_less(least)}"

    def _try_pauses(self, session: Session) -> Iterator[Finding]:
        least, tries = self.rules.try_pause_s, list(session.tries())
        if len(tries) < 2:
            yield Verdict.OPEN, "no two tries yet"
        asked = f"at least {_less(least)}"
        for former, runs in pairwise(tries):
            seconds = _between(_spans(former), _spans(runs))
            if seconds is not None and 0 <= seconds < least:
                after = f"{_less(seconds)} between try {former[0].number} and {runs[0].number}"
                yield Verdict.MISSED, f"{after}; {asked}"
        for runs in tries:
            for part in dict.fromkeys(run.part for run in runs):
                of_part = [run for run in runs if run.part == part]
                for one, other in pairwise(_spans(of_part)):
                    seconds = _between([one], [other])
                    if seconds is not None and 0 <= seconds < least:
                        again = f"{of_part[-1].label} ran again after {_less(seconds)}"
                        yield Verdict.MISSED, f"{again}; {asked}"

    def _replication(self, session: Session) -> Iterator[Finding]:
        parts = {*session.parts()}
        whole = [
            runs
            for runs in session.tries()
            if all(run.result for run in runs) and parts <= {run.part for run in runs}
        ]
        if len(whole) < self.rules.tries:
            yield Verdict.OPEN, f"{len(whole)} of {self.rules.tries} tries"
        for part in session.parts():
            results = [r.result for r in session.runs if r.part == part and r.result]
            metrics = (self.metric_of.get(part[1], ""), *ACCURACIES)
            for said in too_far(results, metrics, self.rules.spread):
                yield Verdict.MISSED, f"{' '.join(part)}: {said}"


def too_far(results: Sequence[StoredResult], metrics: Iterable[str], limit: float) -> Iterator[str]:
    """Yield which metrics of results that are to replicate each other differ by too much.

    A metric that some of them lack can't be replicated there; one that all lack isn't theirs.
    """
    for metric in metrics:
        values = [r.metrics[metric].value for r in results if metric in r.metrics]
        if values and (lacking := len(results) - len(values)):
            yield f"{metric} is missing in {lacking} of {len(results)} results"
        found = spread(values)
        if found is not None and found > limit + ROUNDING:
            yield f"{_differs(metric, values, found)}; at most {limit * 100:.0f} %"


def _differs(metric: str, values: Sequence[float], found: float) -> str:
    if math.isinf(found):  # one of them is 0, as the accuracy of a delegate that fails
        return f"{metric} is from {min(values):g} to {max(values):g}"
    return f"{metric} differs by {math.ceil((found - ROUNDING) * 1000) / 10:g} %"


def spread(values: Sequence[float]) -> float | None:
    """Return (largest - smallest) / smallest; None for fewer than two values, infinite if one of
    unequal values is not above 0."""
    if len(values) < 2:
        return None
    least, most = min(values), max(values)
    if least == most:
        return 0.0
    return (most - least) / least if least > 0 else math.inf


def verdict_on(rule: str, findings: Iterable[Finding]) -> RuleVerdict:
    """Return whether a rule is met: missed or open if a finding says so."""
    found = list(findings)
    for verdict in (Verdict.MISSED, Verdict.OPEN):
        if why := tuple(said for kind, said in found if kind is verdict):
            return RuleVerdict(rule=rule, verdict=verdict, why=why)
    return RuleVerdict(rule=rule, verdict=Verdict.MET)


def _one_device(session: Session) -> Iterator[Finding]:
    spans = [(run, span) for run in session.runs for span in run.spans]
    if not spans:
        yield Verdict.OPEN, "nothing has run yet"
        return
    first = spans[0][1].device
    for run, span in spans:
        if span.device != first:
            yield Verdict.MISSED, f"{run.label} ran on {span.device}, what was before on {first}"


def _constant(session: Session, facts: Sequence[str], *, known: bool) -> Iterator[Finding]:
    """known: whether all results have to have the facts."""
    measured = [(run, run.result.environment) for run in session.runs if run.result]
    if not measured:
        yield Verdict.OPEN, "no result yet"
    for fact in facts:
        told = [(run, said[fact]) for run, said in measured if said.get(fact) is not None]
        if known and (untold := len(measured) - len(told)):
            yield Verdict.MISSED, f"{fact} not known of {untold} of {len(measured)} results"
        for (_, former), (run, value) in pairwise(told):
            if value != former:
                yield Verdict.MISSED, f"{fact} is {value} from {run.label} on, before {former}"


def _alone(session: Session) -> Iterator[Finding]:
    spans = session.spans()
    if not spans:
        yield Verdict.OPEN, "nothing has run yet"
        return
    start, end = min(span.start for span in spans), max(map(_end, spans))
    others = [o for o in session.others if o.start < end and _end(o) > start]
    if others:
        first = utc_minute(min(other.start for other in others))
        yield Verdict.MISSED, f"{len(others)} other runs, the first at {first}"


def _end(span: Span) -> float:
    return math.inf if span.end is None else span.end


def _in_order(session: Session) -> Iterator[Finding]:
    spans = [(run, span) for run in session.runs for span in run.spans]
    if not spans:
        yield Verdict.OPEN, "nothing has run yet"
    for (_, former), (run, span) in pairwise(spans):
        if former.end is None:
            yield Verdict.MISSED, f"{run.label} began while another part ran"
        elif span.start < former.end:
            by = _more(former.end - span.start)
            yield Verdict.MISSED, f"{run.label} began {by} before the former end: a clock set back"


def _pauses(runs: Sequence[PartRun]) -> Iterator[tuple[float, PartRun]]:
    """Yield the seconds before each part of a try but the first."""
    for former, run in pairwise([run for run in runs if run.spans]):
        seconds = _between(former.spans, run.spans)
        if seconds is not None:
            yield seconds, run


def _spans(runs: Sequence[PartRun]) -> list[Span]:
    return [span for run in runs for span in run.spans]


def _between(former: Sequence[Span], latter: Sequence[Span]) -> float | None:
    end = former[-1].end if former else None
    return None if end is None or not latter else latter[0].start - end


def _because(failure: str) -> str:
    return f": {failure}" if failure else ""


def _open_if(is_open: bool) -> Verdict:
    return Verdict.OPEN if is_open else Verdict.MISSED


def _less(seconds: float) -> str:
    """Return minutes and seconds, rounded down."""
    return "{}:{:02} min".format(*divmod(math.floor(seconds), 60))


def _more(seconds: float) -> str:
    """Return minutes and seconds, rounded up."""
    return "{}:{:02} min".format(*divmod(math.ceil(seconds), 60))
