"""Virtual phones and private adb servers for tests: real processes, free ports, ended by id."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import adbutils

from agents.virtual_phone import control
from agents.virtual_phone.faults import Fault
from controller.contracts.helper_reply import read_reply
from controller.contracts.virtual_phone import PhoneFacts
from controller.platform.ports import free_ports
from controller.platform.programs import python_module
from tests.support.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
PHONE = python_module("agents.virtual_phone", "--until-stdin-closes")


@dataclass(frozen=True, slots=True)
class RunningPhone:
    """A phone started by its command line."""

    serial: str
    address: str
    port: int
    folder: Path
    pid: int

    def set_faults(self, *faults: Fault) -> control.PhoneStatus:
        return asyncio.run(control.ask(self.folder, control.SetFaults(faults=faults)))

    def ask(self, request: control.Request) -> control.PhoneStatus:
        return asyncio.run(control.ask(self.folder, request))

    def status(self) -> control.PhoneStatus:
        return self.ask(control.GetStatus())


@contextmanager
def running_phone(
    profile: str,
    folder: Path,
    *options: str,
    command: Sequence[str] = PHONE,
    environment: Mapping[str, str] | None = None,
) -> Iterator[RunningPhone]:
    """Have a phone that lets in every adb server, if no option names its keys."""
    cores = str(min(os.sched_getaffinity(0)))
    named = any(option.startswith("--authorized-keys") for option in options)
    usual = ["--profile", profile, "--folder", str(folder), "--cores", cores]
    with subprocess.Popen(
        [*command, *usual, *([] if named else ["--any-key"]), *options],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            facts = read_reply(process.stdout.readline().encode(), PhoneFacts)
            assert isinstance(facts, PhoneFacts)
            folder = Path(facts.folder)
            yield RunningPhone(facts.serial, facts.address, facts.port, folder, facts.pid)
        finally:
            process.terminate()


@dataclass(frozen=True, slots=True)
class Adb:
    """The adb program, talking to a server of the test's own."""

    port: int
    env: dict[str, str]
    serial: str | None = None

    def of(self, serial: str) -> Adb:
        return Adb(self.port, self.env, serial)

    def command(self, *arguments: str) -> list[str]:
        chosen = ["-s", self.serial] if self.serial else []
        return [adbutils.adb_path(), *chosen, *arguments]

    def __call__(
        self, *arguments: str, stdin: bytes = b"", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env=self.env,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0 or not check, done
        return done

    def connect(self, address: str) -> Adb:
        said = self("connect", address).stdout.decode()
        assert said.startswith("connected"), said
        return self.of(address)

    def state_of(self, address: str) -> str | None:
        lines = self("devices").stdout.decode().splitlines()[1:]
        return dict(line.split("\t") for line in lines if line).get(address)


@contextmanager
def adb_server(home: Path) -> Iterator[Adb]:
    (port,) = free_ports(1, "127.0.0.1")
    env = {name: value for name, value in os.environ.items() if "ADB" not in name}
    env |= {
        "ANDROID_ADB_SERVER_PORT": str(port),
        "HOME": str(home),  # where it keeps its key; adb 36 doesn't ask ANDROID_USER_HOME
        "ADB_MDNS_AUTO_CONNECT": "0",
        "ADB_EMU": "0",  # else it looks for emulators from 5555 on
    }
    home.mkdir()
    with (
        (home / "adb.log").open("wb") as log,
        subprocess.Popen(
            [adbutils.adb_path(), "nodaemon", "server"], env=env, stdout=log, stderr=log
        ) as server,
    ):
        try:
            eventually(lambda: _listens(port), "the adb server listens")
            yield Adb(port, env)
        finally:
            server.terminate()


def public_key(server: Adb, folder: Path) -> Path:
    """Return a file with the key by which phones know an adb server."""
    key = Path(server.env["HOME"]) / ".android/adbkey"
    eventually(key.exists, "the adb server has made its key")
    public = folder / "key.pub"
    public.write_bytes(server("pubkey", str(key)).stdout)
    return public


def package(path: Path, content: bytes) -> Path:
    """Make what passes for an Android package at a path."""
    with ZipFile(path, "w") as apk:
        apk.writestr("AndroidManifest.xml", b"")
        apk.writestr("assets/content", content)
    return path


def read_all(connection: socket.socket) -> bytes:
    parts: Sequence[bytes] = list(iter(lambda: connection.recv(1 << 16), b""))
    return b"".join(parts)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
