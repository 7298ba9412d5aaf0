"""A writer to be killed: leases and finishes runs for ever, and says so after each commit."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from controller.contracts.run import RunChange
from controller.store.sqlite import SqliteStore
from tests.support.store_examples import (
    AGENT,
    CPU,
    PHONE,
    grant,
    report,
    result,
    runs_for,
    sweep_record,
)


def write_for_ever(path: Path) -> None:
    """Print a run's id once its result is committed."""
    store = SqliteStore.open(path)
    store.save_agent(AGENT, [CPU, PHONE])
    for generation in count(1):
        record = sweep_record(generation=generation, repeats=100)
        for run in store.add_sweep(record, runs_for(record)):
            leased = grant(run).run
            store.save_runs([RunChange(leased)])
            store.save_runs([report(leased, result())])
            sys.stdout.write(f"{run.run_id}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]))
