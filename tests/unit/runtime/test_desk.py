"""Whatever one user asks of sweeps, the others are answered meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import pytest

from controller.contracts.catalog import Catalog
from controller.contracts.device import Device
from controller.contracts.errors import NotAllowed, OverQuota, SweepInvalid
from controller.contracts.quota import Quota
from controller.contracts.run import RunChange, RunState
from controller.contracts.sweep import Cell, Sweep
from controller.runtime import sweeps
from controller.runtime.desk import Desk
from controller.runtime.farm import FarmSettings
from controller.runtime.sweeps import BATCH
from controller.scheduling import limits
from controller.scheduling.binding import Out, place_cells
from controller.scheduling.expansion import cells_of
from controller.scheduling.quota import DAY_S, MAX_OPEN_SELECTORS, size_of
from tests.support import builders
from tests.support.farm import FarmBox
from tests.support.waiting import PATIENCE_S

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration())
    yield box
    box.close()


@pytest.fixture
def desk(box: FarmBox) -> Desk:
    return Desk(box.farm.sweeps)


class Held(Generic[Given, Answer]):
    """Work that goes on only when another user has been answered."""

    def __init__(self, work: Callable[Given, Answer]) -> None:
        self._work = work
        self.begun, self.answered = threading.Event(), threading.Event()

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        self.begun.set()
        assert self.answered.wait(PATIENCE_S), "nobody was answered meanwhile"
        return self._work(*args, **kwargs)


async def _others_are_answered(desk: Desk, held: Held[..., Any], asked: asyncio.Task[Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not held.begun.is_set():
            await asyncio.sleep(0)
        assert (await desk.sweep_status("known-1", "admin")).user == "ben"
        held.answered.set()
        await asked


@pytest.fixture
def known(box: FarmBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of another user."""
    with monkeypatch.context() as patched:
        patched.setattr(Sweep, "sweep_id", lambda *_: "known-1")
        box.submit(builders.sweep(name="known"), user="ben")


@pytest.mark.usefixtures("known")
async def test_a_sweep_is_expanded_while_others_are_answered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(place_cells)
    monkeypatch.setattr(sweeps, "place_cells", held)
    asked = asyncio.create_task(desk.submit(builders.sweep(), "ann", again=False))
    await _others_are_answered(desk, held, asked)
    assert asked.result().new_runs == 1


@pytest.mark.usefixtures("known")
async def test_a_sweep_is_stored_while_others_are_answered(
    box: FarmBox, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(box.store.add_sweep)
    monkeypatch.setattr(box.store, "add_sweep", held)
    asked = asyncio.create_task(desk.submit(builders.sweep(), "ann", again=False))
    await _others_are_answered(desk, held, asked)
    assert asked.result().new_runs == 1


@pytest.mark.usefixtures("known")
async def test_runs_are_read_to_be_resumed_while_others_are_answered(
    box: FarmBox, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_id = box.submit(builders.sweep(), user="ann").sweep_id
    box.cancel(sweep_id, "ann")
    held = Held(box.store.runs)
    monkeypatch.setattr(box.store, "runs", held)
    asked = asyncio.create_task(desk.resume(sweep_id, "ann"))
    await _others_are_answered(desk, held, asked)
    assert asked.result() == 1


async def test_many_runs_are_changed_at_one_go_in_a_thread_and_told_of_batch_by_batch(
    box: FarmBox, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 8 * BATCH
    sweep_id = (await desk.submit(builders.sweep(repeats=runs), "ann", again=False)).sweep_id
    rounds, saved, told = 0, [], Counter[int]()
    save, loop_s = box.store.save_runs, threading.current_thread()

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    def counted(changes: Sequence[RunChange]) -> None:
        saved.append((len(changes), threading.current_thread()))
        save(changes)

    counting = asyncio.create_task(count_rounds())
    monkeypatch.setattr(box.store, "save_runs", counted)
    box.on_event = lambda _: told.update([rounds])
    for verb in (desk.cancel, desk.resume, desk.cancel):
        saved.clear()
        told.clear()
        assert await verb(sweep_id, "ann") == runs
        sizes = sorted(size for size, _ in saved)
        assert sizes[-1] >= runs - 2, "all that had never been leased"
        assert not sizes[:-1] or sizes[-2] <= 2
        assert all(thread is not loop_s for size, thread in saved if size == sizes[-1])
        assert max(told.values()) <= BATCH + 1, "the others are answered between"
    counting.cancel()
    tally = box.store.tally(sweep_id)
    assert tally.runs[RunState.CANCELLED] == runs


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("verb", ["cancel", "resume"])
async def test_no_run_is_leased_while_its_sweep_is_being_changed(
    box: FarmBox, desk: Desk, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    sweep_id = box.submit(builders.sweep(repeats=4), user="ann").sweep_id
    if verb == "resume":
        box.cancel(sweep_id, "ann")
    held = Held(box.store.save_runs)
    monkeypatch.setattr(box.store, "save_runs", held)
    asked = asyncio.create_task(getattr(desk, verb)(sweep_id, "ann"))
    async with asyncio.timeout(PATIENCE_S):
        while not held.begun.is_set():
            await asyncio.sleep(0)
    monkeypatch.undo()
    box.cancel("known-1")  # frees the device, and looks for another run
    of_ann = [run for run in box.farm.state().open_runs if run.sweep_id == sweep_id]
    assert not any(run.lease for run in of_ann)
    held.answered.set()
    assert await asked == 4
    leased = [run for run in box.farm.state().open_runs if run.lease]
    assert [run.sweep_id for run in leased] == [sweep_id] * (verb == "resume")


async def test_the_administrator_and_the_owner_change_a_sweep_one_after_another(
    box: FarmBox, desk: Desk
) -> None:
    runs = 2 * BATCH
    sweep_id = (await desk.submit(builders.sweep(repeats=runs), "ann", again=False)).sweep_id
    counts = await asyncio.gather(*(desk.cancel(sweep_id, user) for user in ("ann", "admin")))
    assert sorted(counts) == [0, runs]
    assert box.store.tally(sweep_id).runs[RunState.CANCELLED] == runs


async def test_a_users_requests_are_answered_one_after_another(
    box: FarmBox, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = most = 0
    lock = threading.Lock()

    def counted(
        sweep: Sweep, cells: list[Cell], devices: Sequence[Device], catalog: Catalog, out: Out
    ) -> list[Cell]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        found = place_cells(sweep, cells, devices, catalog, out)
        with lock:
            at_once -= 1
        return found

    monkeypatch.setattr(sweeps, "place_cells", counted)
    asked = (desk.submit(builders.sweep(name=f"s{n}"), "ann", again=False) for n in range(20))
    await asyncio.gather(*asked)
    assert most == 1
    assert len(box.store.sweeps()) == 20


async def test_what_has_begun_comes_to_its_end_though_its_caller_leaves(
    box: FarmBox, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(box.store.add_sweep)
    monkeypatch.setattr(box.store, "add_sweep", held)
    asked = asyncio.create_task(desk.submit(builders.sweep(), "ann", again=False))
    async with asyncio.timeout(PATIENCE_S):
        while not held.begun.is_set():
            await asyncio.sleep(0)
        asked.cancel()
        next_ = asyncio.create_task(desk.submit(builders.sweep(name="next"), "ann", again=False))
        held.answered.set()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await next_
    assert [run.sweep_id.partition("-")[0] for run in box.farm.state().open_runs] == [
        *("demo", "next")
    ]


async def test_two_users_who_submit_the_same_at_once_get_sweeps_of_their_own(
    box: FarmBox, desk: Desk
) -> None:
    asked = (desk.submit(builders.sweep(), user, again=False) for user in ("ann", "ben"))
    submitted = await asyncio.gather(*asked)
    assert len({s.sweep_id for s in submitted}) == 2
    assert [s.new_runs for s in submitted] == [1, 1]


def test_an_id_that_two_sweeps_have_gives_neither_of_them_to_the_other(
    box: FarmBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sweep, "sweep_id", lambda self, generation: f"{self.name}-{generation}")
    ann = box.submit(builders.sweep(), user="ann")
    eve = box.submit(builders.sweep(repeats=2), user="eve")
    assert (ann.sweep_id, eve.sweep_id) == ("demo-1", "demo-2")
    with pytest.raises(NotAllowed):
        box.cancel(ann.sweep_id, "eve")
    assert box.submit(builders.sweep(repeats=2), user="eve").known_runs == 2


# --- what a user may take --------------------------------------------------------------------


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmBox]:
    """A farm on which a user may have ten open runs."""
    settings = replace(FarmSettings(), quota=Quota(open_runs=10, bytes_a_day=20_000))
    monkeypatch.setattr("tests.support.farm.FarmSettings", lambda: settings)
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration())
    yield box
    box.close()


def test_a_user_has_so_many_open_runs_and_others_as_many(limited: FarmBox) -> None:
    submit = limited.submit
    first = submit(builders.sweep(repeats=6), user="ann")
    with pytest.raises(OverQuota, match=r"ann has 6 open runs; 5 more would exceed 10\. Wait"):
        submit(builders.sweep(name="more", repeats=5), user="ann")
    assert submit(builders.sweep(repeats=6), user="ann").known_runs == 6, "they are there already"
    submit(builders.sweep(name="more", repeats=4), user="ann")
    submit(builders.sweep(name="more", repeats=10), user="ben")
    submit(builders.sweep(name="more", repeats=200), user="admin")
    limited.cancel(first.sweep_id, "ann")
    submit(builders.sweep(name="again", repeats=6), user="ann")
    with pytest.raises(OverQuota, match="cannot resume sweep"):
        limited.resume(first.sweep_id, "ann")


def test_all_runs_of_a_sweep_that_are_new_on_a_changed_fleet_count(limited: FarmBox) -> None:
    submit, each = limited.submit, builders.sweep(run_on="each", repeats=4)
    first = submit(each, user="ann")
    limited.cancel(first.sweep_id, "ann")
    limited.farm.register(builders.registration(None, builders.cpu("cpu-2")))
    more = submit(builders.sweep(name="more", repeats=7), user="ann")
    with pytest.raises(OverQuota, match=r"ann has 7 open runs; 4 more would exceed 10\. Wait"):
        submit(each, user="ann")
    limited.cancel(more.sweep_id, "ann")
    again = submit(each, user="ann")
    assert (again.sweep_id, again.new_runs, again.known_runs) == (first.sweep_id, 4, 0)
    assert (submit(each, user="ann").new_runs, submit(each, user="ann").known_runs) == (0, 4)


def test_a_user_has_so_much_stored_in_a_day_whatever_becomes_of_it(limited: FarmBox) -> None:
    submitted: list[str] = []

    def submit_and_cancel() -> None:
        while len(submitted) < 1000:
            sweep = builders.sweep(name=f"s{len(submitted)}", repeats=5)
            submitted.append(limited.submit(sweep, user="ann").sweep_id)
            limited.cancel(submitted[-1], "ann")

    with pytest.raises(OverQuota, match=r"in a day; .* \(`benchfarm up --user-bytes`"):
        submit_and_cancel()
    assert 4 <= len(submitted) <= 20
    limited.clock.now += DAY_S / 2
    limited.restart()
    limited.submit(builders.sweep(repeats=5), user="ben")
    with pytest.raises(OverQuota):
        limited.submit(builders.sweep(name="large", repeats=10), user="ann")
    limited.clock.now += DAY_S / 2
    limited.submit(builders.sweep(repeats=5), user="ann")


def test_a_user_s_open_runs_have_so_many_selectors(box: FarmBox) -> None:
    most = limits.MAX_SELECTORS
    for first in range(0, MAX_OPEN_SELECTORS - most, most):
        devices = [f"any or cores > {n}" for n in range(first, first + most)]
        box.submit(builders.sweep(devices=devices), user="ann")
    devices = [f"any or cores > {MAX_OPEN_SELECTORS + n}" for n in range(most)]
    with pytest.raises(OverQuota, match="different selectors"):
        box.submit(builders.sweep(devices=devices), user="ann")


def test_a_run_is_not_resumed_for_ever(tmp_path: Path) -> None:
    box = FarmBox(tmp_path / "store.sqlite", settings=FarmSettings(max_attempts=3))
    box.farm.register(builders.registration())
    sweep_id = box.submit(builders.sweep(), user="ann").sweep_id
    for _ in range(2):
        assert box.cancel(sweep_id, "ann") == 1
        assert box.resume(sweep_id, "ann") == 1
    assert box.cancel(sweep_id, "ann") == 1
    assert box.resume(sweep_id, "ann") == 0
    box.close()


def test_what_a_sweep_has_on_each_device_is_limited_too(tmp_path: Path) -> None:
    box = FarmBox(tmp_path / "store.sqlite")
    cpus = [builders.cpu(f"cpu-{n}") for n in range(11)]
    box.farm.register(builders.registration(None, *cpus))
    with pytest.raises(SweepInvalid, match="the limit is 10000"):
        box.submit(builders.sweep(run_on="each", repeats=1000), user="ann")
    box.close()


LONGEST = limits.MAX_SELECTOR_CHARACTERS
SHAPES: dict[str, dict[str, object]] = {
    "long selectors": {"devices": [f'any or device == "{n:0{LONGEST - 20}}"' for n in range(30)]},
    "many cells": {"knobs": {"batch_size": list(range(1, 301))}},
    "many runs": {"repeats": 1000},
    "one run": {},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sweep_takes_of_the_store_what_it_is_counted_for(
    box: FarmBox, tmp_path: Path, shape: str
) -> None:
    sweeps = [builders.sweep(name=f"s{n}", **SHAPES[shape]) for n in range(5)]
    before = _size(tmp_path / "store.sqlite")
    for sweep in sweeps:
        box.submit(sweep, user="ann")
    grown = _size(tmp_path / "store.sqlite") - before
    runs = len(box.farm.state().open_runs)
    cells = cells_of(sweeps[0], builders.catalog())
    counted = sum(size_of(sweep, cells, runs // len(sweeps)) for sweep in sweeps)
    assert grown <= 1.5 * counted + 65_536
    if shape == "long selectors":
        sent = sum(len(sweep.model_dump_json()) for sweep in sweeps)
        assert grown < 10 * sent


def _size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def test_a_resumed_sweep_has_its_former_place_also_before_a_restart(box: FarmBox) -> None:
    first, second = (box.submit(builders.sweep(name=n, repeats=2)).sweep_id for n in "ab")
    box.cancel(first)  # and the device goes to the second
    box.resume(first)
    order = []
    for restarted in (False, False, True, False):
        if restarted:
            box.restart()
        (job,) = box.ask().run
        order.append(box.run(job.ref.run_id).sweep_id)
        box.report(job.ref, builders.result())
    assert order == [second, first, first, second]
