"""`benchfarm results show --provenance`."""

from __future__ import annotations

from collections.abc import Sequence

from controller.cli.common import show_json
from controller.contracts.catalog import load_catalog
from controller.contracts.device import RegisteredAgent
from controller.contracts.provenance import FileState
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.platform.terminal import say
from controller.reports.provenance import provenance_lines, provenance_of, wanted_files
from controller.runtime.kept_files import states_of
from controller.runtime.run_files import RunFiles
from controller.store.protocol import FarmReader


def show_provenance(
    outcomes: Sequence[StoredResult | StoredFailure], store: FarmReader | None, *, json: bool
) -> None:
    """Show where the outcomes of one run come from. store: None of imported ones."""
    run: Run | None = None
    sweeps: dict[str, SweepRecord] = {}
    agents: list[RegisteredAgent] = []
    if store:
        run = store.run(outcomes[0].run_id)
        sweeps = {record.sweep_id: record for record in store.sweeps()}
        agents = store.fleet()[0]
    own = load_catalog().own_facts
    found = [
        provenance_of(
            record,
            run,
            sweeps.get(record.sweep_id),
            agents,
            _files(RunFiles(store, record.run_id) if store else None, record),
            own,
        )
        for record in outcomes
    ]
    if json:
        show_json(found)
        return
    for one in found:
        for line in provenance_lines(one, own):
            say(line)


def _files(
    files: RunFiles | None, record: StoredResult | StoredFailure
) -> dict[str, tuple[str | None, FileState]]:
    """Return each file of an attempt with its checksum and what has become of it."""
    wanted = wanted_files(record, files.listed if files else ())
    states = states_of(files, record, wanted)
    return {path: (sha256, states[path]) for path, sha256 in wanted.items()}
