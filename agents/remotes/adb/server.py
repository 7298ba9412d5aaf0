"""adb servers: the agent's own, which outlives the agent, or one that the user has started."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import psutil

from agents.remotes.adb.addresses import Address, UnixSocket
from agents.remotes.adb.smart_socket import ask
from agents.remotes.remote import RemoteFault
from controller.contracts.errors import AdbMissing, AdbUnavailable
from controller.platform.inherited import inherited
from controller.platform.processes import end_all, marked_processes

SERVER_MARKER = "BENCHFARM_ADB_SERVER"
"""Environment variable of an agent's adb server; its value is the server's folder."""
SOCKET = "adb.sock"
"""Socket of the server, in its folder."""
USB = Path("/dev/bus/usb")
START_S = 30.0
ANSWER_S = 5.0
_ROLE = ("fork-server", "server")
"""Arguments of an adb server's command line."""
_PEER = struct.Struct("3i")
"""<bits/socket.h> ucred: pid, uid, gid of the listening process."""
log = logging.getLogger(__name__)


class AdbServer(Protocol):
    """An adb server for the agent."""

    @property
    def address(self) -> Address:
        """Its address; a restart doesn't change it."""
        ...

    async def ready(self) -> Address:
        """Return its address once it answers; called first, and when it no longer answers.

        Raises AdbUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class AttachedServer:
    """A server that the user has started and will stop."""

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
                "Start it with `adb start-server`, or leave the address out.",
            ) from error
        return self.address


@dataclass(frozen=True, slots=True)
class PrivateServer:
    """The agent's own server with its own keys, on a socket in a private folder.

    Any process that can connect to an adb server commands all its phones, so no other user may
    reach it.
    """

    folder: Path
    """Absolute; private to this user."""
    key: Path | None = None
    """A key, or a folder of keys, that phones already know (ADB_VENDOR_KEYS)."""
    listens: bool = False
    """Whether it listens for announcements and uses no phones; see mdns.py."""
    answer_s: float = ANSWER_S
    """One that takes longer to answer is ended, and another started."""
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False, repr=False)
    """Held while the server is checked and started, since a second start would replace the first's
    socket."""

    @classmethod
    async def start(cls, folder: Path, key: Path | None = None) -> PrivateServer:
        """Return the folder's server, started if necessary; raises AdbUnavailable."""
        server = cls(folder.absolute(), key)
        await server.ready()
        return server

    @property
    def address(self) -> Address:
        """See AdbServer.address."""
        return UnixSocket(self.folder / SOCKET)

    async def ready(self) -> Address:
        """See AdbServer.ready."""
        async with self._changing:
            require_private(self.folder)
            listener = await self._listener()
            known = [process.pid for process in _servers(self.folder)]
            if listener in known and await self._answers():
                await self._end(besides=listener)
            else:
                await self._end(also=listener)
                await self._launch()
        return self.address

    async def restart(self) -> None:
        """Restart it on the same socket; raises AdbUnavailable.

        All phones are disconnected; phones on a cable are found again.
        """
        async with self._changing:
            require_private(self.folder)
            await self._end()
            await self._launch()

    async def stop(self) -> None:
        """Stop it; called when no agent of this host needs it any more."""
        await self._end()

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(self.answer_s):
                await ask(self.address, "host:version")
        except (RemoteFault, TimeoutError):
            return False
        return True

    async def _listener(self) -> int | None:
        """Return the process that listens on the socket, or None."""
        try:
            async with asyncio.timeout(self.answer_s):
                _, writer = await self.address.connect(1)
        except OSError:
            return None
        writer.transport.abort()
        peer = writer.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size
        )
        return int(_PEER.unpack(peer)[0])

    async def _end(self, besides: int | None = None, also: int | None = None) -> None:
        """End the folder's servers.

        also: a process to end if it is an adb server, since `adb -L` starts one if it finds none.
        """
        find = partial(_servers, self.folder, besides, also)
        await asyncio.to_thread(end_all, find, 1.0)

    async def _launch(self) -> None:
        adb, adb_log = find_adb(), self.folder / "adb.log"
        try:
            adb_log.unlink(missing_ok=True)
            process, heard = await self._begin(adb)
        except OSError as error:
            tried = f"start an adb server on {self.address}"
            raise AdbUnavailable(tried, str(error), self._remedy(error)) from error
        answer = await _read_all(heard)
        await process.wait()
        if answer != b"OK\n":
            raise self._not_started(adb_log)

    def _remedy(self, error: OSError) -> str:
        if isinstance(error, FileNotFoundError):
            return "Have setsid (util-linux) on PATH."
        if isinstance(error, PermissionError | IsADirectoryError):
            return f"Let this user write to {self.folder}."
        return "Mend that; it is tried again."

    async def _begin(self, adb: str) -> tuple[asyncio.subprocess.Process, int]:
        """Start a server; return the process that starts it, and the descriptor on which it says
        whether it runs. Raises OSError."""
        heard, said = os.pipe()
        try:
            # setsid forks, so the server is nobody's child, and outlives the agent.
            process = await asyncio.create_subprocess_exec(
                *("setsid", "--fork", adb, "-L", f"localfilesystem:{SOCKET}", *_ROLE),
                *("--reply-fd", str(said)),
                cwd=self.folder,  # a socket's path may have only 107 bytes
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=server_environment(os.environ, self.folder, self.key, listens=self.listens),
                pass_fds=(said,),
                umask=0o077,
            )
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(said)
        return process, heard

    def _not_started(self, adb_log: Path) -> AdbUnavailable:
        said = adb_log.read_text(errors="replace").strip() if adb_log.exists() else ""
        seen = said.splitlines()[-1] if said else "it ended and gave no reason"
        return AdbUnavailable(f"start an adb server on {self.address}", seen, f"Read {adb_log}.")


def require_private(folder: Path) -> None:
    """Make a folder that only this user can read; raises AdbUnavailable.

    One that others can read is made private; one that others could write to is refused.
    """
    tried = f"keep an adb server in {folder}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.geteuid():
            seen = f"the folder belongs to uid {found.st_uid}, not to {os.geteuid()}"
            raise AdbUnavailable(tried, seen, "Remove it, or give the farm another BENCHFARM_HOME.")
        if found.st_mode & 0o022:
            seen = f"other users may write to it (mode {found.st_mode & 0o777:04o})"
            raise AdbUnavailable(tried, seen, "Remove it: what is in it may be theirs.")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
            log.warning("%s was open to others (mode %04o): closed", folder, found.st_mode & 0o777)
    except OSError as error:
        remedy = "Let this user write there."
        raise AdbUnavailable(tried, error.strerror or str(error), remedy) from error


def server_environment(
    environment: Mapping[str, str], folder: Path, key: Path | None, *, listens: bool = False
) -> dict[str, str]:
    """Return the environment of our servers, without adb's own variables.

    The server neither looks for emulators nor connects to announced phones; a listening one ignores
    USB.
    """
    # Without USB, adb's default backend gives up only after 3 s.
    usb = {} if USB.exists() else {"ADB_LIBUSB": "0"}
    if listens:
        usb = {"ADB_USB": "0"}
    kept = inherited(environment)
    own = {
        "HOME": str(folder),
        "ANDROID_USER_HOME": str(folder / ".android"),
        "ANDROID_ADB_LOG_PATH": str(folder / "adb.log"),
        "TMPDIR": str(folder),
        "ADB_MDNS": str(int(listens)),
        "ADB_MDNS_AUTO_CONNECT": "0",
        "ADB_EMU": "0",  # servers before 36 know only the next one
        "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553",
        SERVER_MARKER: str(folder),
    }
    return kept | own | usb | ({"ADB_VENDOR_KEYS": str(key)} if key else {})


def find_adb() -> str:
    """Return the path of adb in the adbutils wheel, else on PATH; raises AdbMissing."""
    package = find_spec("adbutils")  # not imported, since it imports an imaging library
    if package and package.origin:
        bundled = Path(package.origin).parent / "binaries" / "adb"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    if found := shutil.which("adb"):
        return found
    raise AdbMissing(
        "find adb",
        "the Python package adbutils is missing, and PATH has no adb",
        "Run `pip install 'adbutils==2.12.*'` or `apt install adb`.",
    )


def _servers(
    folder: Path, besides: int | None = None, also: int | None = None
) -> Iterator[psutil.Process]:
    """Yield the adb servers of a folder: of this user, with its marker, and called as servers are.

    Others may set the marker in their environment, and this user's programs may inherit it.
    """
    pids = {process.pid for process in marked_processes(SERVER_MARKER, str(folder))}
    for pid in (pids | {also}) - {besides, None}:
        try:
            process = psutil.Process(pid)
            ours = process.uids().effective == os.geteuid()
            if ours and tuple(process.cmdline()[3:5]) == _ROLE:
                yield process
        except psutil.Error:  # it has just ended
            continue


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
