"""The common parts of the reports of sweeps and comparisons. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controller.contracts.catalog import Catalog
from controller.contracts.imported import ImportedResult
from controller.contracts.policy import HostLimits
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.result import Validity
from controller.contracts.sweep import side_labels
from controller.reports.capabilities import capabilities
from controller.reports.disturbed import rerun_line
from controller.reports.groups import Group, grouped
from controller.reports.sides import sides_of
from controller.reports.views.compared import compared_of, uncompared_of
from controller.reports.views.conditions import conditions_of, device_name
from controller.reports.views.delegates import delegates_of
from controller.reports.views.model import DeviceName, Failed, Ranking, Rejected, ReportView
from controller.reports.views.rankings import rankings_of
from controller.reports.views.reference import Reference
from controller.reports.views.scoreboard import scoreboards_of


@dataclass(frozen=True, slots=True)
class Made:
    """Time (seconds since the epoch) and version with which a report was made."""

    at: float
    version: str
    lab: HostLimits
    """The limits of policy `lab`."""


def view_of(
    *,
    title: str,
    description: str,
    facts: Mapping[str, str],
    groups: Sequence[Group],
    results: Sequence[StoredResult],
    failures: Sequence[StoredFailure],
    reference: Reference,
    catalog: Catalog,
    imported: Sequence[ImportedResult] = (),
) -> ReportView:
    """Return the view of outcomes; groups: the counted outcomes among them.

    imported: published results, which have rows in the rankings of the same tasks and are told of
    nowhere else but in the facts.
    """
    own = rankings_of(groups, reference, catalog)
    rankings = own
    if imported:
        rankings = rankings_of(groups, reference, catalog, grouped(imported, []))
    outcomes: list[StoredResult | StoredFailure] = [*results, *failures]
    names, paired = names_of(outcomes), _comparable(results, catalog)
    told = {**facts, **imported_facts(rankings), "Not compared": "; ".join(uncompared_of(paired))}
    return ReportView(
        title=title,
        description=description,
        facts=tuple((n, v) for n, v in told.items() if v),
        scoreboards=scoreboards_of(own),
        rankings=rankings,
        compared=compared_of(paired, names, catalog),
        delegates=delegates_of(capabilities(outcomes), names),
        rejected=tuple(_rejected(r, names) for r in results if not _counts(r)),
        failed=tuple(_failed(f, names) for f in failures),
        conditions=conditions_of([*groups, *_paired_groups(results)], catalog.own_facts),
        any_virtual=any(name.virtual for name in names.values()),
    )


def _comparable(results: Sequence[StoredResult], catalog: Catalog) -> list[StoredResult]:
    """Return those of paired comparisons that this release, with its plugins, knows."""
    return [r for r in results if r.versus and r.counted and r.scenario in catalog.scenarios]


def imported_facts(rankings: Sequence[Ranking]) -> dict[str, str]:
    """Return what is said of published results that have rows."""
    rows = [row for ranking in rankings for row in ranking.rows if row.device.imported_from]
    rounds = sorted({row.device.imported_from for row in rows})
    if not rows:
        return {}
    said = f"{len(rows)} of {', '.join(rounds)}, measured by their submitters"
    return {"Imported": f"{said}, and not checked here"}


def names_of(outcomes: Sequence[StoredResult | StoredFailure]) -> dict[str, DeviceName]:
    """Return the name of each device that has outcomes, by its id."""
    of_device: dict[str, list[StoredResult | StoredFailure]] = defaultdict(list)
    for outcome in outcomes:
        of_device[outcome.device].append(outcome)
    return {device: device_name(own[-1], own) for device, own in of_device.items()}


def measured_facts(results: Sequence[StoredResult], made: Made) -> dict[str, str]:
    """Return the facts shown in every report: number of results, devices, times."""
    verdicts = {v: sum(r.counted and r.validity is v for r in results) for v in Validity}
    late = sum(not r.counted for r in results)
    counts = [f"{count} {verdict}" for verdict, count in verdicts.items() if count]
    counts += [f"{late} late, not counted"] if late else []
    spans = [measured_span(r) for r in results]
    devices = {r.device: r.virtual for r in results}
    virtual = sum(devices.values())
    return {
        "Results": ", ".join(counts) or "none",
        "Disturbed": rerun_line(results, made.lab),
        "Devices": f"{len(devices)}" + (f", of which {virtual} virtual" if virtual else ""),
        "Measured": _from_to([began for began, _ in spans], [ended for _, ended in spans]),
        "Report made": f"{moment(made.at)} by benchfarm {made.version}",
    }


def measured_span(result: StoredResult) -> tuple[float, float]:
    """Return when a result was measured, from its begin to its end.

    A comparison tells when its turns were; of any other result it is from the attempt's begin to
    the arrival of its outcome.
    """
    began, facts = result.started_at, result.environment
    setup_s, compared_s = facts.get("setup_s"), facts.get("compared_s")
    if result.versus and isinstance(setup_s, int | float) and isinstance(compared_s, int | float):
        return began + setup_s, began + setup_s + compared_s
    return began, max(began, result.recorded_at or began)


def _from_to(begins: Sequence[float], ends: Sequence[float]) -> str:
    return f"{moment(min(begins))} to {moment(max(ends))}" if begins else ""


def moment(seconds: float) -> str:
    """Return a time since the epoch as UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _paired_groups(results: Sequence[StoredResult]) -> list[Group]:
    """Return a group for each paired result that counts: their conditions are told, too."""
    return [Group([r], []) for r in results if r.versus and r.counted]


def _counts(result: StoredResult) -> bool:
    return result.validity is Validity.VALID and result.counted


def _rejected(result: StoredResult, names: Mapping[str, DeviceName]) -> Rejected:
    late = "" if result.counted else ", late: not counted"
    return Rejected(
        run_id=result.run_id,
        device=names[result.device],
        cell=_cell(result),
        validity=f"{result.validity}{late}",
        reasons=result.reasons,
    )


def _failed(failure: StoredFailure, names: Mapping[str, DeviceName]) -> Failed:
    return Failed(
        run_id=failure.run_id,
        attempt=failure.attempt,
        device=names[failure.device],
        cell=_cell(failure),
        blame=failure.blame,
        kind=failure.kind,
        message=failure.message,
        output=failure.output,
    )


def _cell(origin: OutcomeOrigin) -> str:
    what = " vs ".join(side_labels(*sides_of(origin))) if origin.versus else origin.stack
    return f"{origin.workload} · {what} · {origin.scenario}"
