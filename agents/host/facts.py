"""The facts of this server, for selectors and for the environment of results."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Collection
from pathlib import Path

import psutil

from agents.host.cpu import cpu_flags, read_cpuinfo, read_instruction_sets
from agents.host.cpu_lists import format_ranges
from controller.contracts.base import digest
from controller.contracts.device import HOST_PREFIX, PLUGINS, Device, DeviceKind, Fact
from controller.contracts.plugins import installed_plugins
from controller.platform.atomic import write_private
from controller.platform.cpu_quota import cpu_quota


def machine_id(fallback: Path) -> str:
    """Return this installation's stable id: /etc/machine-id, else one created and stored at
    `fallback`."""
    try:
        known = Path("/etc/machine-id").read_text().strip()
    except OSError:
        known = ""
    if known:
        return known
    if not fallback.exists():
        fallback.parent.mkdir(parents=True, exist_ok=True)
        write_private(fallback, uuid.uuid4().hex)
    return fallback.read_text().strip()


def boot_id() -> str | None:
    """Return an id that is new at each boot and shared by all containers of a host, or None."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def agent_id(machine: str) -> str:
    """Return the id of a host's agent: a digest, since machine ids should stay private."""
    return f"host-{digest(machine, 8)}"


def cpu_device(machine: str, labels: dict[str, str]) -> Device:
    """Return this server as a device; it occupies every core that this process may use."""
    return Device(
        id=f"{HOST_PREFIX}{digest(machine, 8)}",
        kind=DeviceKind.CPU_HOST,
        virtual=False,
        labels=labels,
        facts=host_facts(),
        host_cores=frozenset(os.sched_getaffinity(0)),
    )


def host_facts() -> dict[str, Fact]:
    """Return the host's hardware and system facts; what can't be read is left out."""
    cpu, isa = read_cpuinfo(), read_instruction_sets()
    facts: dict[str, Fact | None] = {
        "hostname": platform.node(),
        "cpu_model": cpu.get("model name", platform.processor() or platform.machine()),
        "cpu_vendor": cpu.get("vendor_id"),
        "architecture": platform.machine(),
        "microcode": cpu.get("microcode"),
        "isa": isa.usable,
        "isa_unusable": isa.unusable or None,
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        "logical_cpus": psutil.cpu_count() or 1,
        "cpu_quota": cpu_quota(),
        "cpuset": cpuset(os.sched_getaffinity(0), psutil.cpu_count() or 1),
        "sockets": _sockets(),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "memory_bytes": psutil.virtual_memory().total,
        "hypervisor": "hypervisor" in cpu_flags(cpu),
        "kernel": platform.release(),
        "os": _os_name(),
        PLUGINS: tuple(one.plugin.recorded for one in installed_plugins()[0]) or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def cpuset(usable: Collection[int], online: int) -> str | None:
    """Return the CPUs that this process may use; None if these are all that are online."""
    return format_ranges(usable) if len(usable) < online else None


def _sockets() -> int:
    ids = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")
    return len({path.read_text().strip() for path in ids}) or 1


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
