"""`benchfarm profile run` on farms of several hosts: a profile stays where it was measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.cli.profile_run import device_here
from controller.contracts.errors import NotFound, UserError
from controller.store.protocol import StoreReader
from controller.store.sqlite import SqliteStore
from tests.support.command_line import complaint_of
from tests.support.store_examples import AGENT, CPU, PHONE

RUN = ("profile", "run", "retinanet_resnext50", "--stack", "torch", "-o", "x")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose farm has a CPU and a phone on host-1, and a CPU on host-2."""
    folder = tmp_path_factory.mktemp("home")
    agent = AGENT.agent.model_copy(update={"id": "host-2", "host": "host-2"})
    device = CPU.device.model_copy(update={"id": "cpu-2"})
    with closing(SqliteStore.open(folder / "store.sqlite")) as store:
        store.save_agent(AGENT, [CPU, PHONE])
        store.save_agent(
            AGENT.model_copy(update={"agent": agent}),
            [CPU.model_copy(update={"device": device, "agent_id": "host-2"})],
        )
    return folder


@pytest.fixture
def store(home: Path) -> Iterator[StoreReader]:
    with closing(SqliteStore.open_reader(home / "store.sqlite")) as store:
        yield store


@pytest.mark.parametrize(("host", "device"), [("host-1", CPU.device.id), ("host-2", "cpu-2")])
def test_this_hosts_device_is_profiled(store: StoreReader, host: str, device: str) -> None:
    assert device_here(store, None, host) == device
    assert device_here(store, device, host) == device


def test_another_hosts_is_refused(store: StoreReader) -> None:
    with pytest.raises(
        UserError, match="device cpu-2: it belongs to host host-2, and a profile stays"
    ):
        device_here(store, "cpu-2", "host-1")
    with pytest.raises(
        NotFound, match=r"device cpu-3: there is no such device\. Did you mean cpu-2\? Known: "
    ):
        device_here(store, "cpu-3", "host-1")


def test_a_host_that_is_no_device_is_told_so_before_anything_is_measured(home: Path) -> None:
    assert "is not a device of this farm, and a profile stays" in complaint_of(home, *RUN)
    assert "host-2, and a profile stays on the host" in complaint_of(
        home, *RUN, "--device", "cpu-2"
    )
