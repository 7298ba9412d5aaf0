"""The interface of health probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from controller.contracts.device import Device


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe."""

    passed: bool
    why: str
    """What the probe observed."""


class Prober(Protocol):
    """Probes devices of one kind."""

    async def probe(self, device: Device) -> ProbeResult:
        """Use the device as a run would, for seconds; called while it is in quarantine.

        Holds the locks that a run would hold, and leaves nothing on the device. Faults of the
        device are returned, not raised.
        """
        ...
