"""Benchmark of the HTTP interface while one user sends as much as the limits allow.

A process of its own serves the real interface of the controller's core on a new store: its event
loop, threads and store are measured. Run as a module, this is that process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from controller.contracts.bench import ApiLoad
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Agent, Device, DeviceKind, Registration
from controller.contracts.version import installed_version
from controller.platform.programs import python_module
from controller.platform.terminal import say
from controller.runtime.access import Access
from controller.runtime.api import ApiOptions, serve_api, url_of
from controller.runtime.clock import Clock
from controller.runtime.farm import Farm, FarmSettings
from controller.runtime.feed import Feed
from controller.store.sqlite import SqliteStore

DEVICES: Final = 20
HOSTILE_THREADS: Final = 8
STREAMS: Final = 16
HONEST_PAUSE_S: Final = 0.05
PATIENCE_S: Final = 60.0
SWEEP: Final = {"workload": "retinanet_resnext50", "stack": "torch", "scenario": "training"}


@dataclass(slots=True)
class _Sender:
    """One user's requests, counted."""

    url: str
    token: str
    seconds: list[float] = field(default_factory=list)
    sent: int = 0
    refused: int = 0

    def ask(self, client: httpx.Client, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        content = b"" if body is None else json.dumps(body).encode()
        began = time.perf_counter()
        response = client.request(method, path, content=content)
        self.seconds.append(time.perf_counter() - began)
        self.sent += size_of(response.request)
        self.refused += response.status_code != httpx.codes.OK
        return response.json()

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, trust_env=False)


def size_of(request: httpx.Request) -> int:
    """Return the approximate size of a request in bytes."""
    head = sum(len(k) + len(v) + 4 for k, v in request.headers.raw)
    return len(request.content) + head + len(str(request.url))


def measure_api(seconds: float) -> ApiLoad:
    """Let one user send all allowed requests for some seconds; return how another is answered."""
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as said:
        url, tokens = said["url"], said["tokens"]
        hostile = [_Sender(url, tokens["hostile"]) for _ in range(HOSTILE_THREADS)]
        honest = _Sender(url, tokens["honest"])
        ends = time.monotonic() + seconds
        before = _stored_bytes(Path(folder))
        work: list[Callable[[], None]] = [lambda: _be_honest(honest, ends)]
        work += [lambda one=one, n=n: _be_hostile(one, n, ends) for n, one in enumerate(hostile)]  # type: ignore[misc]
        threads = [threading.Thread(target=each) for each in work]
        with _listening(hostile[0]):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        grown = _stored_bytes(Path(folder)) - before
    waits = sorted(honest.seconds)
    return ApiLoad(
        requests=len(waits),
        median_s=waits[len(waits) // 2],
        p99_s=waits[min(len(waits) - 1, round(0.99 * len(waits)))],
        longest_s=waits[-1],
        hostile_requests=sum(len(one.seconds) for one in hostile),
        hostile_refused=sum(one.refused for one in hostile),
        hostile_bytes=sum(one.sent for one in hostile),
        store_bytes=grown,
    )


def _be_honest(user: _Sender, ends: float) -> None:
    with user.client() as client:
        for number in itertools.count():
            if time.monotonic() >= ends:
                return
            sweep = {**SWEEP, "name": f"honest-{number}"}
            sweep_id = user.ask(client, "POST", "/v1/sweeps", {"sweep": sweep})["sweep_id"]
            user.ask(client, "GET", f"/v1/sweeps/{sweep_id}")
            user.ask(client, "POST", f"/v1/sweeps/{sweep_id}/cancel", {})
            time.sleep(HONEST_PAUSE_S)


def _be_hostile(user: _Sender, number: int, ends: float) -> None:
    with user.client() as client:
        for round_ in itertools.count():
            for path, body in attacks(number, round_):
                if time.monotonic() >= ends:
                    return
                said = user.ask(client, "POST", path, body)
                if sweep_id := said.get("sweep_id"):
                    for verb in ("cancel", "resume", "cancel"):
                        user.ask(client, "GET", f"/v1/sweeps/{sweep_id}")
                        user.ask(client, "POST", f"/v1/sweeps/{sweep_id}/{verb}", {})


def attacks(number: int, round_: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the largest submission of each kind that is accepted, and some that are refused."""
    name = f"h{number}-{round_}"
    long = [f'any or device == "{n:0{1950}}"' for n in range(31)]
    steps = list(range(1, 1001))
    shapes: list[dict[str, Any]] = [
        {"devices": long, "repeats": 300},
        {"knobs": {"steps": steps, "batch_size": [1, 2]}, "repeats": 5},
        {"repeats": 1000, "run_on": 10},
        {
            "knobs": {"steps": steps, "image_size": [96]},
            "devices": [_many_clauses(n) for n in "ab"],
        },
        {"devices": [_many_clauses(f"{round_}-{n}") for n in range(25)]},
        *({} for _ in range(20)),
        {"knobs": {"steps": list(range(20_000))}},
        {"devices": ["any or " * 5000 + "any"]},
    ]
    for kind, shape in enumerate(shapes):
        yield "/v1/sweeps", {"sweep": {**SWEEP, "name": f"{name}-{kind}", **shape}, "again": True}


def _many_clauses(word: str) -> str:
    return " or ".join([f'device == "{word}{n}"' for n in range(63)] + ["any"])


@contextmanager
def _listening(user: _Sender) -> Iterator[None]:
    """Hold event streams open without reading them."""
    with user.client() as client:
        sweep = {**SWEEP, "name": "listened"}
        sweep_id = user.ask(client, "POST", "/v1/sweeps", {"sweep": sweep})["sweep_id"]
        path = f"/v1/sweeps/{sweep_id}/events"
        streams = [client.send(client.build_request("GET", path), stream=True)]
        streams += [
            client.send(client.build_request("GET", path), stream=True) for _ in range(STREAMS - 1)
        ]
        try:
            yield
        finally:
            for stream in streams:
                stream.close()


def _stored_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("store.sqlite*"))


@contextmanager
def _served(folder: Path) -> Iterator[dict[str, Any]]:
    """Run the controller's core in a process; yield its URL and tokens."""
    command = python_module("controller.runtime.api_bench", str(folder))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


async def _serve(folder: Path) -> None:
    """Serve until standard input ends."""
    store, feed, clock = SqliteStore.open(folder / "store.sqlite"), Feed(), Clock()
    settings = FarmSettings(lease_ttl_s=86_400.0)  # nobody asks for its devices
    farm = Farm(store, load_catalog(), installed_version(), settings, clock, feed.publish)
    farm.register(registration())
    access = Access(store, secrets.token_hex(), clock.wall)
    tokens = {name: access.create(name).token for name in ("hostile", "honest")}
    options = ApiOptions(access=access, metrics_token=secrets.token_hex(), port=0)
    server = await serve_api(farm, feed, list, options)
    say(json.dumps({"url": url_of(server), "tokens": tokens}))
    await asyncio.to_thread(sys.stdin.read)
    await server.cleanup()


def registration() -> Registration:
    """Return an agent with the devices that the sweeps may be placed on."""
    devices = tuple(
        Device(id=f"cpu-{n}", kind=DeviceKind.CPU_HOST, virtual=True, host_cores=frozenset({n}))
        for n in range(DEVICES)
    )
    agent = Agent(id="bench", incarnation="1", version=installed_version(), host="bench")
    return Registration(agent=agent, devices=devices)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
