"""Requirements of a bundle that a phone does not meet, from what the phone reported. Pure."""

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
"""Machine names that kernels report on processors that run no 64-bit program."""
_32_BIT_USERLAND: Final = "armv8l"
"""Machine name that a 64-bit kernel reports to a 32-bit shell."""
_DENIED: Final = re.compile(r"permission denied|not permitted", re.IGNORECASE)
"""strerror's texts for EACCES and EPERM."""
_SECCOMP: Final = {0: "off", 1: "strict", 2: "filter"}
"""Mode by the kernel's number: seccomp(2)."""


@dataclass(frozen=True, slots=True)
class Start:
    """The outcome of starting the bundle's loader with its C library."""

    exit_code: int
    """Exit status; a shell reports a signal as 128 + its number."""
    words: str = ""
    """The last line that it, or the shell, printed."""


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """What a phone reported about its system; None for what it did not report."""

    kernel: tuple[int, int, int] | None = None
    machine: str | None = None
    page_bytes: int | None = None
    selinux: str | None = None
    """The domain of the adb shell, such as u:r:shell:s0."""
    seccomp: int | None = None
    """The shell's seccomp mode: a key of _SECCOMP."""
    free_bytes: int | None = None
    pushed: bool = False
    """Whether the bundle is already on the device, and needs no more space."""
    noexec: bool | None = None
    """Whether the folder of runs is mounted noexec; read only if nothing could be started."""
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class Unmet:
    """A requirement that a phone does not meet."""

    name: str
    kind: FaultKind
    seen: str
    remedy: str


def unmet(needs: Requirements, told: SystemFacts) -> list[Unmet]:
    """Return the requirements that a phone does not meet; unreported facts count as met."""
    return [*_of_the_system(needs, told), *_of_storage(needs, told), *_of_the_start(told)]


def untold(told: SystemFacts) -> tuple[str, ...]:
    """Return the names of requirements that could not be checked, since the phone reported
    nothing."""
    asked = {
        "kernel version": told.kernel,
        "page size": told.page_bytes,
        "free storage": told.free_bytes,
        "start of a program": told.start,
    }
    return tuple(name for name, value in asked.items() if value is None)


def summary(told: SystemFacts) -> str:
    """Return one line about a phone that meets all requirements."""
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
