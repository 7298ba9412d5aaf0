"""What `benchfarm doctor` asks of the agents' side of its host."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.base import Contract
from controller.contracts.error_payload import ErrorPayload
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
    """Why it doesn't work, though it is there."""
    remedy: str = ""
    """How to install it, if it is not."""


class LockFolder(Contract):
    """Where the locks on cores are, by which farms of one host keep apart."""

    path: str
    usual: bool
    """Whether it is the first choice, which containers share with their host if at all."""
    safe: bool
    """Whether it is root's, and nobody can rename or remove another user's files."""
    writable: bool


class AgentsFacts(Contract):
    """What only the agents' side knows of a host."""

    adb: Program
    compiler: Program
    stacks: tuple[StackStatus, ...]
    stack_faults: dict[str, ErrorPayload] = {}
    """By stack: why it does not work, though it is installed."""
    isa_unusable: tuple[str, ...] = ()
    """Instruction sets that the CPU announces and programs can't use."""
    has_amx: bool = False
    """Whether programs can use AMX tiles."""
    locks: LockFolder
    namespaces_fault: ErrorPayload | None = None
    """Why no namespaces can be made for a virtual phone."""
    least_free_bytes: int
    """On the home's disk; with less an agent takes no runs."""
