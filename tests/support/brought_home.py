"""A head that has what its runs left, and no agent: that is on another host."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from controller.contracts.result import Result
from controller.contracts.run import Run
from controller.contracts.sweep import Cell
from controller.profiles.files import write
from controller.runtime.home import Home
from controller.scheduling.binding import runs_of
from controller.store.sqlite import SqliteStore
from tests.support.altered_logs import RECORDED
from tests.support.api import prepared
from tests.support.artefacts import bring_home
from tests.support.logged_results import CELL, logged_result
from tests.support.planted_profile import profile, step
from tests.support.store_examples import (
    AGENT,
    CPU,
    grant,
    report,
    result,
    runs_for,
    sweep_record,
)

PROFILE = profile(step())


@dataclass(frozen=True, slots=True)
class BroughtHome:
    """A home, and the ids of its runs."""

    home: Home
    logged: str
    """Has LoadGen's logs."""
    profiled: str
    """Has PROFILE."""
    plain: str
    """Has left nothing."""
    awaited: str
    """Was profiled, and nothing of it has been sent."""


def brought_home(folder: Path) -> BroughtHome:
    """Return one with a token of each scope."""
    home = prepared(folder, sweeps=0)
    (plain,) = {run.cell.key: run.cell for run in runs_for(sweep_record())}.values()
    watched = plain.model_copy(update={"profiled": True})
    with closing(SqliteStore.open(home.store)) as store:
        store.save_agent(AGENT, [CPU])
        runs = {
            name: _added(store, name, cell)
            for name, cell in (
                *(("logged", CELL), ("profiled", watched)),
                *(("plain", plain), ("awaited", watched)),
            )
        }
        outcomes = {
            "logged": _logged(_folder(home, runs["logged"])),
            "profiled": _profiled(_folder(home, runs["profiled"])),
            "plain": result().model_copy(update={"artefacts": {}}),
            "awaited": _profiled(_folder(home, runs["awaited"])),
        }
        shutil.rmtree(_folder(home, runs["awaited"]).parent)
        for name, outcome in outcomes.items():
            leased = grant(runs[name])
            store.save_runs([leased])
            store.save_runs([report(leased.run, outcome)])
    bring_home(folder)
    shutil.rmtree(folder / "agent")
    return BroughtHome(home, **{name: run.run_id for name, run in runs.items()})


def _added(store: SqliteStore, name: str, cell: Cell) -> Run:
    record = sweep_record(name, repeats=1)
    (run,) = store.add_sweep(record, runs_of(record.sweep, record.sweep_id, [cell], now=1000.5))
    return run


def _folder(home: Home, run: Run) -> Path:
    return home.path / "agent" / "host-1" / "runs" / run.run_id / "1"


def _logged(folder: Path) -> Result:
    shutil.copytree(RECORDED / "single_stream", folder / "performance")
    found = logged_result(folder / "performance")
    named = {f"performance_{name}": path for name, path in found.artefacts.items()}
    detail = named.pop("performance_mlperf_log_detail")
    return found.model_copy(update={"artefacts": {**named, "performance_loadgen_detail": detail}})


def _profiled(folder: Path) -> Result:
    write(PROFILE, folder / "profile")
    told = {"artefacts": {"profile": str(folder / "profile")}, "profile": PROFILE.summary}
    return result().model_copy(update=told)
