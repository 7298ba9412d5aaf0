"""`benchfarm results …`"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer
from pydantic import TypeAdapter

from controller.cli import (
    report,
    result_lists,
    results_artifacts,
    results_explain,
    results_import,
    results_replicate,
    results_verify,
)
from controller.cli.common import Json, reading, show_json, show_table
from controller.cli.compare import show_comparison
from controller.cli.comparison_options import Knobs, Scenario, SideA, SideB, Workload, wanted_of
from controller.cli.imported_results import imported_results
from controller.cli.outcome_options import OfDevice, OfSweep
from controller.cli.references import device_of, record_of
from controller.cli.results_provenance import show_provenance
from controller.contracts.catalog import load_catalog
from controller.contracts.documents import read_json
from controller.contracts.errors import CopyDamaged, NotFound
from controller.contracts.imported import IMPORTED
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.terminal import say
from controller.reports.stored_comparison import compare_stored
from controller.reports.tables import op_profile_table, outcome_table
from controller.runtime.run_files import RunFiles, name_of
from controller.scheduling.references import find_run
from controller.store.protocol import FarmReader

app = typer.Typer(no_args_is_help=True)
app.command()(report.report)
app.command("list")(result_lists.list_results)
app.command("explain")(results_explain.explain_run)
app.command()(results_replicate.replicate)
app.command()(result_lists.export)
app.command()(results_verify.verify)
app.command("artifacts")(results_artifacts.list_artifacts)
app.command("import")(results_import.import_results)

OP_PROFILE = "op_profile"
"""The artefact that has the operators of a user's program."""
OP_PROFILE_BYTES = 16 * 2**20


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(help="Run id, or its beginning; see `results list`.")],
    provenance: Annotated[
        bool,
        typer.Option(
            "--provenance", help="Show sweep, cell, attempts, software, model, data, files instead."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Show the results and failures of a run.

    Includes all its attempts. With --provenance, walks back to all that they come from, and checks
    whether the files that they left are unchanged.
    """
    if run_id.startswith(IMPORTED):
        _show(_outcomes_of(run_id, imported_results()), None, provenance=provenance, json=json)
        return
    with reading() as store:
        found = _outcomes_of(run_id, [*store.results(), *store.failures()])
        _show(found, store, provenance=provenance, json=json)


def _outcomes_of(
    given: str, outcomes: Sequence[StoredResult | StoredFailure]
) -> list[StoredResult | StoredFailure]:
    """Return the outcomes of the run that is meant; raises NotFound."""
    meant = find_run(given, dict.fromkeys(record.run_id for record in outcomes))
    return [record for record in outcomes if record.run_id == meant]


def _show(
    found: Sequence[StoredResult | StoredFailure],
    store: FarmReader | None,
    *,
    provenance: bool,
    json: bool,
) -> None:
    """Print the outcomes of a run. store: None of imported ones, which no farm has."""
    if provenance:
        show_provenance(found, store, json=json)
        return
    if json:
        show_json(found)
        return
    for record in found:
        show_table(outcome_table(record))
        if store and isinstance(record, StoredResult) and OP_PROFILE in record.artefacts:
            _show_operators(RunFiles(store, record.run_id), record)


def _show_operators(files: RunFiles, record: StoredResult) -> None:
    """Show the operator profile of a result, or say why the head can't."""
    kind = TypeAdapter(list[dict[str, str]])
    path = record.artefacts[OP_PROFILE]
    try:
        one = files.at_hand(record.attempt, name_of(record, path))
        with files.fetched([one]) as folder:
            rows = read_json(kind, folder / one.name, OP_PROFILE_BYTES)
    except (NotFound, CopyDamaged) as error:
        say(f"operator profile: {error}", err=True)
        return
    except UNREADABLE as error:
        say(f"operator profile {path}: {reason(error)}", err=True)
        return
    if rows:
        show_table(op_profile_table(rows, path))


@app.command()
def compare(
    a: SideA,
    b: SideB,
    workload: Workload,
    scenario: Scenario = None,
    device: OfDevice = None,
    knob: Knobs = None,
    sweep: OfSweep = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare results of different conditions, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare two cells by their stored results.

    Uses VALID results only, and interleaved pairs if there are any.
    """
    catalog = load_catalog()
    wanted = wanted_of(catalog, a, b, workload, scenario, knob, device)
    with _reading_of(sweep) as (store, sweep):
        results = store.results(sweep)
        if device is not None and all(result.device != device for result in results):
            wanted = replace(wanted, device=device_of(store, device).device.id)
        remedy = "Choose with `--device`, `--sweep` and `--knob`, or add `--force`."
        found, unlike = compare_stored(results, wanted, catalog, remedy, force=force)
    show_comparison(found, json=json)
    if unlike:
        say(f"compared because of --force: {unlike}", err=True)


@contextmanager
def _reading_of(sweep: str | None) -> Iterator[tuple[FarmReader, str | None]]:
    """Give the store to read, and the id of the sweep that is meant; raises NotFound."""
    with reading() as store:
        yield store, None if sweep is None else record_of(store, sweep).sweep_id
