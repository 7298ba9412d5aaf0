"""A program of another user on the port of a controller that has ended gets no token."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from controller.api.streams import _controller_lines
from controller.contracts.administration import SweepStatus
from controller.contracts.errors import FarmSilent
from controller.contracts.sweep import Sweep
from controller.platform.atomic import write_private
from controller.runtime.client import FarmClient, Timings
from controller.runtime.health import is_listening, process_of, why_silent, why_unanswered
from controller.runtime.home import Cluster, Endpoint, Home
from tests.support.fake_controller import telling_controller
from tests.support.other_user import OTHER_UID, call_as_other_user, needs_other_user

pytestmark = needs_other_user

SHORT: Final = Timings(restart_s=0.05, retry_s=0.01, answer_s=0.05)
ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass(slots=True)
class Impostor:
    """A server of another user, and all that it has been sent."""

    address: str
    heard: bytes = field(default=b"")


def answer_all(listener: socket.socket, stop: socket.socket) -> bytes:
    """Answer whatever comes, until the other end of `stop` is closed; return what was heard."""
    heard = b""
    callers: list[socket.socket] = []
    while True:
        ready, _, _ = select.select([listener, stop, *callers], [], [])
        if stop in ready:
            return heard
        for one in ready:
            if one is listener:
                callers.append(listener.accept()[0])
                continue
            said = one.recv(2**16)
            heard += said
            if said:
                one.sendall(ANSWER)
            else:
                callers.remove(one)
                one.close()


@contextmanager
def impostor() -> Iterator[Impostor]:
    """Run such a server; `heard` is there once it has ended."""
    ours, theirs = socket.socketpair()

    def serve() -> bytes:
        ours.close()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            theirs.sendall(str(listener.getsockname()[1]).encode())
            return answer_all(listener, theirs)

    with theirs, ThreadPoolExecutor(1) as pool:
        served = pool.submit(call_as_other_user, serve)
        running = Impostor(f"127.0.0.1:{int(ours.recv(16))}")
        try:
            yield running
        finally:
            ours.close()
            running.heard = served.result()


@contextmanager
def impostor_of(home: Home) -> Iterator[Impostor]:
    """Have an impostor at a home's controller's address, while all else of the farm runs."""
    home.prepare()
    with impostor() as running:
        cluster = Cluster(
            instance="abc",
            ray_address="127.0.0.1:1",
            dashboard_url="http://127.0.0.1:2",
            temp_dir="/t",
            head=(process_of(os.getpid()),),
        )
        write_private(home.cluster_file, cluster.model_dump_json())
        endpoint = Endpoint(url=f"http://{running.address}", version="", pid=1)
        write_private(home.endpoint_file, endpoint.model_dump_json())
        yield running


def ask(client: FarmClient) -> None:
    client.sweep_status("s")


def administer(client: FarmClient) -> None:
    client.administer(SweepStatus, "/tokens")


def watch(client: FarmClient) -> None:
    with client.beats("s"):
        pass


class LookedBefore(FarmClient):
    """A client whose look at the controller came before the impostor."""

    def _own_url(self) -> str:
        return self._home.endpoint().url


@pytest.mark.parametrize("kind", [FarmClient, LookedBefore])
@pytest.mark.parametrize("call", [ask, administer, watch])
def test_commands_send_an_impostor_nothing(
    call: Callable[[FarmClient], None], kind: type[FarmClient], tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    with impostor_of(home) as running, pytest.raises(FarmSilent) as refused:
        call(kind(home, {}, SHORT))
    assert running.heard == b""
    said = f"a program of another user (uid {OTHER_UID}) listens at {running.address}"
    assert refused.value.seen == said


async def test_the_api_sends_an_impostor_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with impostor_of(home) as running, pytest.raises(FarmSilent, match="another user"):
        async with _controller_lines(home, "s"):
            pass
    assert running.heard == b""


def test_one_who_submits_waits_for_the_controller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep(name="s", workload="w", stack="t", scenario="offline")
    home = Home(tmp_path / "home")
    patient = replace(SHORT, restart_s=3.0)  # longer than a first try takes on a busy machine
    with impostor_of(home) as running, pytest.raises(FarmSilent):
        FarmClient(home, {}, patient).submit(sweep, again=True)
    assert running.heard == b""
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        f"; a program of another user (uid {OTHER_UID}) listens at {running.address}"
    )


def test_an_impostor_is_no_controller(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with impostor_of(home) as running:
        said = f"a program of another user (uid {OTHER_UID}) listens at {running.address}"
        assert why_silent(home) == said
        assert why_unanswered(home) == said
        assert not is_listening(running.address)
        assert is_listening(running.address, owner=OTHER_UID), "root looks at that user's farm"
    assert running.heard == b""


async def test_the_api_listens_to_its_own_controller(tmp_path: Path) -> None:
    """Else the refusal above would show nothing."""
    home = Home(tmp_path / "home")
    home.prepare()
    with telling_controller(home, [None]):
        async with _controller_lines(home, "s") as lines:
            assert [line async for line in lines] == [""]
