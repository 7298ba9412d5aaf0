"""How sessions of the mobile suite are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.table import Table

from controller.cli.common import show_table
from controller.contracts.catalog import ranking_metrics
from controller.contracts.device import RegisteredDevice, likeness
from controller.contracts.errors import NotFound
from controller.contracts.result import Validity
from controller.contracts.suite_rules import SuiteRules, load_suites
from controller.contracts.suite_session import (
    PartSummary,
    PartTry,
    RuleVerdict,
    SessionSummary,
    Verdict,
    session_rules,
)
from controller.contracts.units import Unit
from controller.platform.terminal import say
from controller.reports.figures import HEADINGS, shown
from controller.scheduling.suite_plan import version_of
from controller.scheduling.suite_session import Session
from controller.scheduling.suite_summary import summary_of
from controller.scheduling.suite_verdicts import Judge
from controller.store.protocol import FarmReader

REASONS_SHOWN: Final = 6
"""Reasons of a rule that a table has; `--json` has all."""
NONE: Final = "–"
NO_TARGET: Final = "no target printed"


def version_rules(version: str) -> SuiteRules:
    """Return the rules of a version; raises NotFound."""
    known = {rules.version: rules for rules in load_suites()}
    if version not in known:
        seen = "there is no such version of the suite"
        raise NotFound(f"find {version[:20]}", seen, f"Known: {', '.join(known)}.")
    return known[version]


def judge_of(version: str) -> Judge:
    """Return the judge of sessions of a version; raises NotFound."""
    rules = version_rules(version)
    return Judge(rules, session_rules(), ranking_metrics(set(rules.scenarios)))


def summaries_of(store: FarmReader, sessions: Sequence[Session]) -> list[SessionSummary]:
    """Return the summaries of sessions."""
    devices = {each.device.id: each for each in store.fleet()[1]}
    return [_summary(session, devices) for session in sessions]


def _summary(session: Session, devices: dict[str, RegisteredDevice]) -> SessionSummary:
    judge = judge_of(version_of(session.id))
    spans = session.spans()
    id_ = spans[0].device if spans else ""
    known = devices.get(id_)
    return summary_of(session, judge, id_, virtual=known is not None and known.device.virtual)


def show_sessions(summaries: Sequence[SessionSummary]) -> None:
    """Print a line for each session."""
    table = Table("session", "suite", "device", "tries", "results", *Verdict)
    for one in summaries:
        measured = [t for part in one.parts for t in part.tries]
        results = f"{sum(t.validity is not None for t in measured)} of {len(measured)}"
        counts = (str(sum(r.verdict is verdict for r in one.rules)) for verdict in Verdict)
        device = f"{one.device or NONE}{likeness(virtual=one.virtual)}"
        suite = f"{one.suite} ({one.verification})"
        table.add_row(one.session, suite, device, str(one.tries), results, *counts)
    show_table(table)
    if summaries:
        say(summaries[0].note)


def show_session(found: SessionSummary, device: str) -> None:
    """Print what a session measured, and which rules it meets. device: its name."""
    kind = likeness(virtual=found.virtual)
    surrogates = ", with surrogate models" if found.surrogates else ""
    say(f"{found.suite} ({found.verification}) on {device}{kind}{surrogates}")
    say(f"session {found.session}: {found.tries} of {session_rules().tries} tries")
    numbers = range(1, found.tries + 1)
    heads = ("task", "scenario", f"result ({found.verification})", *(f"try {n}" for n in numbers))
    table = Table(*heads, "spread", "accuracy")
    for part in found.parts:
        cells = [_cell(part, number) for number in numbers]
        metric = HEADINGS.get(part.metric, part.metric)
        spread = NONE if part.spread is None else f"{part.spread:.1%}"
        table.add_row(part.workload, part.scenario, metric, *cells, spread, _accuracy(part))
    show_table(table)
    rules = Table("rule of a session", "", "why")
    for rule in found.rules:
        rules.add_row(rule.rule, rule.verdict, "\n".join(reasons(rule)))
    show_table(rules)
    missed = sum(rule.verdict is Verdict.MISSED for rule in found.rules)
    if found.meets_rules:
        say(f"meets the rules of {found.suite} for a session")
    else:
        opened = sum(rule.verdict is Verdict.OPEN for rule in found.rules)
        say(f"does not meet the rules of {found.suite}: {missed} missed, {opened} open")
    say(found.note)


def reasons(rule: RuleVerdict) -> Iterator[str]:
    """Yield why a rule is not met, the first few reasons of many."""
    yield from rule.why[:REASONS_SHOWN]
    if (more := len(rule.why) - REASONS_SHOWN) > 0:
        yield f"and {more} more"


def _cell(part: PartSummary, number: int) -> str:
    tried = next((one for one in reversed(part.tries) if one.number == number), None)
    if tried is None:
        return NONE
    return f"{_value(tried, part.unit)}{_unless_valid(tried)}"


def _value(tried: PartTry, unit: Unit | None) -> str:
    if tried.validity is None:
        return tried.state
    return NONE if tried.value is None or unit is None else shown(tried.value, unit)


def _unless_valid(tried: PartTry) -> str:
    return "" if tried.validity in (None, Validity.VALID) else f" {tried.validity}"


def _accuracy(part: PartSummary) -> str:
    unit, found = part.accuracy_unit, [t.accuracy for t in part.tries if t.accuracy is not None]
    if unit is None or not found:
        return NONE
    least, most = (shown(value, unit) for value in (min(found), max(found)))
    between = least if least == most else f"{least} to {most}"
    target = f", {NO_TARGET}" if part.target_unknown else ""
    return f"{HEADINGS.get(part.accuracy_metric, part.accuracy_metric)} {between}{target}"
