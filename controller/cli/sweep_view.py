"""How a sweep's status and outcome are shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from rich.table import Table

from controller.cli.common import console, show_json, show_table
from controller.cli.outcome_options import require_tags
from controller.cli.references import record_of
from controller.cli.sweep_annotations import note_lines
from controller.cli.waiting_view import all_waits, waits_of
from controller.contracts.annotations import Note, SweepAnnotations
from controller.contracts.base import Contract, Timestamp
from controller.contracts.catalog import load_catalog
from controller.contracts.policy import lab_limits
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.result import Validity
from controller.contracts.run import Run, RunState
from controller.contracts.waiting import Waiting, WaitingRuns
from controller.platform.terminal import say
from controller.reports.disturbed import rerun_line
from controller.reports.summary import CellSummary, as_csv, summaries_of, summarise, troubles_of
from controller.reports.summary_table import compared_lines, summary_lines
from controller.store.protocol import FarmReader

Form = Literal["table", "json", "csv"]


class SweepStatus(Contract):
    """A sweep and how many of its runs are in each state."""

    sweep_id: str
    name: str
    submitted_at: Timestamp
    user: str
    runs: dict[str, int]
    results: dict[str, int]
    """How many results that count are VALID, DISTURBED and INVALID."""
    waiting: tuple[WaitingRuns, ...] = ()
    """What its open runs wait for."""
    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


class SweepSummary(SweepStatus):
    """A sweep's status and what each of its cells measured, but for paired comparisons."""

    cells: tuple[CellSummary, ...]


def status_of(store: FarmReader, record: SweepRecord) -> SweepStatus:
    """Count a sweep's runs and results."""
    runs, results = store.runs(record.sweep_id), store.results(record.sweep_id)
    is_open = any(not run.state.terminal for run in runs)
    waits = all_waits(store) if is_open else {}
    said = store.annotations(record.sweep_id).get(record.sweep_id)
    return _status(record, runs, results, waits, said)


def _status(
    record: SweepRecord,
    runs: Sequence[Run],
    results: Iterable[StoredResult],
    waits: Mapping[str, Waiting],
    said: SweepAnnotations | None,
) -> SweepStatus:
    states = Counter(run.state.value for run in runs)
    verdicts = Counter(result.validity.value for result in results if result.counted)
    return SweepStatus(
        sweep_id=record.sweep_id,
        name=record.sweep.name,
        submitted_at=record.submitted_at,
        user=record.user,
        runs={state.value: states[state.value] for state in RunState},
        results={verdict.value: verdicts[verdict.value] for verdict in Validity},
        waiting=waits_of(waits, runs),
        tags=said.tags if said else (),
        notes=said.notes if said else (),
    )


def all_met_rules(store: FarmReader, sweep_id: str) -> bool:
    """Return whether every run of a sweep is done, with a VALID or DISTURBED result."""
    status = status_of(store, record_of(store, sweep_id))
    met = sum(status.results[verdict] for verdict in (Validity.VALID, Validity.DISTURBED))
    return met == sum(status.runs.values()) and not store.damage()  # a damaged run is none of these


def show_status(store: FarmReader, tags: frozenset[str], *, json: bool) -> None:
    """List the sweeps that have some tags, or all for none; raises NotFound for an unknown tag."""
    require_tags(tags, store)
    runs_of, results_of = defaultdict(list), defaultdict(list)
    for run in store.runs():
        runs_of[run.sweep_id].append(run)
    for result in store.results():
        results_of[result.sweep_id].append(result)
    waits, said = all_waits(store), store.annotations()
    every = [
        _status(r, runs_of[r.sweep_id], results_of[r.sweep_id], waits, said.get(r.sweep_id))
        for r in store.sweeps()
    ]
    statuses = [status for status in every if tags.issubset(status.tags)]
    if json:
        show_json(statuses)
        return
    tagged = ["tags"] if any(s.tags for s in statuses) else []
    table = Table("sweep", "user", "submitted (UTC)", "runs", *Validity, *tagged)
    for s in statuses:
        runs = ", ".join(f"{count} {state}" for state, count in s.runs.items() if count)
        submitted = s.model_dump(mode="json")["submitted_at"][:19].replace("T", " ")
        counts = (str(s.results[verdict]) for verdict in Validity)
        table.add_row(
            s.sweep_id, s.user, submitted, runs, *counts, *([", ".join(s.tags)] * len(tagged))
        )
    show_table(table)
    for s in statuses:
        for group in s.waiting:
            say(f"{s.sweep_id}: {group.line}")


def show_summary(store: FarmReader, sweep_id: str, form: Form = "table") -> None:
    """Show what a sweep found: the table of its cells, then what went wrong."""
    record = record_of(store, sweep_id)
    sweep_id, status = record.sweep_id, status_of(store, record)
    results, failures = store.results(sweep_id), store.failures(sweep_id)
    found = summarise(results, failures, record.sweep.baseline, load_catalog())
    if form == "json":
        cells = tuple(summaries_of(found.rankings))
        return show_json(SweepSummary(**status.model_dump(), cells=cells))
    if form == "csv":
        return say(as_csv(found.rankings), lines=True, end="")
    runs = ", ".join(f"{count} {state}" for state, count in status.runs.items() if count)
    anything = results or failures
    say(f"{sweep_id}: {runs}" + ("" if anything else "; nothing measured yet"))
    if status.tags:
        say(f"tags: {', '.join(status.tags)}")
    for line in note_lines(status.notes):
        say(line)
    width, see_all = console().width, f"`benchfarm sweep status {sweep_id} --csv`"
    lines = summary_lines(found.rankings, width, see_all)
    if found.compared:
        lines = [*compared_lines(found.compared, width), *lines]
    for line in lines:
        say(line)
    for group in status.waiting:
        say(group.line)
    if disturbed := rerun_line(results, lab_limits()):
        say(disturbed)
    for trouble in dict.fromkeys([*troubles_of(found), *_paired_troubles(results, failures)]):
        say(f"  {trouble}")
    return None


def _paired_troubles(
    results: Sequence[StoredResult], failures: Sequence[StoredFailure]
) -> Iterator[str]:
    """Yield what went wrong in paired comparisons."""
    for result in results:
        if result.counted and result.versus:
            of = f"{result.shown_device} {result.workload}: {result.validity}: "
            yield from (of + reason for reason in result.reasons)
    for failure in failures:
        if failure.counted and failure.versus:
            said = f"{failure.blame}: {failure.message}"
            yield f"{failure.shown_device} {failure.workload}: {said}"
