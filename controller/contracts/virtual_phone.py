"""What a virtual phone prints once adb can connect to it."""

from __future__ import annotations

from typing import Literal

from controller.contracts.base import Contract


class PhoneFacts(Contract):
    """Where a virtual phone is reached, and what it runs on."""

    serial: str
    model: str
    virtual: Literal[True] = True
    address: str
    """HOST:PORT that adb connects to."""
    port: int
    folder: str
    """Folder of its log and control socket."""
    pid: int
    cores: tuple[int, ...]
    """Host cores that it uses."""
    cpu_quota: float | None
    """Share of each core that it gets; None if this host cannot limit it."""
    cpu_quota_reason: str
