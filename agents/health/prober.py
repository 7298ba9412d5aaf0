"""The interface of what tells whether a device is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from controller.contracts.device import Device


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a look at a device has come to."""

    passed: bool
    why: str
    """What was seen."""


class Prober(Protocol):
    """Looks whether a device of one kind is well."""

    async def probe(self, device: Device) -> ProbeResult:
        """Use the device as a run would, for seconds; called while it is in quarantine.

        Holds what a run on it would hold, and leaves nothing there. Faults of the device are
        returned, not raised.
        """
        ...
