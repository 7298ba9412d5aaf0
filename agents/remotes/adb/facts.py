"""The facts of a phone, read over adb, as a Device."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from agents.host.facts import boot_id
from agents.remotes.remote import (
    MAX_CHARACTERS,
    FaultKind,
    Remote,
    RemoteFault,
    malformed,
    one_line,
)
from controller.contracts.device import EMULATED, HOST_PREFIX, ID, Device, DeviceKind, Fact

VIRTUAL: Final = "ro.benchfarm.virtual"
"""Property of virtual phones, with value 1."""
EMULATOR: Final = "ro.benchfarm.emulated"
"""Property of a virtual phone: the program that emulates its processor, if it is not its host's."""
SIMULATED: Final[tuple[tuple[str, str], ...]] = (
    (VIRTUAL, "1"),
    ("ro.kernel.qemu", "1"),
    ("ro.boot.qemu", "1"),
    ("ro.hardware", "goldfish"),
    ("ro.hardware", "ranchu"),
    ("ro.hardware", "cutf_cvm"),
    ("ro.hardware", "cutf"),
    ("ro.hardware", "vbox86"),
    ("ro.hardware", "redroid"),
    ("ro.boot.hardware", "redroid"),
    ("ro.product.brand", "waydroid"),
)
"""Properties and values of what is no phone: ours, Android Studio's emulator, which has one or the
other by its age, Cuttlefish, Genymotion, and Android in a container: redroid, Waydroid."""
HOST_CORES: Final = "ro.benchfarm.host_cores"
"""Property of a virtual phone: the host cores that it uses, such as 0,2-3."""
PRESENT: Final = "/sys/devices/system/cpu/present"
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
READ_S: Final = 20.0
_PROPERTY = re.compile(r"^\[([^\]\n]+)\]: \[", re.MULTILINE)
"""Beginning of a property; it ends before the next one."""
MAX_CORES: Final = 4096
"""Upper bound against broken phones; no phone has as many."""
MAX_LISTED: Final = 1000
"""Most characters of a list of cores; the kernel's is of a few ranges."""
MAX_SAID: Final = 1 << 20
"""Most bytes of an answer; a phone has about a thousand properties."""
_MEMORY = re.compile(r"^MemTotal:\s+(\d{1,15}) kB$", re.MULTILINE)
_RELEASE = re.compile(r"\d{1,4}(\.\d{1,4})?")
_SDK = re.compile(r"\d{1,6}", re.ASCII)


def parse_properties(text: str) -> dict[str, str]:
    """Parse the output of `getprop`; a value may contain line ends."""
    _, *found = _PROPERTY.split(text)
    values = (value.rpartition("]") for value in found[1::2])
    return {name: value for name, (value, end, _) in zip(found[::2], values, strict=True) if end}


def parse_cores(text: str) -> frozenset[int]:
    """Parse a list of cores such as 0,2-3 in the kernel's format; raises ValueError."""
    if len(text) > MAX_LISTED:
        raise ValueError(
            f"a list of cores of {len(text)} characters, more than the limit of {MAX_LISTED}"
        )
    cores: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < MAX_CORES:
            raise ValueError(f"no cores are numbered {part[:MAX_CHARACTERS]}")
        cores.update(range(low, high + 1))
    return frozenset(cores)


def device_of(properties: Mapping[str, str], cores: str, meminfo: str, *, shell_v2: bool) -> Device:
    """Return the Device from a phone's properties, /sys/…/cpu/present and /proc/meminfo.

    Raises ValueError if its id is missing, or something can't be parsed.
    """
    serial = properties.get("ro.serialno") or properties.get("ro.boot.serialno")
    if not serial:
        raise ValueError("it has no ro.serialno to identify it by")
    if not re.fullmatch(ID, serial):
        shown = one_line(repr(serial[:MAX_CHARACTERS]))
        raise ValueError(f"its ro.serialno {shown} is not an id: ids match {ID}")
    if serial.startswith(HOST_PREFIX):
        raise ValueError(
            f"its ro.serialno {serial} begins with {HOST_PREFIX}, as only a server's may"
        )
    facts: dict[str, Fact] = {
        **_named(properties),
        **_numbers(properties),
        "cores": len(parse_cores(cores)),
        "shell_v2": shell_v2,
    }
    if emulator := one_line(properties.get(EMULATOR, "")):
        facts |= {EMULATED: True, "emulator": emulator}
    claimed = properties.get(HOST_CORES, "") if properties.get(VIRTUAL) == "1" else ""
    if memory := _MEMORY.search(meminfo):
        facts["memory_bytes"] = int(memory[1]) * 1024
    return Device(
        id=serial,
        kind=DeviceKind.ANDROID,
        virtual=_is_simulated(properties) or EMULATED in facts,
        facts=facts,
        host_cores=parse_cores(claimed),
    )


def _is_simulated(properties: Mapping[str, str]) -> bool:
    """Return whether a phone says that it is none; one that hides it can't be told apart."""
    kinds = properties.get("ro.build.characteristics", "").split(",")
    return "emulator" in kinds or any(properties.get(name) == value for name, value in SIMULATED)


def on_this_host(phone: Device, cores: frozenset[int], *, same_kernel: bool) -> Device:
    """Return a phone with the cores of this host, which has these, that it uses.

    On this host's kernel runs no phone: it is Android in a container, whatever its properties say,
    or ours, and uses every core unless it says which.
    """
    used = phone.host_cores & cores
    if same_kernel:
        return phone.model_copy(update={"virtual": True, "host_cores": used or cores})
    return phone.model_copy(update={"host_cores": used})


async def read_device(
    remote: Remote, serial: str, *, shell_v2: bool, read_s: float = READ_S
) -> Device:
    """Describe the phone behind a remote; each of four answers may take `read_s`.

    Raises RemoteFault.
    """
    said = partial(_said, remote, serial, read_s)
    properties = parse_properties(await said("getprop"))
    cores = await said("cat", PRESENT)
    meminfo = await said("cat", "/proc/meminfo")
    booted = await remote.run(("cat", BOOT_ID), read_s)  # not every phone lets adb read it
    try:
        phone = device_of(properties, cores, meminfo, shell_v2=shell_v2)
    except ValueError as error:
        message = f"cannot describe it: {one_line(str(error))}"
        raise RemoteFault(serial, FaultKind.UNSUPPORTED, message) from error
    own = frozenset(range(os.sysconf("SC_NPROCESSORS_CONF")))
    same_kernel = booted.stdout.strip() == (boot_id() or "unknown").encode()
    return on_this_host(phone, own, same_kernel=same_kernel)


async def _said(remote: Remote, serial: str, read_s: float, *argv: str) -> str:
    """Return the whole output of a command; raises RemoteFault if it was truncated or the command
    failed."""
    done = await remote.run(argv, read_s)
    if done.exit_code != 0:
        words = one_line((done.stderr or done.stdout).decode(errors="replace"))
        message = (
            f"{' '.join(argv)} exited with status {done.exit_code}{f': {words}' if words else ''}"
        )
        raise RemoteFault(serial, FaultKind.UNSUPPORTED, message)  # the connection works
    if len(done.stdout) > MAX_SAID:
        message = (
            f"{' '.join(argv)} printed {len(done.stdout)} bytes, more than the limit of {MAX_SAID}"
        )
        raise malformed(serial, message)
    return done.stdout.decode(errors="replace")


def _named(properties: Mapping[str, str]) -> dict[str, Fact]:
    """Return the facts that are texts; missing ones are left out."""
    sources = {
        "manufacturer": ("ro.product.manufacturer",),
        "model": ("ro.product.model",),
        "soc": ("ro.soc.model", "ro.board.platform"),
        "abi": ("ro.product.cpu.abi",),
        "fingerprint": ("ro.build.fingerprint",),
    }
    found = {
        fact: next((properties[name] for name in names if properties.get(name)), "")
        for fact, names in sources.items()
    }
    return {fact: one_line(value) for fact, value in found.items() if value}


def _numbers(properties: Mapping[str, str]) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    if release := _RELEASE.match(properties.get("ro.build.version.release", "")):
        facts["android"] = float(release[0])
    if sdk := _SDK.fullmatch(properties.get("ro.build.version.sdk", "")):
        facts["sdk"] = int(sdk[0])
    return facts
