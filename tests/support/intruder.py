"""What a second user of a machine tries on a running farm, and what each attempt came to.

`Attempts` is made by the farm's owner, who sees everything; `made` is called by the stranger.
"""

from __future__ import annotations

import functools
import http.client
import os
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import psutil
from grpc import _channel  # noqa: F401 - at its first call grpc imports it: too late for another user

from agents.virtual_phone import wire
from agents.virtual_phone.wire import Command, Message, encode

WAIT_S = 5.0
ANYWHERE = tuple(map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/run")))
PAGES = ("/", "/metrics", "/api/version", "/api/cluster_status", "/api/jobs/", "/logs/", "/sweeps")
RAY = (
    "ray.rpc.InternalKVGcsService/InternalKVKeys",
    "ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "ray.rpc.JobInfoGcsService/GetAllJobInfo",
    "ray.rpc.ActorInfoGcsService/GetAllActorInfo",
    "ray.rpc.NodeManagerService/GetNodeStats",
    "ray.rpc.CoreWorkerService/GetCoreWorkerStats",
    "ray.rpc.RayletDriver/ClusterInfo",
)
_SECRET_FILES = ("environ", "mem", "maps", "auxv", "stack", "syscall")
_SECRET_FOLDERS = ("fd", "root", "cwd", "map_files")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing to try."""

    what: str
    do: Callable[[], str | None]
    """Returns what was got, None if nothing; an OSError means refused."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Where a farm can be attacked, as its owner sees it."""

    processes: Sequence[int]
    paths: Sequence[Path]
    unix: Sequence[str]
    ports: Sequence[int]

    @classmethod
    def of(cls, processes: Iterable[psutil.Process], folders: Iterable[Path]) -> Targets:
        """Look at what the farm's processes hold and at what is in its folders."""
        family = {p.pid: p for p in processes}
        paths = {p for folder in folders for p in _below(folder)}
        unix: set[str] = set()
        ports: set[int] = set()
        for process in family.values():
            paths |= {p for p in _open_files(process.pid) if _is_anywhere(p)}
            for found in process.net_connections("unix"):
                unix |= {str(found.laddr)} - {""}
            for found in process.net_connections("tcp"):
                if found.status == psutil.CONN_LISTEN:
                    ports.add(found.laddr.port)
        return cls(sorted(family), sorted(paths), sorted(unix), sorted(ports))

    def attempts(self) -> Iterator[Attempt]:
        """Yield all that is to be tried on them."""
        published_with_ray()  # which the stranger may not be able to read
        for path in self.paths:
            yield Attempt(f"read {path}", partial(_read, path))
            yield Attempt(f"write {path}", partial(_write, path))
        for name in self.unix:
            yield Attempt(f"connect to {name!r}", partial(_connect, name))
        for pid in self.processes:
            proc = Path(f"/proc/{pid}")
            for name in _SECRET_FILES:
                yield Attempt(f"read {proc / name}", partial(_read, proc / name))
            for name in _SECRET_FOLDERS:
                yield Attempt(f"list {proc / name}", partial(_read, proc / name))
            yield Attempt(f"signal {pid}", partial(_signal, pid))
        for port in self.ports:
            yield Attempt(f"adb host on {port}", partial(_ask_as_adb_client, port))
            yield Attempt(f"adb device on {port}", partial(_ask_as_adb_server, port))
            for page in PAGES:
                yield Attempt(f"GET {page} on {port}", partial(_get, port, page))
            for method in RAY:
                yield Attempt(f"Ray's {method} on {port}", partial(_call_ray, port, method))


def made(attempts: Iterable[Attempt]) -> dict[str, str]:
    """Try everything as this process's user; return what was got, by what was tried."""
    got = {}
    for attempt in attempts:
        try:
            outcome = attempt.do()
        except OSError:
            continue
        if outcome is not None:
            got[attempt.what] = outcome
    return got


def call_ray(port: int, method: str, token: str | None = None) -> grpc.StatusCode:
    """Call a method of Ray's with an empty request; return the status it answers with."""
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            channel.unary_unary(f"/{method}")(b"", timeout=WAIT_S, metadata=metadata)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return grpc.StatusCode.OK


def command_lines(processes: Iterable[int]) -> str:
    """Return what everybody may read of how processes were started."""
    return "\n".join(_cmdline(pid) for pid in processes)


def _cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:  # ended meanwhile
        return ""


def _below(folder: Path) -> Iterator[Path]:
    yield folder
    for above, folders, files in os.walk(folder):
        yield from (Path(above) / name for name in (*folders, *files))


def _open_files(pid: int) -> Iterator[Path]:
    for part in ("fd", "map_files"):
        for link in Path(f"/proc/{pid}/{part}").glob("*"):
            try:
                yield link.readlink()
            except OSError:  # closed meanwhile
                continue


def _is_anywhere(path: Path) -> bool:
    """Return whether a file is ours, where anyone may write; not one of the packages that were
    installed, which anyone may read, wherever the tester has put them."""
    own = any(place in path.parents for place in ANYWHERE)
    own = own and Path(sys.prefix) not in path.parents
    return own and path.exists() and path.stat().st_uid == os.geteuid()


def _read(path: Path) -> str | None:
    if path.is_dir():
        return f"its names: {sorted(os.listdir(path))[:5]}"  # noqa: PTH208 - raises what refuses it
    with closing(os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")) as file:
        return f"{len(file.read(1000))} bytes"


def _write(path: Path) -> str | None:
    if path.is_dir():
        planted = path / "planted-by-a-stranger"
        planted.mkdir()
        planted.rmdir()
        return "a folder was planted in it"
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    return "opened for writing"


def _connect(name: str) -> str | None:
    with socket.socket(socket.AF_UNIX) as ours:
        ours.settimeout(WAIT_S)
        ours.connect(f"\0{name[1:]}" if name.startswith("@") else name)
    return "connected"


def _signal(pid: int) -> str | None:
    os.kill(pid, 0)  # asks for the right to signal; SIGCONT needs none within a session
    return "may be signalled"


def _said(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as ours:
        ours.sendall(request)
        ours.shutdown(socket.SHUT_WR)
        parts: list[bytes] = []
        try:
            while data := ours.recv(1 << 16):
                parts.append(data)
        except TimeoutError:
            pass
    return b"".join(parts)


def _ask_as_adb_client(port: int) -> str | None:
    said = _said(port, b"000chost:version")
    return "an adb server's answer" if said[:4] in (b"OKAY", b"FAIL") else None


def _ask_as_adb_server(port: int) -> str | None:
    hello = Message(Command.CNXN, wire.VERSION_NO_CHECKSUM, wire.MAX_PAYLOAD, b"host::\0")
    opened = Message(Command.OPEN, 1, 0, b"shell:id\0")
    said = _said(port, b"".join(encode(m, wire.VERSION_CHECKSUM) for m in (hello, opened)))
    first = struct.unpack_from("<I", said)[0] if len(said) >= 4 else 0
    return f"let in: {said[:60]!r}" if first in (Command.CNXN, Command.OKAY) else None


def _get(port: int, page: str) -> str | None:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)) as connection:
        try:
            connection.request("GET", page)
            answer = connection.getresponse()
            text = answer.read(300)
        except http.client.HTTPException:
            return None  # it does not speak HTTP
    if answer.status >= 400 or (text and published_with_ray().startswith(text)):
        return None
    return f"{answer.status} {text[:200]!r}"


@functools.cache
def published_with_ray() -> bytes:
    """Return the start page of Ray's dashboard: an empty frame, the same in every installation."""
    package = find_spec("ray")
    assert package
    assert package.origin
    return (Path(package.origin).parent / "dashboard/client/build/index.html").read_bytes()


def _call_ray(port: int, method: str) -> str | None:
    code = call_ray(port, method)
    refused = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    # What is no gRPC server, or not of this service, can't be reached or does not know the method.
    nothing = (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    )
    return None if code in (*refused, *nothing) else str(code)


def tokens_in(text: str, tokens: Iterable[str]) -> list[str]:
    """Return which secrets a text holds, or hexadecimal words as long as one."""
    return [t for t in tokens if t in text] + re.findall(r"\b[0-9a-f]{64}\b", text)
