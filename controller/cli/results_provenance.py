"""`benchfarm results show --provenance`."""

from __future__ import annotations

from collections.abc import Sequence

from controller.cli.common import home, reading_here, show_json
from controller.contracts.catalog import load_catalog
from controller.contracts.device import RegisteredAgent
from controller.contracts.imported import ImportedResult
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.platform.terminal import say
from controller.reports.provenance import provenance_lines, provenance_of, wanted_files
from controller.runtime.kept_files import states_of


def show_provenance(outcomes: Sequence[StoredResult | StoredFailure], *, json: bool) -> None:
    """Show where the outcomes of one run come from."""
    run: Run | None = None
    sweeps: dict[str, SweepRecord] = {}
    agents: list[RegisteredAgent] = []
    if not isinstance(outcomes[0], ImportedResult):  # which no store knows
        with reading_here() as store:
            run = store.run(outcomes[0].run_id)
            sweeps = {record.sweep_id: record for record in store.sweeps()}
            agents = store.fleet()[0]
    own, here = load_catalog().own_facts, home().path
    found = [
        provenance_of(
            record,
            run,
            sweeps.get(record.sweep_id),
            agents,
            states_of(wanted_files(record), here),
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
