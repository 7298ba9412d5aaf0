"""`benchfarm results list` and `export`; of its imports, none takes a tenth of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from controller.cli.common import (
    Json,
    console,
    reading,
    show_json,
    write_file,
    write_stream,
)
from controller.cli.imported_results import imported_results, those_of
from controller.cli.outcome_options import (
    OfDevice,
    OfKnobs,
    OfScenario,
    OfStack,
    OfSweep,
    OfTags,
    OfValidity,
    OfWorkload,
    Since,
    Until,
    filter_of,
    require_known,
)
from controller.cli.references import device_of, record_of
from controller.contracts.catalog import load_catalog, ranking_metrics
from controller.contracts.errors import NotFound, UserError
from controller.contracts.imported import ImportedResult
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.records import StoredFailure, StoredResult
from controller.platform.terminal import say
from controller.reports.export import as_csv, as_json
from controller.reports.lines import lines_of
from controller.reports.outcome_lists import failure_lines, result_lines
from controller.store.protocol import FarmReader

SHOWN: Final = 200
"""Results that a table has, unless --last says otherwise."""
_TEXTS: Final[Mapping[str, Callable[[Sequence[StoredResult]], str]]] = {
    "json": as_json,
    "jsonl": lambda results: lines_of(results).decode(),
    "csv": as_csv,
}
NOT_OURS: Final = "imported: measured and published by others, and not checked here"


def list_results(
    sweep: OfSweep = None,
    tag: OfTags = None,
    device: OfDevice = None,
    workload: OfWorkload = None,
    stack: OfStack = None,
    scenario: OfScenario = None,
    knob: OfKnobs = None,
    since: Since = None,
    until: Until = None,
    validity: OfValidity = None,
    last: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"How many of the newest; 0 means all. [default: {SHOWN} in tables, else all]",
        ),
    ] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="List failed attempts instead.")
    ] = False,
    imported: Annotated[
        bool, typer.Option("--imported", help="List imported results instead.")
    ] = False,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a line a metric.")] = False,
) -> None:
    """List results, oldest first."""
    _require_one_form(failures=failures, json=json, csv=csv, validity=validity)
    if failures and imported:
        raise UserError("list imported failures", "none are imported", "Leave one out.")
    newest = (None if json or csv else SHOWN) if last is None else last or None
    asked = filter_of(
        tag=tag,
        workload=workload,
        stack=stack,
        scenario=scenario,
        knob=knob,
        since=since,
        until=until,
        validity=validity,
    )
    if imported:
        wanted = replace(asked, sweep_id=sweep, device=device)
        return _show_imported(those_of(imported_results(), wanted), newest, json=json, csv=csv)
    with reading() as store:
        wanted = _meant(store, asked, sweep, device)
        if failures:
            failed, count = store.selected_failures(wanted, newest)
            _show(store, wanted, failed, count, json=json, csv=csv)
        else:
            measured, count = store.selected_results(wanted, newest)
            _show(store, wanted, measured, count, json=json, csv=csv)
    return None


def _show_imported(
    found: Sequence[ImportedResult], newest: int | None, *, json: bool, csv: bool
) -> None:
    """Print imported results in one form. newest: how many of them, at most."""
    shown = found[-newest:] if newest else found
    if json:
        return show_json(shown)
    if csv:
        return say(as_csv(shown), lines=True, end="")
    metric_of = ranking_metrics({result.scenario for result in shown})
    for line in result_lines(shown, metric_of, console().width):
        say(line)
    if len(shown) < len(found):
        say(f"the newest {len(shown)} of {len(found)}; to see all, add --last 0")
    say(
        NOT_OURS if found else "nothing is imported that fits; see: benchfarm results import --help"
    )
    return None


def _require_one_form(*, failures: bool, json: bool, csv: bool, validity: str | None) -> None:
    """Raise UserError for options that exclude each other."""
    if csv and (json or failures):
        why = "--json asks for another format" if json else "failures have no metrics"
        form = "--csv" if json else "--failures --json"
        raise UserError("print CSV", why, f"Run `benchfarm results list {form}`.")
    if failures and validity:
        why = "a failed attempt has no result that could be valid"
        raise UserError(f"list failures with --validity {validity}", why, "Leave one out.")


def _show(
    store: FarmReader,
    wanted: OutcomeFilter,
    found: Sequence[StoredResult] | Sequence[StoredFailure],
    count: int,
    *,
    json: bool,
    csv: bool,
) -> None:
    """Print outcomes in one form. count: how many there are with those that are not shown."""
    if not count:
        require_known(wanted, store, load_catalog())
    results = [one for one in found if isinstance(one, StoredResult)]
    if json:
        return show_json(found)
    if csv:
        return say(as_csv(results), lines=True, end="")
    metric_of = ranking_metrics({result.scenario for result in results})
    failed = [one for one in found if isinstance(one, StoredFailure)]
    width = console().width
    for line in (*result_lines(results, metric_of, width), *failure_lines(failed, width)):
        say(line)
    for line in _notes(store, wanted, len(found), count, failures=bool(failed)):
        say(line)
    return None


def _notes(
    store: FarmReader, wanted: OutcomeFilter, shown: int, count: int, *, failures: bool
) -> Iterator[str]:
    """Yield what is to be said below the tables."""
    if not count:
        yield "nothing is stored that fits"
    if shown < count:
        yield f"the newest {shown} of {count}; to see all, add --last 0"
    if not failures and wanted.validity is None:
        failed = store.selected_failures(wanted, 1)[1]
        if failed:
            yield f"{failed} attempts failed; see: benchfarm results list --failures"


def export(
    output: Annotated[
        Path, typer.Argument(help="File, or folder of mlperf-mobile; the one above must exist.")
    ],
    sweep: OfSweep = None,
    tag: OfTags = None,
    device: OfDevice = None,
    workload: OfWorkload = None,
    stack: OfStack = None,
    scenario: OfScenario = None,
    knob: OfKnobs = None,
    since: Since = None,
    until: Until = None,
    validity: OfValidity = None,
    form: Annotated[
        Literal["json", "jsonl", "csv", "parquet", "mlperf-mobile", "app"],
        typer.Option(
            "--format",
            help="Format; jsonl has a result a line, csv and parquet one per metric, mlperf-mobile"
            " is a submission's tree, app the mobile app's JSON.",
        ),
    ] = "json",
) -> None:
    """Write results to a file, or as a submission's tree."""
    asked = filter_of(
        tag=tag,
        workload=workload,
        stack=stack,
        scenario=scenario,
        knob=knob,
        since=since,
        until=until,
        validity=validity,
    )
    with reading() as store:
        wanted = _meant(store, asked, sweep, device)
        if form == "parquet":
            # Late: pyarrow, which takes long to load.
            from controller.cli.results_table import table_file

            with table_file(store, wanted) as (file, count):
                if not count:
                    require_known(wanted, store, load_catalog())
                write_stream(output, file)
            return say(f"{count} results written to {output}")
        results, count = store.selected_results(wanted)
        if not count:
            require_known(wanted, store, load_catalog())
        if form in ("mlperf-mobile", "app"):
            # Late: no other format needs it.
            from controller.cli.results_submission import export_app_json, export_tree

            write = export_tree if form == "mlperf-mobile" else export_app_json
            return write(store, results, output)
    write_file(output, _TEXTS[form](results))
    say(f"{len(results)} results written to {output}")
    return None


def _meant(
    store: FarmReader, asked: OutcomeFilter, sweep: str | None, device: str | None
) -> OutcomeFilter:
    """Return a filter with the ids of what was typed; raises NotFound for an unknown sweep.

    Of a device that the farm has had, results may be all that is left: its id stays.
    """
    sweep_id = None if sweep is None else record_of(store, sweep).sweep_id
    try:
        device_id = (
            None if device is None else device_of(store, device, or_forgotten=True).device.id
        )
    except NotFound:
        device_id = device
    return replace(asked, sweep_id=sweep_id, device=device_id)
