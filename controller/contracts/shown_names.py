"""What people call devices and sweeps, beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShownNames:
    """The names of devices, and the tags of sweeps."""

    of_devices: Mapping[str, str]
    of_sweeps: Mapping[str, Sequence[str]]

    def device(self, device_id: str) -> str:
        """Return the shown name of a device; its id if it has none."""
        return self.of_devices.get(device_id, device_id)

    def tags(self, sweep_id: str) -> Sequence[str]:
        """Return the tags of a sweep."""
        return self.of_sweeps.get(sweep_id, ())
