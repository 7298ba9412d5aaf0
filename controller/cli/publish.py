"""`benchfarm publish`: static pages of chosen sweeps, for anyone to read and to check."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import make_folder, reading, unwound
from controller.cli.imported_results import imported_results
from controller.cli.references import record_of
from controller.cli.report import Imported
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.errors import UserError
from controller.contracts.folders import expanded
from controller.contracts.policy import lab_limits
from controller.contracts.published import PublishedRun
from controller.contracts.version import installed_version
from controller.platform import ssh_signature
from controller.platform.atomic import replacing_folder
from controller.platform.terminal import say
from controller.reports.board_data import board_csv, board_json
from controller.reports.groups import Group
from controller.reports.views.board import BoardData, board_groups, board_view
from controller.reports.views.board_costs import prices_of
from controller.reports.views.board_model import Board
from controller.reports.views.common import Made
from controller.runtime.board_folder import SIGNATURE, SUMS, mark, require_own, write_sums
from controller.runtime.board_runs import BoardRuns
from controller.store.protocol import FarmReader


def publish(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder to write: new, empty, or a board written before."
        ),
    ],
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep", metavar="ID", help="Sweep to publish; repeatable. [default: all sweeps]"
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SSH key that signs the checksums, such as ~/.ssh/id_ed25519."
        ),
    ] = None,
    currency: Annotated[
        str, typer.Option(metavar="WORD", help="Currency of the labels price_per_hour.")
    ] = "",
    imported: Imported = False,
) -> None:
    """Write static pages of results, with their logs and checksums.

    The pages need no server and no network. A failed call leaves the folder as it was.
    """
    tried = f"publish to {folder}"
    target = expanded(folder, tried, "Name a folder of your own.").resolve()
    require_own(target)
    signer = ssh_signature.fingerprint_of(key) if key else ""
    catalog = load_catalog()
    with reading() as store:
        data = _data(store, sweep or (), currency)
        if imported:
            data = replace(data, imported=imported_results())
        make_folder(target.parent)
        try:
            with unwound(), replacing_folder(target) as new:
                board = _write(new, data, catalog, signer, BoardRuns(new, store))
                sums = write_sums(new)
                if key:
                    ssh_signature.sign(sums, key)
                require_own(target)  # something may have come into it meanwhile
        except OSError as error:
            seen = error.strerror or str(error)
            remedy = "Free some room, or name a folder that you can write to."
            raise UserError(tried, seen, remedy) from error
    _tell(folder, board, signer)


def _data(store: FarmReader, sweeps: Sequence[str], currency: str) -> BoardData:
    """Return what is stored of sweeps, of all if none is named; raises NotFound, UserError."""
    records = [record_of(store, given) for given in sweeps] or store.sweeps()
    ids = dict.fromkeys(record.sweep_id for record in records)
    devices = (*store.fleet()[1], *store.forgotten())
    labels = {each.device.id: each.labelled.labels for each in devices}
    return BoardData(
        records=[*{record.sweep_id: record for record in records}.values()],
        results=[result for id_ in ids for result in store.results(id_)],
        failures=[failure for id_ in ids for failure in store.failures(id_)],
        profiled={run.run_id for id_ in ids for run in store.runs(id_) if run.cell.profiled},
        prices=prices_of(labels),
        currency=currency,
    )


def _write(folder: Path, data: BoardData, catalog: Catalog, signer: str, runs: BoardRuns) -> Board:
    """Write all of a board but its checksums; raises OSError."""
    # Late: Jinja and its templates take time to load, and no other command draws.
    from controller.reports.html.board import Proof, board_pages

    groups = board_groups(data, catalog)
    published = _runs(runs, groups.all)
    made = Made(time.time(), installed_version(), lab_limits())
    board = board_view(data, groups, published, catalog, made)
    proof = Proof(SUMS, SIGNATURE, ssh_signature.NAMESPACE, signer)
    pages = [
        *board_pages(board, proof),
        ("data/board.json", board_json(board)),
        ("data/board.csv", board_csv(board)),
    ]
    for name, text in pages:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    mark(folder)
    return board


def _runs(runs: BoardRuns, groups: Sequence[Group]) -> dict[str, PublishedRun]:
    """Write the folder of each result's run; return them by the runs' ids."""
    results = {result.run_id: result for group in groups for result in group.results}
    return {run_id: runs.add(result) for run_id, result in results.items()}


def _tell(folder: Path, board: Board, signer: str) -> None:
    for note in (*board.notes, *_without_logs(board)):
        say(note, err=True)
    rows = sum(len(one.rows) for one in board.rankings)
    said = f"{len(board.rankings)} rankings, {rows} rows, {len(board.devices)} devices"
    say(f"board written to {folder / 'index.html'}: {said}")
    say(f"signed by {signer}" if signer else "unsigned: add --key FILE to sign its checksums")


def _without_logs(board: Board) -> Iterator[str]:
    """Yield a line, if the head lacks logs of any run; its page says which."""
    runs = (run for one in board.rankings for row in one.rows for run in row.runs)
    absent = {run.result.run_id: run.published.absent for run in runs if run.published.absent}
    for id_, why in [*absent.items()][:1]:
        said = f"run {id_}: {next(iter(why.values()))}"
        yield f"{len(absent)} runs are published without all their logs, which pages say; {said}"
