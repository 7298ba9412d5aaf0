"""What `benchfarm doctor` sees of this host without the agents' side."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import psutil

from controller.contracts.doctor import Program
from controller.contracts.errors import FarmUnavailable, UserError
from controller.contracts.version import installed_version
from controller.platform.ports import free_ports
from controller.platform.trial import fault_of
from controller.runtime.home import Home
from controller.runtime.phones import complaints_here
from controller.runtime.prometheus import PrometheusUnavailable, find_program, running_beside

PORTS_WANTED = 16
"""More than a head with Redis and Prometheus takes."""
LOOPBACK = "127.0.0.1"
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LIMITS: Mapping[str, int] = {
    "address space": resource.RLIMIT_AS,
    "open files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}
"""Limits of a process that end farms; ulimit(1p)."""
_TIMEX_BYTES = 1024
"""More than a struct timex takes (adjtimex(2))."""
_UNSYNCHRONISED = 5
_PIN = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?==([^;\s]+)\s*$")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file or folder as lstat(2) sees it."""

    path: Path
    uid: int
    mode: int
    """With its type."""
    writable: bool = True


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """Room on the file system of a folder."""

    folder: Path
    free_bytes: int
    free_files: int | None
    """None on a file system that has no limit of files."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All that the checks of `benchfarm doctor` go by, but for what the agents' side knows."""

    uid: int
    python: str
    packages: Mapping[str, tuple[str, str | None]]
    """Of ours that don't fit: the release that is wanted and the one installed, None for none."""
    release: str
    farm_release: str | None
    """Of the farm that is up in this home, if one is."""
    home: Path
    home_folder: FileFacts | None
    """The home; where it isn't there yet, None."""
    home_parent: FileFacts
    """The nearest folder above it that is there."""
    secrets: tuple[FileFacts, ...]
    disks: tuple[DiskFacts, ...]
    now: float
    installed_at: float
    """When benchfarm's files were written, in seconds since the epoch."""
    synchronised: bool | None
    """Whether the kernel's clock is kept by NTP; None if it doesn't tell."""
    memory_bytes: int
    memory_limit: int | None
    """Of this process's control groups, in bytes."""
    limits: Mapping[str, int | None]
    """By the names of LIMITS, None for none."""
    ports_free: bool
    """Whether PORTS_WANTED of benchfarm's ports are free on loopback."""
    port_range: tuple[int, int] | None
    """Ports that Linux gives to whoever names none."""
    prometheus: Program
    prometheus_silent: bool
    """Whether the farm's own does not answer."""
    phone_complaints: tuple[UserError, ...]


def host_facts(home: Home) -> HostFacts:
    """Look at this host; changes nothing."""
    parent = next(folder for folder in home.path.parents if _is_folder(folder))
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
        disks=tuple(map(disk_facts, _disks(home.path if _is_folder(home.path) else parent))),
        now=time.time(),
        installed_at=Path(__file__).stat().st_mtime,
        synchronised=_synchronised(),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit=memory_limit(),
        limits={name: _limit(number) for name, number in LIMITS.items()},
        ports_free=_ports_free(),
        port_range=port_range(),
        prometheus=_prometheus(),
        prometheus_silent=_prometheus_silent(home),
        phone_complaints=_phone_complaints(home),
    )


def _tokens(home: Home) -> tuple[Path, ...]:
    return home.ray_token, home.api_token, home.metrics_token


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # in another user's folder
        return False


def file_facts(path: Path) -> FileFacts | None:
    """Return what lstat(2) says, None if there is nothing that can be seen."""
    try:
        return _known(path)
    except OSError:
        return None


def _known(path: Path) -> FileFacts:
    status = path.lstat()
    # Of a link, the folder behind it; of a folder, also whether its file system is read-only.
    return FileFacts(path, status.st_uid, status.st_mode, os.access(path, os.W_OK))


def _unfit_packages(wanted: list[str] | tuple[()]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    for line in wanted:
        if pin := _PIN.match(line):  # what an extra brings has a marker behind it
            name, release = pin.groups()
            try:
                installed: str | None = version(name)
            except PackageNotFoundError:
                installed = None
            # PEP 440: a v in front means nothing, and behind a + stands who built it.
            if installed is None or installed.removeprefix("v").partition("+")[0] != release:
                yield name, (release, installed)


def _farm_release(home: Home) -> str | None:
    try:
        return home.endpoint().version if home.cluster() else None
    except UserError:
        return None


def _prometheus_silent(home: Home) -> bool:
    try:
        return home.prometheus_url.exists() and running_beside(home) is None
    except OSError:  # another user's: the check of the home says so
        return False


def _phone_complaints(home: Home) -> tuple[UserError, ...]:
    try:
        return tuple(complaints_here(home))
    except UserError as error:  # what the farm of this home has noted can't be read
        return (error,)


def _disks(folder: Path) -> Iterator[Path]:
    """Yield a folder of each file system that a farm writes to."""
    seen = set[int]()
    for each in (folder, Path(tempfile.gettempdir())):
        if (device := each.stat().st_dev) not in seen:
            seen.add(device)
            yield each


def disk_facts(folder: Path) -> DiskFacts:
    """Return the room for this user's files."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    return DiskFacts(folder, free, found.f_favail if found.f_files else None)


def _synchronised() -> bool | None:
    status = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if status < 0 else bool(status != _UNSYNCHRONISED)


def memory_limit(own: Path = OWN_CGROUPS, root: Path = CGROUPS) -> int | None:
    """Return the lowest limit of this process's control groups and those above, in bytes."""
    found = list[int]()
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, names, place = line.split(":", 2)
        if names and "memory" not in names.split(","):
            continue
        top = root / "memory" if names else root
        file = "memory.limit_in_bytes" if names else "memory.max"
        folder = top / place.strip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(top):
                found += _number(each / file)
    return min(found, default=None)


def _number(file: Path) -> list[int]:
    """Return the number in a file; none for `max`, and where there is no such file."""
    try:
        text = file.read_text().strip()
    except OSError:
        return []
    return [int(text)] if text.isdecimal() else []


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
    """Return the first and the last port that Linux gives away, None if it doesn't tell."""
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
