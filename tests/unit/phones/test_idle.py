"""When a phone that nothing runs on is read: never beside a measurement."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agents.host import cores
from agents.phones import idle
from agents.phones.discovery import Phones
from agents.phones.idle import IdleReading
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.base import Scalar
from controller.contracts.device import Device
from tests.support import builders

PHONE = builders.phone()
HOST = builders.cpu()
FACTS: dict[str, Scalar] = {"battery_percent": 50}


class Bench:
    """One phone, and what was read of it."""

    def __init__(self, folder: Path) -> None:
        async def announce(_: Sequence[Device]) -> None: ...

        self.phones = Phones("owner", folder, announce)
        self.read: list[tuple[str, Mapping[str, Scalar]]] = []
        self.present: list[Device] = [PHONE]
        self.idle = IdleReading(
            self.phones, HOST, lambda: self.present, lambda *said: self.read.append(said)
        )


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    @contextmanager
    def free_cores(wanted: Collection[int]) -> Iterator[bool]:
        with cores.free_cores(wanted, tmp_path / "locks") as free:
            yield free

    async def read_conditions(*_: object) -> dict[str, Scalar]:
        return FACTS

    monkeypatch.setattr(idle, "free_cores", free_cores)
    monkeypatch.setattr(idle, "read_conditions", read_conditions)
    monkeypatch.setattr(Phones, "remote_of", lambda *_: object())
    return Bench(tmp_path)


async def test_an_idle_phone_is_read(bench: Bench) -> None:
    await bench.idle.read(PHONE)
    assert bench.read == [(PHONE.id, FACTS)]


async def test_a_phone_that_something_runs_on_is_left_alone(bench: Bench) -> None:
    async with bench.phones.present.alone(PHONE.id):
        await bench.idle.read(PHONE)
    assert bench.read == []


async def test_no_phone_is_read_while_a_core_of_its_host_is_measured_on(
    bench: Bench, tmp_path: Path
) -> None:
    async with cores.exclusive_cores({1}, tmp_path / "locks"):
        await bench.idle.read(PHONE)
    assert bench.read == []
    await bench.idle.read(PHONE)
    assert bench.read == [(PHONE.id, FACTS)]


async def test_a_phone_that_does_not_answer_is_read_at_the_next_round(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> object:
        raise RemoteFault(PHONE.id, FaultKind.OFFLINE, "it is not connected")

    monkeypatch.setattr(Phones, "remote_of", away)
    await bench.idle.read(PHONE)
    assert bench.read == []


async def test_all_phones_there_are_read_again_and_again(
    bench: Bench,
) -> None:
    life = asyncio.create_task(replace(bench.idle, period_s=0.0).go_on())
    while len(bench.read) < 2:
        await asyncio.sleep(0)
    bench.present = []
    count = len(bench.read)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(bench.read) <= count + 1
    life.cancel()
    await asyncio.wait({life})
    assert life.cancelled()
