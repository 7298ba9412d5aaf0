"""`benchfarm results report`: one HTML file that says it all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import reading, write_file
from controller.cli.imported_results import imported_results
from controller.cli.references import device_of, record_of
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import NotFound
from controller.contracts.imported import ImportedResult
from controller.contracts.policy import lab_limits
from controller.contracts.records import OutcomeOrigin
from controller.contracts.version import installed_version
from controller.platform.terminal import say
from controller.reports.views.common import Made
from controller.reports.views.comparison import comparison_view
from controller.reports.views.model import ReportView
from controller.reports.views.sweep import SweepData, sweep_view
from controller.store.protocol import FarmReader

Subjects = Annotated[
    list[str],
    typer.Argument(
        help="One sweep; or several sweeps, devices or cells, compared with the first.",
        metavar="SWEEP | A B …",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File to write. [default: A-vs-B.html]"),
]


Imported = Annotated[
    bool,
    typer.Option("--imported", help="Rank published results of the same tasks, too."),
]


def report(subjects: Subjects, output: Output = None, imported: Imported = False) -> None:
    """Write a sweep or a comparison as one HTML file.

    The file needs no network.
    """
    path = output or Path(f"{'-vs-'.join(subjects)}.html".replace("/", "_"))
    write_report(subjects, path, imported_results() if imported else ())
    say(f"report written to {path}")


def write_report(subjects: list[str], path: Path, imported: Sequence[ImportedResult] = ()) -> None:
    """Write the report of a sweep, or of a comparison; raises NotFound, Incomparable, UserError.

    imported: published results that have rows in rankings of the same tasks.
    """
    # Late: Jinja and its templates take time to load, and no other command draws.
    from controller.reports.html.report import report_html

    with reading() as store:
        if len(subjects) == 1:
            view = _sweep(store, subjects[0], imported)
        else:
            view = _comparison(store, subjects, imported)
    write_file(path, report_html(view))


def _sweep(store: FarmReader, sweep_id: str, imported: Sequence[ImportedResult] = ()) -> ReportView:
    record = record_of(store, sweep_id)
    data = SweepData(
        record=record,
        runs=store.runs(record.sweep_id),
        results=store.results(record.sweep_id),
        failures=store.failures(record.sweep_id),
        annotations=store.annotations(record.sweep_id).get(record.sweep_id),
        imported=imported,
    )
    return sweep_view(data, load_catalog(), _made())


def _comparison(
    store: FarmReader, subjects: list[str], imported: Sequence[ImportedResult]
) -> ReportView:
    results, failures = store.results(), store.failures()
    outcomes: list[OutcomeOrigin] = [*results, *failures]
    ids = {id_ for one in outcomes for id_ in (one.sweep_id, one.device, one.cell_key)}
    meant = [one if one in ids else _meant(store, one) for one in subjects]
    return comparison_view(meant, results, failures, load_catalog(), _made(), imported)


def _meant(store: FarmReader, given: str) -> str:
    """Return the id of the sweep or device that is meant; as it is if there is none."""
    with suppress(NotFound):
        return record_of(store, given).sweep_id
    with suppress(NotFound):
        return device_of(store, given).device.id
    return given


def _made() -> Made:
    return Made(time.time(), installed_version(), lab_limits())
