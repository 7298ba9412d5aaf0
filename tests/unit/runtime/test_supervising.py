"""What is started again when it ends, how soon, and when it is not."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from controller.cli.device_list import list_devices
from controller.contracts.errors import (
    FarmRestarting,
    FarmSilent,
    FarmUnavailable,
    HomeUnusable,
)
from controller.contracts.sweep import Sweep
from controller.platform.atomic import write_private
from controller.runtime import head_supervisor as module
from controller.runtime import health, lifetime
from controller.runtime.client import FarmClient, Timings
from controller.runtime.cluster import Head
from controller.runtime.head_supervisor import look_after
from controller.runtime.health import (
    is_running,
    is_supervised,
    process_of,
    program_of,
    why_away,
    why_silent,
    why_unanswered,
)
from controller.runtime.home import Cluster, Endpoint, Home, Process
from controller.runtime.lifetime import UpOptions, bring_up_as_wanted, wanted
from controller.runtime.redis import RedisServer
from controller.runtime.supervising import LONGEST_PAUSE_S, SETTLED_S, Supervision, pause_s
from controller.store.sqlite import SqliteStore
from tests.support.processes import idle_process

OPTIONS = UpOptions(
    labels={"rack": "b2"},
    head=Head(redis=RedisServer(host="h", port=1, password_file=None), autoscaling=Path("/a.yaml")),
    phone_power_cycle=("/bin/uhubctl", "{serial}"),
    meter=("/bin/meter", "{device}"),
    supervised=True,
)
SHORT = Timings(restart_s=4.0, retry_s=0.0, answer_s=0.05)
"""On a busy machine, the first answer may be given up long after `answer_s`, and still be told."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.prepare()
    return home


@pytest.fixture
def raylet() -> Iterator[subprocess.Popen[bytes]]:
    with idle_process() as process:
        yield process


def is_up(home: Home, *head: Process, url: str = "http://127.0.0.1:1") -> None:
    """Have a home tell of a farm whose head is made of some processes."""
    cluster = Cluster(
        instance="abc", ray_address="127.0.0.1:1", dashboard_url="", temp_dir="/t", head=head
    )
    write_private(home.cluster_file, cluster.model_dump_json())
    endpoint = Endpoint(url=url, version="1", pid=1)
    write_private(home.endpoint_file, endpoint.model_dump_json())


def test_a_crash_loop_slows_down_to_once_a_minute() -> None:
    pauses = [pause_s(lives, 0.5) for lives in range(10)]
    assert pauses[:5] == [0.5, 0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == pause_s(1000, 0.5) == LONGEST_PAUSE_S


async def test_short_lives_are_told_and_a_long_one_forgives_them() -> None:
    lives = iter([1.0, 1.0, 1.0, SETTLED_S, 1.0])
    said: list[str] = []
    supervision = Supervision(said.append)

    async def live_once() -> float:
        lived_s = next(lives)
        if lived_s == SETTLED_S:
            supervision.signals.put_nowait(None)
        return lived_s

    await supervision.go_on(live_once, 0.001)
    assert said == ["it ended early 3 times in a row; next start in 0.004 s"]
    assert next(lives) == 1.0, "it was told to stop"


def test_a_process_is_told_from_a_later_one_of_its_id(raylet: subprocess.Popen[bytes]) -> None:
    known = process_of(raylet.pid)
    assert (known.name, is_running(known)) == ("sleep", True)
    assert not is_running(known.model_copy(update={"started": known.started - 1}))
    raylet.kill()
    os.waitid(os.P_PID, raylet.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
    assert not is_running(known)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/x/raylet", "--a=b"], "raylet"),
        (["/x/python", "-P", "-u", "/ray/dashboard/dashboard.py", "--h"], "dashboard"),
        (["python3.11", "-m", "ray.util.client.server", "--port=1"], "ray.util.client.server"),
        (["ray::RuntimeEnvAgent", ""], "ray::RuntimeEnvAgent"),
        (["python"], "python"),
        ([""], ""),
    ],
)
def test_what_ended_has_a_name(words: list[str], name: str) -> None:
    assert program_of(words) == name


def test_a_farm_without_its_raylet_is_down_and_says_so(
    home: Home, raylet: subprocess.Popen[bytes]
) -> None:
    is_up(home, process_of(os.getpid()), process_of(raylet.pid))
    assert why_away(home) == ""
    raylet.kill()
    raylet.wait()
    assert why_away(home) == "the farm is down: sleep ended"
    with pytest.raises(FarmUnavailable, match=r"sleep ended\. Run `benchfarm up`\."):
        FarmClient(home, {}).sweep_status("s")


def test_a_process_without_a_name_is_missed_too(home: Home) -> None:
    """The kernel has no command line of one that is just being started."""
    is_up(home, Process(pid=os.getpid(), started=0, name=""))
    assert why_away(home) == f"the farm is down: process {os.getpid()} ended"


def test_one_without_a_command_line_has_a_name(raylet: subprocess.Popen[bytes]) -> None:
    raylet.kill()
    os.waitid(os.P_PID, raylet.pid, os.WEXITED | os.WNOWAIT)  # the kernel has dropped its memory
    assert Path(f"/proc/{raylet.pid}/cmdline").read_bytes() == b""
    assert process_of(raylet.pid).name == "sleep"


def test_one_that_is_started_again_is_to_be_waited_for(home: Home) -> None:
    is_up(home, Process(pid=os.getpid(), started=0, name="raylet"))
    write_private(home.wanted, "{}")
    holder = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); "
    command = [sys.executable, "-c", holder + "print(flush=True); sys.stdin.read()"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, home.supervisor_lock], stdin=pipe, stdout=pipe) as supervisor:
        assert supervisor.stdout
        supervisor.stdout.readline()
        assert is_supervised(home)
        assert why_away(home) == "the farm is being started again: raylet ended"
        with pytest.raises(FarmRestarting, match=r"supervisor\.log"):
            FarmClient(home, {}).sweep_status("s")
        supervisor.kill()
    assert why_away(home) == "the farm is down: raylet ended"


@pytest.fixture
def stopped_controller(home: Home) -> Iterator[Home]:
    """A farm that is whole, but for a controller that takes connections and says nothing."""
    assert Timings().answer_s <= 5.0, "what users are promised"
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        url = f"http://127.0.0.1:{stopped.getsockname()[1]}"
        is_up(home, process_of(os.getpid()), url=url)
        yield home


def test_a_controller_that_is_stopped_is_said_by_every_request(stopped_controller: Home) -> None:
    assert why_away(stopped_controller) == ""
    asked = FarmClient(stopped_controller, {}, SHORT)
    said = "the controller has not answered for 0.05 s. Wait, or start the farm anew"
    with pytest.raises(FarmSilent, match=said):
        asked.sweep_status("s")
    with pytest.raises(FarmSilent, match=said), asked.events("s"):
        pass


def test_who_submits_to_one_that_is_stopped_is_told_and_waits(
    stopped_controller: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep(name="s", workload="w", stack="t", scenario="offline")
    with pytest.raises(FarmSilent):
        FarmClient(stopped_controller, {}, SHORT).submit(sweep, again=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("waiting up to 4 s for the controller of")
    assert line.endswith("; the controller has not answered for 0.05 s")


def test_the_device_list_says_that_the_controller_is_stopped(stopped_controller: Home) -> None:
    SqliteStore.open(stopped_controller.store).close()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as said:
        patch.setenv("BENCHFARM_HOME", str(stopped_controller.path))
        quick = partial(why_unanswered, answer_s=SHORT.answer_s)
        patch.setattr(health, "why_unanswered", quick)
        list_devices()
    assert said.getvalue() == "benchfarm: the controller has not answered for 0.05 s\n"


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 503 Busy\r\n\r\n"])
def test_one_that_turns_away_whoever_asks_is_not_silent(home: Home, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        is_up(home, process_of(os.getpid()), url=url)

        def turn_away() -> None:
            with server.accept()[0] as connection:
                connection.sendall(answer)

        thread = threading.Thread(target=turn_away)
        thread.start()
        assert why_silent(home) == ""
        thread.join()
    assert why_silent(home) == "", "nobody listens: it is away"


def test_what_up_was_told_is_kept_for_the_next_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[UpOptions] = []
    monkeypatch.setattr(lifetime, "bring_up", lambda _, options: done.append(options))
    bring_up_as_wanted(home)
    assert done == [], "after `down`"
    write_private(home.wanted, lifetime._OPTIONS.dump_json(OPTIONS).decode())
    bring_up_as_wanted(home)
    assert done == [OPTIONS]
    write_private(home.wanted, json.dumps({"labels": 1}))
    with pytest.raises(HomeUnusable, match="it is damaged"):
        wanted(home)


async def test_the_end_of_one_process_is_answered_at_once_and_down_ends_it(
    home: Home, raylet: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Queue[bool]()

    async def keep_standby(_: object) -> None:
        return None

    async def brings_up(_: object) -> bool:
        begun.put_nowait(True)
        home.wanted.unlink()  # as `down` does
        return True

    monkeypatch.setattr(module._Head, "keep_standby", keep_standby)
    monkeypatch.setattr(module._Head, "_bring_up", brings_up)
    monkeypatch.setattr(module, "is_listening", lambda _: True)
    is_up(home, process_of(raylet.pid))
    write_private(home.wanted, "{}")
    # With so long a look, only the process's end wakes it.
    life = asyncio.create_task(look_after(home, block=False, look_s=1000.0))
    await asyncio.sleep(0)
    assert begun.empty()
    raylet.kill()
    assert await begun.get()
    await life
