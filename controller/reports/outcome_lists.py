"""Lists of results and failures for a terminal: a table for each task under a scenario. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from controller.contracts.audit import audit_of
from controller.contracts.base import Scalar, utc_minute
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.sweep import side_labels
from controller.reports.figures import HEADINGS, RANDOM, RULES, WEIGHTS, shown
from controller.reports.folding import RowName, mark_of, name_columns, shared_lines
from controller.reports.layout import GAP, HARD_SPACE, Column, Kind, draw, wrapped
from controller.reports.sides import sides_of

NONE: Final = "–"
RATIO: Final = "ratio"
"""The metric of a paired comparison."""
Outcome = TypeVar("Outcome", bound=OutcomeOrigin)
MetricOf = Mapping[str, str]
"""Scenario → the metric that ranks its results."""


def result_lines(results: Sequence[StoredResult], metric_of: MetricOf, width: int) -> list[str]:
    """Return results as tables, oldest first in each; the table with the newest one is last."""

    def columns(of: Sequence[StoredResult]) -> Iterator[Column]:
        metric = RATIO if of[0].versus else metric_of.get(of[0].scenario, "")
        yield Column(
            HEADINGS.get(metric, metric or "result"), [_figure(r, metric) for r in of], Kind.FIGURE
        )
        yield Column("validity", [_validity(result) for result in of], Kind.TEXT)

    return [line for of in _by_task(results) for line in ("", *_table(of, columns, width))][1:]


def failure_lines(failures: Sequence[StoredFailure], width: int) -> list[str]:
    """Return failed attempts as tables, oldest first in each, and what happened below each."""

    def columns(of: Sequence[StoredFailure]) -> Iterator[Column]:
        yield Column("attempt", [str(failure.attempt) for failure in of], Kind.FIGURE)
        yield Column("blame", [failure.blame.value for failure in of], Kind.TEXT)
        yield Column("kind", [failure.kind for failure in of], Kind.TEXT)

    lines: list[str] = []
    for of in _by_task(failures):
        lines += ["", *_table(of, columns, width), *_what_happened(of, width)]
    return lines[1:]


def _what_happened(failures: Sequence[StoredFailure], width: int) -> Iterator[str]:
    """Yield each message once, after the runs that it is of."""
    runs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for failure in failures:
        runs[failure.message][failure.run_id] = None
    for message, ids in runs.items():
        yield from wrapped(f"{', '.join(ids)}: {message}", width, " " * GAP)


def _by_task(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Return outcomes by workload and scenario, paired comparisons apart."""
    groups: dict[tuple[str, str, bool], list[Outcome]] = {}
    for outcome in outcomes:
        key = (outcome.workload, outcome.scenario, outcome.versus is not None)
        group = groups.pop(key, [])
        group.append(outcome)
        groups[key] = group  # so the one with the newest is last
    return list(groups.values())


def _table(
    outcomes: Sequence[Outcome],
    columns: Callable[[Sequence[Outcome]], Iterator[Column]],
    width: int,
) -> Iterator[str]:
    """Yield what all outcomes share, and a table of what differs. columns: what is measured."""
    names = [_name(outcome) for outcome in outcomes]
    started = [utc_minute(o.started_at)[:16].replace(" ", HARD_SPACE) for o in outcomes]
    yield from shared_lines(names, width)
    drawn = draw(
        [
            Column("run", [outcome.run_id for outcome in outcomes], Kind.TEXT),
            *name_columns(names),
            *columns(outcomes),
            Column(f"started{HARD_SPACE}(UTC)", started, Kind.EXTRA),
        ],
        width,
    )
    yield from drawn.lines
    if drawn.left_out:
        left_out = f"left out: {', '.join(drawn.left_out)}; see a wider terminal, or add --json"
        yield from wrapped(left_out, width, " " * GAP)


def _name(outcome: OutcomeOrigin) -> RowName:
    mark = mark_of(
        virtual=outcome.virtual, emulated=outcome.emulated, imported_from=outcome.imported_from
    )
    facts = {"device": outcome.shown_device, "workload": outcome.workload}
    if outcome.versus is None:
        facts |= {"stack": outcome.stack}
    else:
        a, b = (label.replace(":", ": ").replace(",", " ") for label in _sides(outcome))
        facts |= {"A and B": f"{a} vs {b}"}
    return RowName(facts | {"scenario": outcome.scenario}, mark, _knobs(outcome))


def _sides(outcome: OutcomeOrigin) -> tuple[str, str]:
    return side_labels(*sides_of(outcome))


def _knobs(outcome: OutcomeOrigin) -> Mapping[str, Scalar]:
    """Return the knobs of an outcome; of a paired one, those that both sides share."""
    if outcome.versus is None:
        return outcome.knobs
    other = outcome.versus.knobs
    return {n: v for n, v in outcome.knobs.items() if n in other and repr(other[n]) == repr(v)}


def _figure(result: StoredResult, name: str) -> str:
    metric = result.metrics.get(name)
    return shown(metric.value, metric.unit).replace(" ", HARD_SPACE) if metric else NONE


def _validity(result: StoredResult) -> str:
    own = ", by the program's own rules" if RULES in result.environment else ""
    own += f", audit {audit}" if (audit := audit_of(result.knobs)) else ""
    own += ", random weights" if result.environment.get(WEIGHTS) == RANDOM else ""
    return f"{result.validity}{own}{'' if result.counted else ' (late, not counted)'}"
