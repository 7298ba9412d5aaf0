"""Facts that `benchfarm doctor` asks of the agents' side of its host."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.base import Contract
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.plugins import LeftOut
from controller.contracts.stacks import StackStatus


class HostRequest(Contract):
    """Which home to look at."""

    home: Path
    """BENCHFARM_HOME."""


class Program(Contract):
    """A program that benchfarm calls, and whether it works."""

    path: str | None = None
    """None if it is not installed."""
    fault: str = ""
    """Why it doesn't work although it is installed."""
    remedy: str = ""
    """How to install it, if it is missing."""


class LockFolder(Contract):
    """The folder of the locks on cores, by which farms on one host take turns."""

    path: str
    usual: bool
    """Whether it is the first choice, the only one that containers may share with their host."""
    safe: bool
    """Whether root owns it, and no user can rename or remove another user's files."""
    writable: bool


class AgentsFacts(Contract):
    """Facts about a host that only the agents' side knows."""

    adb: Program
    compiler: Program
    stacks: tuple[StackStatus, ...]
    stack_faults: dict[str, ErrorPayload] = {}
    """Stack → why it doesn't work although it is installed."""
    isa_unusable: tuple[str, ...] = ()
    """Instruction sets that the CPU reports but programs can't use."""
    has_amx: bool = False
    """Whether programs can use AMX tiles."""
    locks: LockFolder
    namespaces_fault: ErrorPayload | None = None
    """Why namespaces for a virtual phone can't be made."""
    left_out: tuple[LeftOut, ...] = ()
    """Plugins, and manifests of the user's, that are not used."""
