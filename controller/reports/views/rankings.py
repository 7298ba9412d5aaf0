"""Rankings: which cells are ranked together, and the rows of each ranking. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.contracts.catalog import Catalog
from controller.contracts.errors import NotFound
from controller.contracts.records import OutcomeOrigin
from controller.contracts.work import Work, work_of
from controller.reports.groups import Group
from controller.reports.views.columns import columns_of, with_stacks
from controller.reports.views.model import Columns, Ranking, Row
from controller.reports.views.reference import Reference
from controller.reports.views.rows import Candidate, advantage, candidates_of, rows_of
from controller.reports.views.verdicts import (
    NOTHING_VALID,
    best_verdict,
    disturbed_verdict,
    subject_verdicts,
)

Task = tuple[Work, bool]
"""What is computed, and whether a virtual device did it."""


def rankings_of(
    groups: Sequence[Group],
    reference: Reference,
    catalog: Catalog,
    published: Sequence[Group] = (),
) -> tuple[Ranking, ...]:
    """Return a ranking for each task, in order of appearance; a virtual one follows the real one.

    published: imported groups, which get rows in the rankings of the same tasks. They make no
    ranking, are no reference, and change neither columns nor verdicts. Raises NotFound for a
    scenario of a group that this release's catalogue lacks.
    """
    tasks: dict[Task, list[Group]] = {}
    for group in groups:
        tasks.setdefault(_task(group.origin, catalog), []).append(group)
    theirs: dict[Task, list[Group]] = {}
    for group in published:
        if group.origin.scenario in catalog.scenarios:
            theirs.setdefault(_task(group.origin, catalog), []).append(group)
    first = {work: number for number, (work, _) in reversed(list(enumerate(tasks)))}
    ordered = sorted(tasks, key=lambda task: (first[task[0]], task[1]))
    return tuple(
        _ranking(
            (f"ranking-{number}", _apart(task, ordered)),
            tasks[task],
            theirs.get(task, []),
            reference,
            catalog,
        )
        for number, task in enumerate(ordered, start=1)
    )


def _task(origin: OutcomeOrigin, catalog: Catalog) -> Task:
    """Return what a cell does: only cells that do the same are ranked together."""
    if origin.scenario not in catalog.scenarios:
        raise NotFound(
            f"rank {origin.workload}",
            f"this release has no scenario {origin.scenario}",
            "Use the release that measured it.",
        )
    work = work_of(catalog, origin.workload, origin.scenario, origin.stack, origin.knobs)
    return work, origin.virtual


def _apart(task: Task, tasks: Sequence[Task]) -> str:
    """Return the knobs of a task that differ from other tasks of its workload, as text."""
    work, _ = task
    alike = [dict(other.problem) for other, _ in tasks if other.workload == work.workload]
    varying = [(n, v) for n, v in work.problem if any(other.get(n) != v for other in alike)]
    return " ".join(f"{name}={value}" for name, value in varying)


def _ranking(
    named: tuple[str, str],
    groups: Sequence[Group],
    published: Sequence[Group],
    reference: Reference,
    catalog: Catalog,
) -> Ranking:
    """named: the ranking's anchor, and what sets its problem apart."""
    anchor, problem = named
    origin = groups[0].origin
    workload = catalog.workloads.get(origin.workload)
    columns = columns_of(groups, catalog, published)
    candidates = candidates_of(groups, columns)
    rows = rows_of(candidates, columns, reference)
    verdicts = _verdicts(candidates, rows, columns, reference)
    if published:
        columns = with_stacks(columns, [*groups, *published])
        rows = rows_of(candidates_of([*groups, *published], columns), columns, reference)
    return Ranking(
        anchor=anchor,
        workload=origin.workload,
        workload_title=workload.title if workload else "",
        scenario=origin.scenario,
        scenario_title=catalog.scenarios[origin.scenario].title,
        virtual=origin.virtual,
        problem=problem,
        columns=columns,
        reference=reference.name,
        rows=rows,
        verdicts=verdicts,
    )


def _verdicts(
    candidates: Sequence[Candidate], rows: Sequence[Row], columns: Columns, reference: Reference
) -> tuple[str, ...]:
    if not columns.compares_speed:
        nothing = "" if any(row.rank for row in rows) else NOTHING_VALID
        return tuple(verdict for verdict in (nothing, disturbed_verdict(rows)) if verdict)
    if any(row.subject for row in rows):
        return tuple(subject_verdicts(rows, columns, reference.name))
    lead = advantage(candidates[0], candidates[1], columns) if len(candidates) > 1 else None
    verdicts = best_verdict(rows, lead, columns), disturbed_verdict(rows)
    return tuple(verdict for verdict in verdicts if verdict)
