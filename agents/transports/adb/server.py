"""adb servers: one of the agent's own, which outlives it, or one that the user has started."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import psutil

from agents.transports.adb.smart_socket import Address, ask
from agents.transports.remote import RemoteFault
from controller.contracts.errors import AdbMissing, AdbUnavailable
from controller.contracts.ports import free_ports
from controller.contracts.processes import end_marked, marked_processes

SERVER_MARKER = "BENCHFARM_ADB_SERVER"
"""Environment variable of an agent's adb server; its value is the folder it is kept in."""
LOOPBACK = "127.0.0.1"
USB = Path("/dev/bus/usb")
START_S = 30.0
ANSWER_S = 5.0
RACES = 5
"""A port that was free may be taken a moment later; so many are tried."""
_LISTEN = re.compile(r"tcp:localhost:(\d+)")
_IN_USE = "Address already in use"


class PortTaken(AdbUnavailable):
    """The adb server was to listen on a port that is in use."""


class AdbServer(Protocol):
    """An adb server the agent may use."""

    @property
    def address(self) -> Address:
        """Where it listens; stays the same when it is restarted."""
        ...

    async def ready(self) -> Address:
        """Return its address once it answers; called first, and when it has ceased to answer.

        Raises AdbUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class AttachedServer:
    """A server somebody else has started, and will stop."""

    address: Address

    async def ready(self) -> Address:
        """See AdbServer.ready."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await ask(self.address, "host:version")
        except (RemoteFault, TimeoutError) as error:
            raise AdbUnavailable(
                f"use the adb server at {self.address}",
                str(error) or "it does not answer",
                "start it there with `adb start-server`, or leave the address out",
            ) from error
        return self.address


@dataclass(frozen=True, slots=True)
class PrivateServer:
    """A server of the agent's own, with its own keys; known by a marker in its environment."""

    folder: Path
    address: Address
    key: Path | None = None
    """A key, or a folder of keys, that phones already know (ADB_VENDOR_KEYS)."""
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False, repr=False)
    """Held while it is looked at and started: two at once would take each other's port."""

    @classmethod
    async def start(
        cls, folder: Path, port: int | None = None, key: Path | None = None
    ) -> PrivateServer:
        """Find the folder's server, or start it on a port, a free one if not told.

        Raises AdbUnavailable.
        """
        folder = folder.absolute()
        if (running := _running_port(folder)) and port in (None, running):
            return cls(folder, Address(LOOPBACK, running), key)
        for _ in range(RACES):
            server = cls(folder, Address(LOOPBACK, port or free_ports(1, LOOPBACK)[0]), key)
            try:
                await server.ready()
                return server
            except PortTaken as error:
                taken = error
                if port is not None:
                    break
        raise taken

    async def ready(self) -> Address:
        """See AdbServer.ready."""
        async with self._changing:
            if _running_port(self.folder) != self.address.port or not await self._answers():
                await self.stop()
                await self._launch()
        return self.address

    async def restart(self) -> None:
        """End it and start it again on the same port; raises AdbUnavailable.

        All phones are lost, and those on a cable are found again.
        """
        async with self._changing:
            await self.stop()
            await self._launch()

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_S):
                await ask(self.address, "host:version")
        except (RemoteFault, TimeoutError):
            return False
        return True

    async def stop(self) -> None:
        """End it; called when no agent of this host is to need it any more."""
        await asyncio.to_thread(end_marked, SERVER_MARKER, str(self.folder), 1.0)

    async def _launch(self) -> None:
        command = (find_adb(), "-L", f"tcp:localhost:{self.address.port}", "fork-server", "server")
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "adb.log"
        log.unlink(missing_ok=True)
        heard, said = os.pipe()
        try:
            # setsid forks: the server is nobody's child, and stays when the agent ends.
            process = await asyncio.create_subprocess_exec(
                *("setsid", "--fork", *command, "--reply-fd", str(said)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=server_environment(os.environ, self.folder, self.key),
                pass_fds=(said,),
            )
        finally:
            os.close(said)
        answer = await _read_all(heard)
        await process.wait()
        if answer != b"OK\n":
            raise self._not_started(log.read_text(errors="replace") if log.exists() else "")

    def _not_started(self, log: str) -> AdbUnavailable:
        tried = f"start an adb server on {self.address}"
        if _IN_USE in log:
            return PortTaken(tried, "the port is in use", "name another port, or none")
        seen = log.strip().splitlines()[-1] if log.strip() else "it ended without a word"
        return AdbUnavailable(tried, seen, f"see {self.folder / 'adb.log'}")


def server_environment(
    environment: Mapping[str, str], folder: Path, key: Path | None
) -> dict[str, str]:
    """Return what an agent's server is started with: nothing of adb's own variables is passed on.

    It neither looks for emulators nor connects to what announces itself in the network.
    """
    # Where there is no USB, adb's default way to it only gives up after 3 s.
    usb = {} if USB.exists() else {"ADB_LIBUSB": "0"}
    kept = {k: v for k, v in environment.items() if not k.startswith(("ADB", "ANDROID"))}
    own = {
        "HOME": str(folder),
        "ANDROID_USER_HOME": str(folder / ".android"),
        "ANDROID_ADB_LOG_PATH": str(folder / "adb.log"),
        "TMPDIR": str(folder),
        "ADB_MDNS": "0",
        "ADB_MDNS_AUTO_CONNECT": "0",
        "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553",
        SERVER_MARKER: str(folder),
    }
    return kept | own | usb | ({"ADB_VENDOR_KEYS": str(key)} if key else {})


def find_adb() -> str:
    """Return the adb of the adbutils wheel, else that on PATH; raises AdbMissing."""
    package = find_spec("adbutils")  # not imported: it brings an imaging library with it
    if package and package.origin:
        bundled = Path(package.origin).parent / "binaries" / "adb"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    if found := shutil.which("adb"):
        return found
    raise AdbMissing(
        "find adb",
        "neither the Python package adbutils nor an adb on PATH",
        "pip install 'adbutils==2.12.*', or apt install adb",
    )


def _running_port(folder: Path) -> int | None:
    for process in marked_processes(SERVER_MARKER, str(folder)):
        try:
            if match := _LISTEN.search(" ".join(process.cmdline())):
                return int(match[1])
        except psutil.Error:  # it has just ended
            continue
    return None


async def _read_all(descriptor: int) -> bytes:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        async with asyncio.timeout(START_S):
            return await reader.readline()
    except TimeoutError:
        return b""
    finally:
        transport.close()
