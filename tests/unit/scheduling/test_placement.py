from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.contracts.catalog import Catalog
from controller.contracts.device import Device
from controller.contracts.run import AttemptState, Run
from controller.contracts.sweep import Cell, PairedCandidate
from controller.scheduling import placement
from controller.scheduling.placement import objections, place
from controller.scheduling.queued import QueuedRuns
from tests.support import builders
from tests.support.builders import attempt

CATALOG = builders.catalog()
SELECTORS = ("any", "device == cpu-1", "rack == a", "rack == b", "not rack == a", "nowhere == 1")
NAMES = ("cpu-0", "cpu-1", "cpu-2", "cpu-3", "phone-0", "phone-1")


@dataclass(frozen=True)
class Farm:
    queued: list[Run]
    free: list[Device]
    busy: dict[str, set[int]]
    host_of: dict[str, str]

    def placed(self) -> list[tuple[Run, Device]]:
        return list(
            place(QueuedRuns.of(self.queued, {}), self.free, self.busy, self.host_of, CATALOG)
        )


def tried(run_id: str, *devices: str, state: AttemptState = AttemptState.FAILED) -> Run:
    attempts = tuple(attempt(d, number + 1, state) for number, d in enumerate(devices))
    return builders.run(run_id, attempts=attempts)


@st.composite
def devices(draw: st.DrawFn) -> list[Device]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return [
        builders.phone(name)
        if name.startswith("phone")
        else builders.cpu(
            name,
            cores=draw(st.frozensets(st.integers(0, 5), min_size=1, max_size=3)),
            labels={"rack": draw(st.sampled_from("ab"))},
        )
        for name in names
    ]


@st.composite
def queues(draw: st.DrawFn) -> list[Run]:
    runs = []
    for position in range(draw(st.integers(0, 8))):
        cell = builders.cell(
            draw(st.sampled_from(SELECTORS)), draw(st.sampled_from(("torch", "litert")))
        )
        ended = st.sampled_from((AttemptState.FAILED, AttemptState.LOST))
        where = draw(st.lists(st.sampled_from(NAMES), max_size=2))
        tries = tuple(attempt(name, n + 1, draw(ended)) for n, name in enumerate(where))
        runs.append(builders.run(f"run-{position}", of=cell, position=position, attempts=tries))
    return runs


@st.composite
def farms(draw: st.DrawFn) -> Farm:
    hosts = st.sampled_from(("host-1", "host-2"))
    cores = st.sets(st.integers(0, 5), max_size=3)
    return Farm(
        queued=draw(queues()),
        free=draw(devices()),
        busy=draw(st.dictionaries(hosts, cores)),
        host_of={name: draw(hosts) for name in NAMES},
    )


@given(farms())
def test_one_run_a_device_and_one_device_a_run(farm: Farm) -> None:
    placed = farm.placed()
    assert max(Counter(d.id for _, d in placed).values(), default=0) <= 1
    assert max(Counter(r.run_id for r, _ in placed).values(), default=0) <= 1
    assert all(device in farm.free and run in farm.queued for run, device in placed)


@given(farms())
def test_two_leases_of_a_host_never_share_a_core(farm: Farm) -> None:
    cores = defaultdict(list, {host: list(busy) for host, busy in farm.busy.items()})
    for _, device in farm.placed():
        cores[farm.host_of[device.id]] += device.host_cores
    assert all(len(used) == len(set(used)) for used in cores.values())


@given(farms())
def test_a_run_goes_only_where_nothing_objects(farm: Farm) -> None:
    assert not any(objections(run.cell, device, CATALOG) for run, device in farm.placed())


@given(farms())
def test_nothing_placeable_is_left(farm: Farm) -> None:
    placed = farm.placed()
    cores = defaultdict(set, {host: set(busy) for host, busy in farm.busy.items()})
    for _, device in placed:
        cores[farm.host_of[device.id]] |= device.host_cores
    used = {device.id for _, device in placed}
    waiting = [run for run in farm.queued if run not in [r for r, _ in placed]]
    left = [
        d for d in farm.free if d.id not in used and not cores[farm.host_of[d.id]] & d.host_cores
    ]
    assert not [(r, d) for r in waiting for d in left if not objections(r.cell, d, CATALOG)]


@given(farms())
def test_equals_go_in_queue_order(farm: Farm) -> None:
    placed = [run.run_id for run, _ in farm.placed()]
    order = [run.run_id for run in farm.queued]
    assert placed == sorted(placed, key=order.index)
    for first, later in zip(farm.queued, farm.queued[1:], strict=False):
        if first.cell == later.cell and later.run_id in placed:
            assert first.run_id in placed


@given(
    free=st.lists(st.integers(0, 5), min_size=1, unique=True),
    failed=st.sets(st.integers(0, 5)),
)
@example(free=[0, 1], failed={0})
def test_a_device_that_failed_the_run_is_chosen_last(free: list[int], failed: set[int]) -> None:
    servers = [builders.cpu(f"cpu-{n}", cores=frozenset({n})) for n in free]
    run = tried("run-1", *(f"cpu-{n}" for n in sorted(failed)))
    hosts = {server.id: "host" for server in servers}

    ((_, device),) = place(QueuedRuns.of([run], {}), servers, {}, hosts, CATALOG)

    if set(free) - failed:
        assert device.id not in {f"cpu-{n}" for n in failed}


def test_a_device_whose_agent_was_lost_is_no_worse_than_another() -> None:
    servers = [builders.cpu(f"cpu-{n}", cores=frozenset({n})) for n in range(2)]
    run = tried("run-1", "cpu-0", state=AttemptState.LOST)

    ((_, device),) = place(
        QueuedRuns.of([run], {}), servers, {}, {"cpu-0": "host", "cpu-1": "host"}, CATALOG
    )

    assert device.id == "cpu-0"


def test_cells_that_ask_for_the_same_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: Counter[tuple[str, str]] = Counter()

    def counted(cell: Cell, device: Device, catalog: Catalog) -> list[str]:
        judged[cell.selector, device.id] += 1
        return objections(cell, device, catalog)

    monkeypatch.setattr(placement, "objections", counted)
    phones = [builders.phone(f"phone-{n}") for n in range(5)]
    selectors = ("nowhere == 1", "device == phone-3", "not device == phone-3")
    cells = [builders.cell(selectors[n % 3], "litert", batch=n) for n in range(60)]
    queued = [builders.run(f"run-{n}", of=cell) for n, cell in enumerate(cells)]
    hosts = {phone.id: "host" for phone in phones}

    placed = list(place(QueuedRuns.of(queued, {}), phones, {}, hosts, CATALOG))

    assert [(run.run_id, device.id) for run, device in placed] == [
        ("run-1", "phone-3"),
        ("run-2", "phone-0"),
        ("run-5", "phone-1"),
        ("run-8", "phone-2"),
        ("run-11", "phone-4"),
    ]
    assert set(judged.values()) == {1}
    assert len(judged) == 15


def test_a_pair_is_judged_by_both_its_stacks() -> None:
    single = builders.cell("any", "litert")
    pair = single.model_copy(update={"versus": PairedCandidate(stack="torch", knobs={})})
    queued = [builders.run("single", of=single), builders.run("pair", of=pair)]
    phones = [builders.phone(f"phone-{n}") for n in range(2)]
    hosts = {phone.id: "host" for phone in phones}

    placed = list(place(QueuedRuns.of(queued, {}), phones, {}, hosts, CATALOG))

    assert [run.run_id for run, _ in placed] == ["single"]


def test_objections_name_the_stack_and_each_clause() -> None:
    cell = builders.cell("cores >= 8 and rack == a", "torch")
    phone = builders.phone()

    assert objections(cell, phone, CATALOG) == [
        "stack torch (it runs on cpu_host)",
        'cores >= 8 (it has no cores), rack == "a" (it has no rack)',
    ]
    fitting = builders.cpu(labels={"rack": "a"}, facts={"cores": 8})
    assert objections(cell, fitting, CATALOG) == []


def test_a_run_of_another_release_waits_and_stops_nobody() -> None:
    forgotten = builders.run("old", of=builders.cell(stack="tensorflow"))
    server = builders.cpu()

    queued = QueuedRuns.of([forgotten, builders.run()], {})
    placed = list(place(queued, [server], {}, {server.id: "host"}, CATALOG))

    assert [(run.run_id, device.id) for run, device in placed] == [("run-1", "cpu-1")]
    (why,) = objections(forgotten.cell, server, CATALOG)
    assert "tensorflow" in why
