"""What the SQLite store does when its process, its disk or its file fails."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import pytest

from controller.contracts.errors import HomeUnusable, StoreUnavailable
from controller.contracts.run import RunState
from controller.store.sqlite import SqliteStore
from tests.support.store_examples import AGENT, CPU, grant, report, result, runs_for, sweep_record

ROOT = Path(__file__).parents[3]


@contextmanager
def _endless_writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.store.endless_writer", str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _files_end_at(size: int) -> Iterator[None]:
    """Refuse this process writes beyond a file size, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.mark.parametrize("commits", [1, 25, 130])
def test_a_killed_writer_loses_nothing_it_has_committed(path: Path, commits: int) -> None:
    with _endless_writer(path) as writer:
        assert writer.stdout is not None
        said = list(islice(writer.stdout, commits))
        with pytest.raises(HomeUnusable, match=f"another process writes to it: {writer.pid}"):
            SqliteStore.open(path)
        writer.kill()
        said += list(writer.stdout)  # what it printed before the signal came
    committed = [line.strip() for line in said if line.endswith("\n")]
    with closing(SqliteStore.open_reader(path)) as reader:
        read = reader.results()
        runs = reader.runs()
    with closing(SqliteStore.open(path)) as store:
        assert store.results() == read
        assert store.runs() == runs
    kept = [result.run_id for result in read]
    assert kept[: len(committed)] == committed
    # At most the one result whose commit was not yet printed; each run is whole.
    assert len(kept) - len(committed) in (0, 1)
    assert {run.run_id for run in runs if run.state is RunState.DONE} == set(kept)
    assert sum(run.state is RunState.LEASED for run in runs) <= 1


def test_a_full_disk_is_a_typed_error_and_undoes_the_call(path: Path) -> None:
    record = sweep_record()
    with closing(SqliteStore.open(path)) as store:
        store.save_agent(AGENT, [CPU])
        runs = store.add_sweep(record, runs_for(record))
        changes = [report(grant(run).run, result()) for run in runs]
        log = path.with_name("store.sqlite-wal")
        with (
            _files_end_at(log.stat().st_size),
            pytest.raises(StoreUnavailable, match="disk") as caught,
        ):
            store.save_runs(changes)
        assert caught.value.path == str(path)
        assert store.runs() == runs
        assert store.results() == []
        store.save_runs(changes)
        assert store.runs() == [change.run for change in changes]


def test_damage_found_while_reading_is_named(path: Path) -> None:
    with closing(SqliteStore.open(path)) as store:
        store.save_agent(AGENT, [CPU])
    lines: list[str] = []
    with closing(SqliteStore.open_reader(path, lines.append)) as reader:
        page = 4096
        with path.open("r+b") as file:
            file.seek(page)
            file.write(b"\xff" * (path.stat().st_size - page))
        assert reader.fleet() == ([], [])
        assert reader.lost_agents()
    assert any("agents: SQLite cannot reach them" in line for line in lines), lines
