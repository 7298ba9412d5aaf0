"""Facts for `benchfarm doctor` that need no agents' side."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import psutil

from controller.contracts.doctor import Program
from controller.contracts.errors import FarmUnavailable, UserError
from controller.contracts.version import installed_version
from controller.platform.cpu_quota import cpu_quota
from controller.platform.memory import memory_limit
from controller.platform.ports import free_ports
from controller.platform.trial import fault_of
from controller.runtime.disks import DiskFacts, disk_facts, disks_of, is_folder
from controller.runtime.home import Home
from controller.runtime.joining import instance_of, waits_for_head
from controller.runtime.phones import complaints_here
from controller.runtime.prometheus import PrometheusUnavailable, find_program, running_beside
from controller.runtime.up_command import PLAIN, anew, told

PORTS_WANTED = 16
"""More ports than a head with Redis and Prometheus uses."""
LOOPBACK = "127.0.0.1"
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LIMITS: Mapping[str, int] = {
    "address space": resource.RLIMIT_AS,
    "open files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}
"""Process limits that can break a farm; ulimit(1p)."""
_TIMEX_BYTES = 1024
"""More than the size of struct timex (adjtimex(2))."""
_UNSYNCHRONISED = 5
_PIN = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?==([^;\s]+)\s*$")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file or folder, from lstat(2)."""

    path: Path
    uid: int
    mode: int
    """Includes the file type."""
    writable: bool = True


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All facts for the checks of `benchfarm doctor`, except those of the agents' side."""

    uid: int
    python: str
    packages: Mapping[str, tuple[str, str | None]]
    """Packages with the wrong release: the required release and the installed one, None if
    missing."""
    release: str
    farm_release: str | None
    """Release of the farm that is up in this home, if any."""
    home: Path
    home_folder: FileFacts | None
    """The home; None if it doesn't exist yet."""
    home_parent: FileFacts
    """The nearest existing folder above it."""
    secrets: tuple[FileFacts, ...]
    disks: tuple[DiskFacts, ...]
    now: float
    installed_at: float
    """When benchfarm's files were written, in seconds since the epoch."""
    synchronised: bool | None
    """Whether NTP keeps the kernel's clock; None if unknown."""
    memory_bytes: int
    memory_limit: int | None
    """Memory limit of this process's control groups, in bytes."""
    cpus: int
    """CPUs that this process may use."""
    cpu_quota: float | None
    """CPU quota of its control groups, in cores."""
    limits: Mapping[str, int | None]
    """By name in LIMITS; None for no limit."""
    ports_free: bool
    """Whether PORTS_WANTED of benchfarm's ports are free on loopback."""
    port_range: tuple[int, int] | None
    """Range of Linux's ephemeral ports."""
    prometheus: Program
    prometheus_silent: bool
    """Whether the farm's own Prometheus does not answer."""
    phone_complaints: tuple[UserError, ...]
    joined: bool = False
    """Whether this home has joined, or is to join, another host's farm."""
    anew: str = told(PLAIN)
    """The commands that start the farm of this home anew."""


def host_facts(home: Home) -> HostFacts:
    """Return this host's facts; changes nothing."""
    parent = next(folder for folder in home.path.parents if is_folder(folder))
    return HostFacts(
        uid=os.geteuid(),
        python=".".join(map(str, sys.version_info[:3])),
        packages=dict(_unfit_packages(requires("benchfarm") or ())),
        release=installed_version(),
        farm_release=_farm_release(home),
        home=home.path,
        home_folder=file_facts(home.path),
        home_parent=_known(parent),
        secrets=tuple(filter(None, map(file_facts, _tokens(home)))),
        disks=tuple(map(disk_facts, disks_of(home.path))),
        now=time.time(),
        installed_at=Path(__file__).stat().st_mtime,
        synchronised=_synchronised(),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit=memory_limit(),
        cpus=len(os.sched_getaffinity(0)),
        cpu_quota=cpu_quota(),
        limits={name: _limit(number) for name, number in LIMITS.items()},
        ports_free=_ports_free(),
        port_range=port_range(),
        prometheus=_prometheus(),
        prometheus_silent=_prometheus_silent(home),
        phone_complaints=_phone_complaints(home),
        joined=_has_joined(home),
        anew=anew(home),
    )


def _tokens(home: Home) -> tuple[Path, ...]:
    return home.ray_token, home.api_token, home.metrics_token


def file_facts(path: Path) -> FileFacts | None:
    """Return the facts of lstat(2); None if the file is missing or can't be seen."""
    try:
        return _known(path)
    except OSError:
        return None


def _known(path: Path) -> FileFacts:
    status = path.lstat()
    # Of a link, check the folder behind it; of a folder, also whether its file system is read-only.
    return FileFacts(path, status.st_uid, status.st_mode, os.access(path, os.W_OK))


def _unfit_packages(wanted: list[str] | tuple[()]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    for line in wanted:
        if pin := _PIN.match(line):  # requirements of an extra have a marker behind them
            name, release = pin.groups()
            try:
                installed: str | None = version(name)
            except PackageNotFoundError:
                installed = None
            # PEP 440: ignore a leading v, and the local version after a +.
            if installed is None or installed.removeprefix("v").partition("+")[0] != release:
                yield name, (release, installed)


def _farm_release(home: Home) -> str | None:
    try:
        return home.endpoint().version if home.cluster() else None
    except UserError:
        return None


def _has_joined(home: Home) -> bool:
    try:
        cluster = home.cluster()
        return cluster.instance == instance_of(home) if cluster else waits_for_head(home)
    except (OSError, UserError):  # another user's; the check of the home reports that
        return False


def _prometheus_silent(home: Home) -> bool:
    try:
        return home.prometheus_url.exists() and running_beside(home) is None
    except OSError:  # another user's; the check of the home reports that
        return False


def _phone_complaints(home: Home) -> tuple[UserError, ...]:
    try:
        return tuple(complaints_here(home))
    except UserError as error:  # the record of this home's farm can't be read
        return (error,)


def _synchronised() -> bool | None:
    status = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if status < 0 else bool(status != _UNSYNCHRONISED)


def _limit(number: int) -> int | None:
    soft, _ = resource.getrlimit(number)
    return None if soft == resource.RLIM_INFINITY else soft


def _ports_free() -> bool:
    try:
        free_ports(PORTS_WANTED, LOOPBACK)
    except FarmUnavailable:
        return False
    return True


def port_range(file: Path = PORT_RANGE) -> tuple[int, int] | None:
    """Return the first and the last ephemeral port of Linux, or None if unknown."""
    try:
        first, last = map(int, file.read_text().split())
    except (OSError, ValueError):
        return None
    return first, last


def _prometheus() -> Program:
    try:
        path = str(find_program("prometheus"))
    except PrometheusUnavailable as error:
        return Program(remedy=error.remedy)
    return Program(path=path, fault=fault_of((path, "--version")))
