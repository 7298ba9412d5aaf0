"""A controller whose store is damaged starts, and runs what is whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.run import RunState
from tests.support import builders
from tests.support.farm import FarmBox

DAMAGES = (
    "UPDATE agents SET host = x'ff'",
    "UPDATE devices SET facts = '{'",
    "UPDATE sweeps SET document = '{' WHERE number = 1",
    "UPDATE runs SET state = 'text' WHERE state = 'leased'",
    "UPDATE attempts SET leased_at = 'text'",
    "UPDATE cells SET knobs = '{'",
    "UPDATE tokens SET digest = 1",
)


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_farm_with_a_damaged_store_starts_and_runs_a_new_sweep(
    tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "store.sqlite"
    box = FarmBox(path)
    box.farm.register(builders.registration())
    box.farm.sweeps.submit(builders.sweep(repeats=2))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    box.restart()
    box.wait(1.0)
    box.farm.register(builders.registration())
    box.wait(100.0)
    box.farm.register(builders.registration())
    box.farm.sweeps.submit(builders.sweep(name="after", repeats=1))
    assert any(run.state is RunState.LEASED for run in box.store.runs())
    assert box.ask().run
    box.close()
