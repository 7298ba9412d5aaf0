"""The device daemon: runs inside the phone's namespaces, answers adb servers and its owner."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from agents.virtual_phone import control, filesystem, sensors
from agents.virtual_phone.auth import Gate
from agents.virtual_phone.connection import Connection, Terms
from agents.virtual_phone.emulation import Emulator
from agents.virtual_phone.errors import LinkCut, ProtocolViolation
from agents.virtual_phone.faults import (
    Fault,
    FullStorage,
    Link,
    NoExec,
    Offline,
    OldDaemon,
    ReadOnly,
    Unauthorized,
    after_cut,
    find,
)
from agents.virtual_phone.profiles import Profile
from agents.virtual_phone.properties import banner, properties_of
from agents.virtual_phone.services import Dialect
from agents.virtual_phone.storage import Storage
from agents.virtual_phone.wire import MAX_PAYLOAD

MARKER = "BENCHFARM_PHONE"
"""Environment variable of every process of a phone; its value is the serial."""
MAX_CONNECTIONS = 32
MAX_STRANGERS = 16
"""Most unauthenticated connections; a new one replaces the oldest."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PhoneSetup:
    """The settings of a phone."""

    profile: Profile
    serial: str
    cores: tuple[int, ...]
    """Host cores, which this process is pinned to."""
    keys: tuple[RSAPublicKey, ...] | None
    """Keys of allowed hosts, besides those that the phone's user allows; None: allow every host."""
    faults: tuple[Fault, ...]
    emulator: Emulator | None = None


@dataclass(slots=True)
class Daemon:
    """The state of a phone that outlives a connection."""

    setup: PhoneSetup
    storage: Storage
    sensors: sensors.Sensors
    gate: Gate
    link: Link = field(default_factory=Link)
    faults: Sequence[Fault] = ()
    _connections: dict[asyncio.Task[None], Connection] = field(default_factory=dict)
    """Sorted by age, oldest first."""
    _strangers_gone: int = 0

    @classmethod
    def of(cls, setup: PhoneSetup, storage: Storage) -> Daemon:
        """Return the daemon of a phone that has just been switched on."""
        gate = Gate(setup.keys or (), locked=setup.keys is not None)
        daemon = cls(setup, storage, sensors.Sensors.at_rest(setup.profile, setup.cores), gate)
        daemon.set_faults(setup.faults)
        return daemon

    async def run(self, adb: socket.socket, owner: socket.socket, ready: int) -> None:
        """Serve until this process is killed; writes to `ready` when adb can connect."""
        self._show()
        await control.serve(owner, self.answer)
        await asyncio.start_server(self._accepted, sock=adb, limit=MAX_PAYLOAD)
        os.write(ready, b"ready")
        os.close(ready)
        while True:
            self.sensors.step()
            await asyncio.sleep(sensors.PERIOD_S)

    def answer(self, request: control.Request) -> control.PhoneStatus:
        """Answer a request of the owner; raises OSError or ValueError, having changed nothing."""
        match request:
            case control.SetFaults():
                self.set_faults(request.faults)
            case control.SetConditions():
                self._set_conditions(request)
            case control.AllowHost():
                self.gate.allow()
        return self._status()

    def set_faults(self, faults: Sequence[Fault]) -> None:
        """Replace the faults; raises OSError if the storage can't be changed while it is in use."""
        self._change_storage(faults)
        self.gate.refusing = find(Unauthorized, faults) is not None
        self.gate.locked = self.gate.refusing or self.setup.keys is not None
        self.link.set(faults)
        anew = (Offline, Unauthorized, OldDaemon)
        if [find(k, faults) for k in anew] != [find(k, self.faults) for k in anew]:
            self._drop_connections()
        self.faults = tuple(faults)

    def _change_storage(self, faults: Sequence[Fault]) -> None:
        size = self.setup.profile.storage_mib << 20
        read_only, no_exec = (find(kind, faults) is not None for kind in (ReadOnly, NoExec))
        if full := find(FullStorage, faults):
            size = min(size, filesystem.storage_in_use() + full.free_bytes)
        try:
            self.storage.change(read_only=read_only, no_exec=no_exec, size_bytes=size)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise OSError(errno.EBUSY, f"{filesystem.TMP}: files are open for writing") from error

    def _set_conditions(self, request: control.SetConditions) -> None:
        known = self.sensors.temperatures
        if unknown := request.temperatures_c.keys() - known:
            raise ValueError(f"no zone {', '.join(sorted(unknown))}; zones: {', '.join(known)}")
        self.sensors.temperatures = {**known, **request.temperatures_c}
        given = {"level_percent": request.battery_percent, "charging": request.charging}
        change = {name: value for name, value in given.items() if value is not None}
        self.sensors.battery = self.sensors.battery.model_copy(update=change)
        self.sensors.show()

    def _status(self) -> control.PhoneStatus:
        storage = os.statvfs(filesystem.STORAGE)
        return control.PhoneStatus(
            serial=self.setup.serial,
            faults=after_cut(self.faults) if self.link.was_cut else tuple(self.faults),
            connections=len(self._connections),
            asking=self.gate.asking,
            battery_percent=self.sensors.battery.level_percent,
            charging=self.sensors.battery.charging,
            temperatures_c=self.sensors.temperatures,
            thermal_status=self.sensors.status,
            cpu_s=sensors.phone_cpu_s(),
            processes=sensors.phone_processes(),
            storage_free_bytes=storage.f_bavail * storage.f_frsize,
        )

    def _show(self) -> None:
        profile = self.setup.profile
        for name, value in self._properties().items():
            sensors.replace(filesystem.PROPERTIES / name, value)
        for name, value in profile.settings.items():
            sensors.replace(filesystem.SETTINGS / name.replace("/", "."), value)

    def _properties(self) -> dict[str, str]:
        locked = self.setup.keys is not None
        setup = self.setup
        return properties_of(
            setup.profile, setup.serial, setup.cores, setup.emulator, locked=locked
        )

    def _terms(self) -> Terms:
        old = self.setup.profile.old_daemon or find(OldDaemon, self.faults) is not None
        dialect = Dialect.of(old=old)
        told = banner(self._properties(), dialect.features)
        more = self.setup.emulator.environment if self.setup.emulator else {}
        return Terms(dialect, told, self.gate, self.link, environment(self.setup.serial) | more)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        strangers = [task for task, one in self._connections.items() if not one.let_in]
        known = len(self._connections) - len(strangers)
        if self.link.offline or known >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        for task in strangers[: max(0, len(strangers) - MAX_STRANGERS + 1)]:
            task.cancel()
        connection = Connection(self._terms(), reader, writer)
        # In a task, since asyncio treats a cancelled callback as a program error.
        task = asyncio.create_task(self._serve(connection))
        self._connections[task] = connection
        task.add_done_callback(self._connections.pop)
        await asyncio.wait({task})
        writer.transport.abort()  # if it was cancelled before it began

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        except LinkCut as cut:
            log.info("connection ended: %s", cut)
            if self.link.offline:
                self._drop_connections()
        except (ProtocolViolation, asyncio.IncompleteReadError, OSError) as end:
            self._log_end(connection, end)

    def _log_end(self, connection: Connection, end: Exception) -> None:
        """Log why a connection ended; those of strangers ever more rarely, so that they can't fill
        the disk."""
        if connection.let_in:
            log.info("connection ended: %s", end)
            return
        self._strangers_gone += 1
        if self._strangers_gone.bit_count() == 1:  # the 1st, 2nd, 4th, 8th …
            count = self._strangers_gone
            log.info("connection %d of those not let in has ended: %s", count, end)

    def _drop_connections(self) -> None:
        for task in self._connections:
            task.cancel()


def environment(serial: str) -> dict[str, str]:
    """Return the environment of a phone's commands."""
    return {
        MARKER: serial,
        "PATH": f"{filesystem.COMMANDS}:/usr/bin:/bin",
        "HOME": str(filesystem.TMP),
        "TMPDIR": str(filesystem.TMP),
        "USER": "shell",
        "LOGNAME": "shell",
        "SHELL": str(filesystem.SHELL),
        "HOSTNAME": serial,
        "ANDROID_ROOT": "/system",
        "ANDROID_DATA": "/data",
    }
