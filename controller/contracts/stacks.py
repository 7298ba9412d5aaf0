"""Answers of `benchfarm stacks`: sent by the agents' side, shown by the controller's."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from controller.contracts.base import Contract
from controller.contracts.device import DeviceKind
from controller.contracts.plugins import Plugin
from controller.contracts.result import Environment


class StackRequest(Contract):
    """What to do with the stacks of a home."""

    verb: Literal["list", "show", "install"]
    home: Path
    """BENCHFARM_HOME."""
    stack: str = ""
    """The one to show or to install."""


class StackStatus(Contract):
    """Whether a stack can run on this host."""

    name: str
    title: str
    device_kinds: tuple[DeviceKind, ...]
    ready: bool
    detail: str
    """Where it runs, or why it can't and what to do."""
    plugin: Plugin | None = None
    """The plugin that brings it."""


class StackDetails(StackStatus):
    """Everything known about a stack."""

    interpreter: str | None = None
    packages: tuple[str, ...] = ()
    """NAME==VERSION of every package in its environment."""
    environment: Environment = {}
    """Facts that a worker of it would record: versions, instruction set, malloc. Empty if not
    ready."""
