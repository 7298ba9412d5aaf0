"""`benchfarm results replicate`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import typer
from rich.table import Table

from controller.cli.common import (
    Json,
    parse_seconds,
    reading_here,
    require_this_host,
    show_json,
    show_table,
)
from controller.cli.references import device_of
from controller.cli.results_audit import Audit, show_audit
from controller.cli.session_farm import DeviceFarm, carry_on
from controller.cli.suite_view import reasons
from controller.contracts.audit import AuditCheck
from controller.contracts.catalog import Catalog, load_catalog, ranking_metrics
from controller.contracts.device import Device
from controller.contracts.errors import UserError
from controller.contracts.records import StoredResult
from controller.contracts.replication import ReplicationSummary
from controller.contracts.suite_session import session_rules
from controller.platform.terminal import say
from controller.reports.figures import HEADINGS, shown
from controller.runtime.suite_runner import SessionRunner
from controller.runtime.suite_sessions import part_run
from controller.scheduling.binding import only
from controller.scheduling.placement import objections
from controller.scheduling.references import find_run
from controller.scheduling.replication import (
    RATIO,
    Replication,
    ReplicationPlan,
    require_auditable,
    require_same_cell,
    summary_of,
)
from controller.scheduling.suite_plan import places_of
from controller.scheduling.suite_session import Pauses, Session, in_order
from controller.store.protocol import FarmReader

NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class _Original:
    """The run that is to be replicated."""

    result: StoredResult
    plan: ReplicationPlan
    device: Device
    devices: frozenset[str]
    """Those that measured it: of a run on several hosts all of them."""
    newest: str | None
    """Id of its newest replication; None if there is none."""

    def session(self, again: bool) -> str:
        """Return the id of the replication that goes on, or of the next."""
        if self.newest and not again:
            return self.newest
        return self.plan.session(1 + (self.plan.number(self.newest) if self.newest else 0))


def replicate(
    run_id: Annotated[str, typer.Argument(help="Run id, or its beginning; see `results list`.")],
    tries: Annotated[
        int, typer.Option(min=1, max=100, help="Tries; MLPerf Mobile's rule asks for 5.")
    ] = 5,
    wait: Annotated[
        str, typer.Option(metavar="LENGTH", help="Wait between tries; the rule asks for 5m.")
    ] = "5m",
    check: Annotated[
        AuditCheck | None,
        typer.Option(help="Audit the result instead: run its cell with this variation."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Start a new replication, whatever there is.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a run's cell again, and say whether its result replicates.

    Runs the same cell on the same device, with waits between. The result replicates if it and all
    tries are within 5 % in speed and accuracy. With --check, the runs are an audit's, and count as
    no result: cache repeats samples, cold-start leaves the warm-up out, random-data swaps the data
    for random. The same call continues what was broken off. Exit status 0 if the result replicates
    or passes.
    """
    require_this_host("replicate a run")
    pauses = Pauses(0.0, parse_seconds("--wait", wait))
    catalog = load_catalog()
    with reading_here() as store:
        original = _original(store, run_id, catalog, check)
    require_same_cell(original.plan, catalog)
    result, plan = original.result, original.plan
    id_ = original.session(again)
    farm = DeviceFarm(original.device, id_, partial(_read, plan, id_), quiet=json)
    tell = partial(say, err=json)
    if check:
        require_auditable(plan, catalog)
        audit = Audit(result, check, tries)
        tell(f"run {result.run_id} on {result.device_label}: {tries} tries, audit {id_}")
        carry_on(SessionRunner(plan, tries, pauses, farm, audit.verdicts, tell))
        audited = audit.summary(farm.session())
        show_json(audited) if json else show_audit(audited)
        raise typer.Exit(0 if audited.passes else 1)
    metric = _metric(result)
    replication = Replication(result, original.devices, metric, session_rules(), tries)
    tell(f"run {result.run_id} on {result.device_label}: {tries} tries, replication {id_}")
    carry_on(SessionRunner(plan, tries, pauses, farm, replication.verdicts, tell))
    found = summary_of(replication, farm.session())
    show_json(found) if json else _show(found)
    raise typer.Exit(0 if found.replicates else 1)


def _metric(result: StoredResult) -> str:
    """Return the metric that has to replicate; raises UserError if the result lacks it."""
    metric = RATIO if result.versus else ranking_metrics({result.scenario})[result.scenario]
    if metric not in result.metrics:
        seen = f"its result lacks {metric}"
        raise UserError(f"replicate run {result.run_id}", seen, "Choose another run.")
    return metric


def _original(
    store: FarmReader, run_id: str, catalog: Catalog, check: AuditCheck | None
) -> _Original:
    """Return the run that is meant; raises NotFound, and UserError if it can't be replicated."""
    results, failures = store.results(), store.failures()
    meant = find_run(run_id, dict.fromkeys(record.run_id for record in (*results, *failures)))
    result = next((r for r in results if r.run_id == meant and r.counted), None)
    run = store.run(meant)
    if result is None or run is None:
        seen = "it has no result that counts" if run else "its record can't be read"
        raise UserError(f"replicate run {meant}", seen, "Choose one of `benchfarm results list`.")
    device = device_of(store, result.device)
    used = next(a.device_ids for a in run.attempts if a.number == result.attempt)
    others = [d.labelled for d in store.fleet()[1] if d.device.id not in used]
    alone = all(objections(run.cell, other, catalog) for other in others)
    plan = ReplicationPlan(run, run.cell.selector if alone else only(*sorted(used)), check)
    known = {place.session for place in places_of(store.sweeps(), plan.place_of).values()}
    newest = max(known, key=plan.number, default=None)
    return _Original(result, plan, device.labelled, used, newest)


def _read(plan: ReplicationPlan, id_: str, store: FarmReader) -> Session:
    run_of = {run.sweep_id: run for run in store.runs() if run.position == 0}
    readable = (record for record in store.sweeps() if record.sweep_id in run_of)
    found = (
        part_run(store, place, run_of[sweep_id])
        for sweep_id, place in places_of(readable, plan.place_of).items()
        if place.session == id_
    )
    return Session(id_, in_order(found))


def _show(found: ReplicationSummary) -> None:
    heading = HEADINGS.get(found.metric, found.metric)
    title = f"{found.workload} {found.scenario} on {found.device}"
    table = Table(
        "", heading, "from the original", "validity", "run", title=title, title_justify="left"
    )
    table.add_row("original", shown(found.value, found.unit), "", "", found.run_id)
    for one in found.tries:
        value = NONE if one.value is None else shown(one.value, found.unit)
        apart = NONE if one.deviation is None else f"{one.deviation:+.1%}"
        table.add_row(f"try {one.number}", value, apart, one.validity or one.state, one.run_id)
    show_table(table)
    for name, spread in found.spreads.items():
        say(f"{HEADINGS.get(name, name)}: within {spread * 100:.2f} %")
    for rule in found.rules:
        why = "; ".join(reasons(rule))
        say(f"{rule.rule}: {rule.verdict}{f', {why}' if why else ''}")
    limit = f"{found.limit * 100:.0f} %"
    say(f"replicates within {limit}" if found.replicates else f"does not replicate within {limit}")
