"""What a watcher is told if `benchfarm down` ends the farm under it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from controller.contracts.errors import FarmUnavailable
from controller.contracts.wire import RunEvent
from controller.runtime.client import FarmClient, Timings
from controller.runtime.home import Home
from controller.runtime.watch import follow, runs_of
from controller.store.sqlite import SqliteStore
from tests.support import store_examples


class _Ended(FarmClient):
    """A client whose controller goes away at its first event; the second call finds none."""

    def __init__(self, home: Home, *, down: bool) -> None:
        super().__init__(home, {}, Timings(restart_s=0.0, retry_s=0.0))
        self._down = down
        self._calls = 0

    @contextmanager
    def events(self, sweep_id: str) -> Iterator[Iterator[RunEvent]]:
        self._calls += 1
        if self._calls > 1:
            raise FarmUnavailable("call the controller", "it is gone", "Wait.")
        yield iter(())
        if self._down:
            self._home.wanted.unlink()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home, record = Home(tmp_path), store_examples.sweep_record()
    home.wanted.write_text("{}")
    store = SqliteStore.open(home.store)
    try:
        store.add_sweep(record, store_examples.runs_for(record))
    finally:
        store.close()
    return home


def _said(home: Home, *, down: bool) -> tuple[str, str]:
    sweep_id = store_examples.sweep_record().sweep_id
    views = follow(home, _Ended(home, down=down), sweep_id, partial(runs_of, home, sweep_id))
    assert next(views).ended == 0
    with pytest.raises(FarmUnavailable) as caught:
        next(views)
    return str(caught.value), sweep_id


def test_a_farm_that_was_ended_is_said_at_once_with_how_to_go_on(home: Home) -> None:
    said, sweep_id = _said(home, down=True)
    assert said == (
        f"cannot follow sweep {sweep_id}: `benchfarm down` has ended the farm; the sweep is kept. "
        f"Run `benchfarm up`, then `benchfarm sweep watch {sweep_id}`."
    )


def test_a_farm_that_nobody_ended_is_waited_for(home: Home) -> None:
    assert _said(home, down=False)[0] == "cannot call the controller: it is gone. Wait."
