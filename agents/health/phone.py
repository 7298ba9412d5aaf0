"""Health probe for quarantined phones."""

from __future__ import annotations

from dataclasses import dataclass

from agents.health.prober import ProbeResult
from agents.host.cores import exclusive_cores
from agents.inference.content import Content
from agents.inference.requirements_probe import look, refusal
from agents.phones.discovery import Phones
from agents.remotes.remote import FaultKind, Remote, RemoteFault
from agents.remotes.self_test import ASK_S, examine
from controller.contracts.device import Device


@dataclass(frozen=True, slots=True)
class PhoneProbe:
    """The prober of one agent's phones."""

    phones: Phones
    content: Content
    ask_s: float = ASK_S
    """How long a program of the self test may take."""

    async def probe(self, device: Device) -> ProbeResult:
        """See Prober.probe."""
        async with self.phones.present.used(device.id), exclusive_cores(device.host_cores):
            try:
                remote = self.phones.remote_of(device)
                seen = await examine(remote, remote.folder, remote.link.serial, self.ask_s)
                await self._try_bundles(device, remote, remote.link.serial)
                return ProbeResult(True, seen)
            except RemoteFault as fault:
                return ProbeResult(False, str(fault))

    async def _try_bundles(self, device: Device, remote: Remote, place: str) -> None:
        """Raise RemoteFault if the phone can't start a bundle that was built for it.

        Free space is not checked: bundles differ in size.
        """
        for runtime in await self.content.runtimes_built(str(device.architecture)):
            found = (await look(remote, runtime, place)).unmet
            if lacking := [one for one in found if one.kind is not FaultKind.STORAGE_FULL]:
                raise refusal(place, runtime.name, lacking)
