from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from controller.contracts.errors import (
    AgentRefused,
    FarmUnavailable,
    SharedMachineId,
    UserError,
    VersionMismatch,
)
from controller.contracts.processes import FARM_MARKER, end_marked
from controller.runtime import cluster as clusters
from controller.runtime import joining as module
from controller.runtime.addresses import Address
from controller.runtime.home import Cluster, Home, write_private
from controller.runtime.joining import (
    Joining,
    instance_of,
    no_supervisor,
    sole_supervisor,
    supervise,
)
from controller.runtime.lifetime import UpOptions, bring_up
from tests.support.processes import idle_process
from tests.support.waiting import PATIENCE_S

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_what_is_in_the_way_is_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lives = iter([FULL, FULL, FarmUnavailable("joining", "it refused", "install its version")])

    async def live_once(_: object) -> None:
        raise next(lives)

    monkeypatch.setattr(module._Supervisor, "live_once", live_once)
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    said: list[str] = []
    joining = Joining(Address("127.0.0.1", 1), {}, None, (), cpu=True, reconnect_timeout_s=10)
    with pytest.raises(FarmUnavailable):
        await supervise(Home(tmp_path), joining, said.append)
    assert said == [f"this host can't join now: No space left on device; see {tmp_path}"]


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (
            SharedMachineId("host-1", "a", "b", 0.0),
            "rm /etc/machine-id && systemd-machine-id-setup",
        ),
        (
            VersionMismatch("host-1", "1", "2"),
            "install the controller's version on the agent's host",
        ),
    ],
)
async def test_a_refusal_says_itself_what_to_do(
    tmp_path: Path, refusal: AgentRefused, remedy: str
) -> None:
    joining = Joining(Address("127.0.0.1", 1), {}, None, (), cpu=True, reconnect_timeout_s=10)
    stop = asyncio.create_task(asyncio.sleep(0))
    supervisor = module._Supervisor(Home(tmp_path), joining, print, stop, asyncio.Queue())
    said = str(supervisor._refusal(str(refusal)))
    assert said == f"joining the farm at 127.0.0.1:1: {refusal}"
    assert said.endswith(remedy)
    await stop


def test_a_file_that_does_not_fit_leaves_what_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "cluster.json"
    write_private(path, "before")

    def full(_: int) -> None:
        raise FULL

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """One in which no farm can be started."""

    def start_head(*_: object) -> Cluster:
        raise AssertionError("a farm was begun")

    monkeypatch.setattr(clusters, "start_head", start_head)
    home = Home(tmp_path)
    home.prepare()
    return home


def test_no_farm_is_brought_up_where_a_supervisor_waits_for_its_head(home: Home) -> None:
    seen = (
        "this host has joined another farm, or waits for its head; end that first: benchfarm down"
    )
    with sole_supervisor(home), pytest.raises(UserError) as refused:
        bring_up(home, UpOptions())
    assert str(refused.value) == f"benchfarm up in {home.path}: {seen}"
    with pytest.raises(AssertionError, match="a farm was begun"):
        bring_up(home, UpOptions())


def test_nor_where_a_supervisor_was_killed_that_has_left_its_node(home: Home) -> None:
    joined = instance_of(home)
    cluster = Cluster(instance=joined, ray_address="10.0.0.1:1", dashboard_url="", temp_dir="/t")
    write_private(home.cluster_file, cluster.model_dump_json())
    marked = {**os.environ, FARM_MARKER: joined}
    with idle_process(marked) as node:
        with pytest.raises(UserError, match="this host has joined another farm; end that"):
            bring_up(home, UpOptions())
        end_marked(FARM_MARKER, joined, grace_s=5.0)
        node.wait(PATIENCE_S)


def test_nobody_joins_another_farm_while_one_is_brought_up(home: Home) -> None:
    with (
        no_supervisor(home),
        pytest.raises(UserError, match="or benchfarm up is at work here; end that first"),
        sole_supervisor(home),
    ):
        raise AssertionError("it has joined")
