from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from controller.contracts.errors import (
    AgentRefused,
    FarmUnavailable,
    SharedMachineId,
    UserError,
    VersionMismatch,
)
from controller.platform.atomic import write_private
from controller.platform.processes import FARM_MARKER, end_marked, marked_processes
from controller.runtime import cluster as clusters
from controller.runtime import joining as module
from controller.runtime.addresses import Address
from controller.runtime.home import Cluster, Home
from controller.runtime.joining import (
    Joining,
    instance_of,
    no_supervisor,
    require_right_token,
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
    said: list[str] = []
    joining = Joining(Address("127.0.0.1", 1), {}, None, (), cpu=True, reconnect_timeout_s=10)
    with pytest.raises(FarmUnavailable):
        await supervise(Home(tmp_path), joining, said.append, retry_s=0.0)
    assert said == [f"this host cannot join now: No space left on device; see {tmp_path}"]


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (
            SharedMachineId("host-1", "a", "b", 0.0),
            "`rm /etc/machine-id && systemd-machine-id-setup`.",
        ),
        (
            VersionMismatch("host-1", "1", "2"),
            "Install the controller's version on the agent's host.",
        ),
    ],
)
async def test_a_refusal_says_itself_what_to_do(
    tmp_path: Path, refusal: AgentRefused, remedy: str
) -> None:
    joining = Joining(Address("127.0.0.1", 1), {}, None, (), cpu=True, reconnect_timeout_s=10)
    stop = asyncio.create_task(asyncio.sleep(0))
    supervisor = module._Supervisor(Home(tmp_path), joining, print, stop, asyncio.Queue())
    told = {"seen": refusal.seen, "remedy": refusal.remedy}
    said = str(supervisor._refusal(told))
    assert said == f"cannot join the farm at 127.0.0.1:1: {refusal.seen}. {refusal.remedy}"
    assert said.endswith(remedy)
    await stop


NODE = """
import pathlib, subprocess, sys, time
raylet = "open('/proc/self/comm', 'w').write('raylet'); print(flush=True); input()"
pipe = subprocess.PIPE
child = subprocess.Popen([sys.executable, "-c", raylet], stdin=pipe, stdout=pipe)
child.stdout.readline()
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
(folder / "ray_current_cluster").touch()
child.wait()
time.sleep(1000)
"""
"""As `ray start --block`, after whose raylet's end, with status 0, nothing follows."""
AGENT = """
import json, sys
sys.stdin.read()
print(json.dumps({"agent_id": "host-1", "revoked": ""}), flush=True)
sys.stdout.close()
import time; time.sleep(1000)
"""


MUTE = "import time; time.sleep(1000)"
"""As an agent, or a node, whose start hangs."""


@asynccontextmanager
async def joined_host(
    folder: Path, node: str, agent: str, start_s: float = PATIENCE_S
) -> AsyncIterator[tuple[asyncio.Task[float], asyncio.Queue[str]]]:
    """Give one life of a supervisor of programs that do as Ray's node and an agent, and what it
    says; no process is to be left."""
    home, said = Home(folder), asyncio.Queue[str]()
    home.logs.mkdir()
    marker = {FARM_MARKER: instance_of(home)}
    fakes: dict[str, object] = {
        "node_command": lambda folder, _: [sys.executable, "-c", node, folder],
        "node_environment": lambda *_: {**os.environ, **marker},
    }
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    head = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    joining = Joining(head, {}, None, (), cpu=True, reconnect_timeout_s=10)
    stop = asyncio.create_task(asyncio.sleep(2 * PATIENCE_S))
    tell = said.put_nowait
    supervisor = module._Supervisor(home, joining, tell, stop, asyncio.Queue(), start_s)
    with pytest.MonkeyPatch.context() as patch:
        for name, fake in fakes.items():
            patch.setattr(clusters, name, fake)
        patch.setattr(module, "python_module", lambda *_: [sys.executable, "-c", agent])
        async with asyncio.timeout(PATIENCE_S):
            yield asyncio.create_task(supervisor.live_once()), said
    assert list(marked_processes(FARM_MARKER, instance_of(home))) == []
    stop.cancel()
    server.close()
    await server.wait_closed()


async def test_a_node_whose_raylet_has_ended_is_ended_though_ray_start_goes_on(
    tmp_path: Path,
) -> None:
    async with joined_host(tmp_path, NODE, AGENT) as (life, said):
        assert (await said.get()).startswith("agent host-1 has joined")
        marker = (FARM_MARKER, instance_of(Home(tmp_path)))
        (raylet,) = (p for p in marked_processes(*marker) if p.name() == "raylet")
        raylet.kill()
        assert (await said.get()).startswith("Ray's node ended and is started again")
        assert await life > 0


@pytest.mark.parametrize(
    ("node", "agent", "start_s", "told"),
    [
        # The node has to start in this time, too, on a machine that is ten times slower.
        (NODE, MUTE, 10.0, "no agent has joined within 10 s: it is started again with Ray's node"),
        (MUTE, AGENT, 0.5, "Ray's node did not start; see "),
    ],
    ids=["agent", "node"],
)
async def test_a_start_that_hangs_is_ended_and_told(
    tmp_path: Path, node: str, agent: str, start_s: float, told: str
) -> None:
    async with joined_host(tmp_path, node, agent, start_s) as (life, said):
        assert (await said.get()).startswith(told)
        assert await life == 0


async def test_what_a_killed_supervisor_has_left_of_ray_is_removed(tmp_path: Path) -> None:
    home, left = Home(tmp_path), tmp_path / "benchfarm-former" / "ray"
    (left / "session").mkdir(parents=True)
    former = Cluster(
        instance=instance_of(home), ray_address="", dashboard_url="", temp_dir=str(left)
    )
    write_private(home.cluster_file, former.model_dump_json())
    async with joined_host(tmp_path, MUTE, AGENT, start_s=0.5) as (life, _):
        assert await life == 0
    assert not left.parent.exists()
    assert not home.cluster_file.exists()


async def test_one_that_was_heard_may_be_silent() -> None:
    heard = asyncio.create_task(asyncio.sleep(0))
    await heard
    unheard = asyncio.create_task(module._unheard(heard, 0.0))
    done, _ = await asyncio.wait({unheard}, timeout=0.1)
    assert not done
    unheard.cancel()


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
    seen = "this host has joined another farm, or waits for that farm's head"
    with sole_supervisor(home), pytest.raises(UserError) as refused:
        bring_up(home, UpOptions())
    assert (
        str(refused.value)
        == f"cannot start a farm in {home.path}: {seen}. Run `benchfarm down` first."
    )
    with pytest.raises(AssertionError, match="a farm was begun"):
        bring_up(home, UpOptions())


def test_nor_where_a_supervisor_was_killed_that_has_left_its_node(home: Home) -> None:
    joined = instance_of(home)
    cluster = Cluster(instance=joined, ray_address="10.0.0.1:1", dashboard_url="", temp_dir="/t")
    write_private(home.cluster_file, cluster.model_dump_json())
    marked = {**os.environ, FARM_MARKER: joined}
    with idle_process(marked) as node:
        with pytest.raises(
            UserError, match=r"this host has joined another farm\. Run `benchfarm down`"
        ):
            bring_up(home, UpOptions())
        end_marked(FARM_MARKER, joined, grace_s=5.0)
        node.wait(PATIENCE_S)


def test_nobody_joins_another_farm_while_one_is_brought_up(home: Home) -> None:
    with (
        no_supervisor(home),
        pytest.raises(
            UserError, match=r"or `benchfarm up` is at work here\. Run `benchfarm down` first"
        ),
        sole_supervisor(home),
    ):
        raise AssertionError("it has joined")


def test_a_token_that_the_head_refuses_is_said_in_one_line(tmp_path: Path) -> None:
    head, log = Address.parse("--head", "10.0.0.1"), tmp_path / "ray-node.log"
    log.write_text("Unauthenticated: RPC error: InvalidAuthToken: Authentication token is wrong\n")
    with pytest.raises(UserError) as raised:
        require_right_token(head, log, 0)
    assert str(raised.value).startswith(
        "cannot join the farm at 10.0.0.1:6379: the head refuses the token. Copy the head's"
    )
    former = log.stat().st_size
    with log.open("a") as file:
        file.write("no space left on device\n")
    require_right_token(head, log, former)  # what a former start said is of a former token


async def test_what_a_killed_program_leaves_behind_holds_nothing_up() -> None:
    """Its child has its standard output, of whose end asyncio would wait."""
    stubborn = "import signal, subprocess, sys, time\n"
    stubborn += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stubborn += "child = subprocess.Popen([sys.executable, '-c', 'input()'])\n"
    stubborn += "print(child.pid, flush=True)\n"
    stubborn += "time.sleep(600)\n"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", stubborn, stdin=pipe, stdout=pipe
    )
    assert process.stdin
    assert process.stdout
    child = psutil.Process(int(await process.stdout.readline()))
    await asyncio.wait_for(module._ended(process), PATIENCE_S)

    assert child.is_running()
    process.stdin.close()
    await process.wait()
    psutil.wait_procs([child], PATIENCE_S)
    assert not child.is_running()
