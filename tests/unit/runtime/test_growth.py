"""How much a user makes the store grow by what they send, whatever its shape."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.errors import OverQuota, SweepInvalid
from controller.contracts.sweep import Sweep
from controller.contracts.version import installed_version
from controller.runtime.api_bench import attacks, registration, size_of
from controller.runtime.clock import Clock
from controller.runtime.desk import Desk
from controller.runtime.farm import Farm, FarmSettings
from controller.store.sqlite import SqliteStore
from tests.support.users import answered

MOST = 10
LEAST = 6_000
LEAST_ROUNDS = 2
"""So much of each shape is sent, so that a page that has just begun decides nothing."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def farm(path: Path) -> Iterator[Farm]:
    with closing(SqliteStore.open(path)) as store:
        farm = Farm(
            store, load_catalog(), installed_version(), FarmSettings(), Clock(), lambda _: None
        )
        farm.register(registration())
        yield farm


def _sent(method: str, path: str, body: object = None) -> int:
    """Return the bytes of a request as the bench sends it."""
    headers = {"Authorization": f"Bearer {'x' * 43}", "Content-Type": "application/json"}
    content = b"" if body is None else json.dumps(body).encode()
    with httpx.Client(base_url="http://127.0.0.1:8000", headers=headers) as client:
        return size_of(client.build_request(method, path, content=content))


def _size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def _let_in(body: dict[str, Any], desk: Desk) -> str | None:
    try:
        sweep = Sweep.model_validate(body["sweep"])
        return answered(desk.submit(sweep, "eve", again=True)).sweep_id
    except (SweepInvalid, OverQuota):
        return None


KINDS = {
    "long selectors": 0,
    "many cells": 1,
    "many runs": 2,
    "many clauses": 3,
    "other clauses each time": 4,
    "one run": 5,
    "too many values": -2,
    "too long": -1,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_store_grows_by_less_than_ten_times_what_is_sent(
    farm: Farm, path: Path, kind: int
) -> None:
    desk = Desk(farm.sweeps)
    before, sent = _size(path), 0
    for round_ in itertools.count():
        if sent >= LEAST and round_ >= LEAST_ROUNDS:
            break
        where, body = [*attacks(0, round_)][kind]
        sent += _sent("POST", where, body)
        if sweep_id := _let_in(body, desk):
            for verb in ("cancel", "resume", "cancel"):
                answered(getattr(desk, verb)(sweep_id, "eve"))
                sent += _sent("GET", f"/v1/sweeps/{sweep_id}")
                sent += _sent("POST", f"/v1/sweeps/{sweep_id}/{verb}", {})
    assert _size(path) - before < MOST * sent
