"""Whether a phone is well that failures have put in quarantine."""

from __future__ import annotations

from dataclasses import dataclass

from agents.android.phones import Phones
from agents.host.cores import exclusive_cores
from agents.transports.examination import examine
from agents.transports.protocol import Finding
from agents.transports.remote import RemoteFault
from controller.contracts.device import Device


@dataclass(frozen=True, slots=True)
class PhoneProbe:
    """Of one agent's phones."""

    phones: Phones

    async def probe(self, device: Device) -> Finding:
        """See Prober.probe."""
        async with self.phones.present.used(device.id), exclusive_cores(device.host_cores):
            try:
                remote = self.phones.remote_of(device)
                return Finding(True, await examine(remote, remote.folder, remote.link.serial))
            except RemoteFault as fault:
                return Finding(False, str(fault))
