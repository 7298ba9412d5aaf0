"""Which of a bundle's requirements a phone does not meet, from what it told; pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agents.inference.bundle.requirements import Requirements
from agents.remotes.remote import NOT_STARTED, FaultKind
from controller.platform.processes import signal_name

_32_BIT: Final = re.compile(r"armv?[5-7]\w*|arm|i[3-6]86", re.ASCII)
"""What the kernels of processors that run no 64-bit program say of their machine."""
_32_BIT_USERLAND: Final = "armv8l"
"""What a 64-bit kernel tells a 32-bit shell."""
_DENIED: Final = re.compile(r"permission denied|not permitted", re.IGNORECASE)
"""strerror's words for EACCES and EPERM."""
_SECCOMP: Final = {0: "off", 1: "strict", 2: "filter"}
"""By the kernel's number: seccomp(2)."""


@dataclass(frozen=True, slots=True)
class Start:
    """What came of starting the bundle's loader with its C library."""

    exit_code: int
    """128 + the number of the signal that killed it, as a shell gives it."""
    words: str = ""
    """The last line it, or the shell, said."""


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """What a phone told of itself; None where it did not."""

    kernel: tuple[int, int, int] | None = None
    machine: str | None = None
    page_bytes: int | None = None
    selinux: str | None = None
    """The domain of the adb shell, as u:r:shell:s0."""
    seccomp: int | None = None
    """The shell's mode: a key of _SECCOMP."""
    free_bytes: int | None = None
    pushed: bool = False
    """The bundle lies there already, so that it takes no more space."""
    noexec: bool | None = None
    """Whether the folder of runs is mounted so; asked only where nothing could be started."""
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class Unmet:
    """One requirement that a phone does not meet."""

    name: str
    kind: FaultKind
    seen: str
    remedy: str


def unmet(needs: Requirements, told: SystemFacts) -> list[Unmet]:
    """Return what a phone lacks to start a bundle; what it did not tell is not held against it."""
    return [*_of_the_system(needs, told), *_of_storage(needs, told), *_of_the_start(told)]


def untold(told: SystemFacts) -> tuple[str, ...]:
    """Return the names of what could not be judged, since the phone did not tell it."""
    asked = {
        "kernel version": told.kernel,
        "page size": told.page_bytes,
        "free storage": told.free_bytes,
        "start of a program": told.start,
    }
    return tuple(name for name, value in asked.items() if value is None)


def summary(told: SystemFacts) -> str:
    """Return what a phone that meets all of it told, on one line."""
    words = []
    if told.kernel:
        words.append(f"kernel {_dotted(told.kernel)}")
    if told.page_bytes:
        words.append(f"pages of {told.page_bytes} bytes")
    if told.free_bytes is not None:
        words.append(f"{told.free_bytes >> 20} MiB free")
    if told.selinux:
        words.append(f"SELinux domain {told.selinux}")
    if told.seccomp is not None:
        words.append(f"seccomp {_SECCOMP.get(told.seccomp, told.seccomp)}")
    if told.start:
        words.append("its loader ran")
    return ", ".join(words) or "the device reports nothing"


def _of_the_system(needs: Requirements, told: SystemFacts) -> Iterator[Unmet]:
    if told.kernel and told.kernel < needs.kernel:
        seen = f"kernel {_dotted(told.kernel)} is older than {_dotted(needs.kernel)}"
        remedy = "Use a device with a newer kernel."
        yield Unmet("kernel version", FaultKind.UNSUPPORTED, seen, remedy)
    if told.machine and _32_BIT.fullmatch(told.machine):
        seen = f"its kernel is 32-bit ({told.machine})"
        yield Unmet("processor", FaultKind.UNSUPPORTED, seen, "Use a device with a 64-bit system.")
    if told.page_bytes and told.page_bytes > needs.page_bytes:
        seen = (
            f"its memory pages have {told.page_bytes} bytes; the bundle's segments are "
            f"aligned for {needs.page_bytes} at most"
        )
        remedy = f"Use a device with pages of {needs.page_bytes} bytes or less."
        yield Unmet("page size", FaultKind.UNSUPPORTED, seen, remedy)


def _of_storage(needs: Requirements, told: SystemFacts) -> Iterator[Unmet]:
    if told.free_bytes is None or told.pushed or told.free_bytes >= needs.storage_bytes:
        return
    seen = f"{told.free_bytes >> 20} MiB are free, and a push needs {needs.storage_bytes >> 20} MiB"
    remedy = "Free space there; on a phone, `benchfarm phone clean` removes what runs left."
    yield Unmet("free storage", FaultKind.STORAGE_FULL, seen, remedy)


def _of_the_start(told: SystemFacts) -> Iterator[Unmet]:
    start = told.start
    if start is None or start.exit_code == 0:
        return
    if start.exit_code == 128 + signal.SIGSYS:
        seen = "a seccomp filter killed the bundle's loader (SIGSYS)"
        remedy = "Use a device whose adb shell has no such filter."
        yield Unmet("seccomp", FaultKind.NO_EXEC, seen, remedy)
    elif told.machine == _32_BIT_USERLAND:
        seen = f"its userland is 32-bit, and no 64-bit program starts: {_why(start)}"
        remedy = "Use a device with a 64-bit system."
        yield Unmet("processor", FaultKind.UNSUPPORTED, seen, remedy)
    elif told.noexec:
        seen = f"the folder of runs is mounted noexec: {_why(start)}"
        remedy = "Use a device on which pushed programs may run."
        yield Unmet("execution", FaultKind.NO_EXEC, seen, remedy)
    elif start.exit_code in NOT_STARTED and _DENIED.search(start.words):
        seen = f"{_domain(told)} may not execute pushed files: {_why(start)}"
        remedy = "Use a device on which pushed programs may run."
        yield Unmet("SELinux domain", FaultKind.NO_EXEC, seen, remedy)
    else:
        seen = f"the bundle's loader does not start: {_why(start)}"
        remedy = "Correct what it says, or use another device."
        yield Unmet("start of a program", FaultKind.NO_EXEC, seen, remedy)


def _why(start: Start) -> str:
    if start.exit_code > 128:
        return f"it died of {signal_name(start.exit_code - 128)}"
    return start.words or f"exit status {start.exit_code}"


def _domain(told: SystemFacts) -> str:
    if told.selinux:
        return f"the adb shell's SELinux domain {told.selinux}"
    return "the adb shell (SELinux domain unknown)"


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
