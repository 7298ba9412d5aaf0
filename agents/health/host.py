"""Health probe for quarantined hosts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from agents.health.prober import ProbeResult
from agents.host.cores import exclusive_cores
from agents.remotes.local import LocalRemote
from agents.remotes.remote import RemoteFault
from agents.remotes.self_test import examine
from controller.contracts.device import Device
from controller.platform.programs import python_module

ARITHMETIC = python_module("agents.host.arithmetic")
DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class HostProbe:
    """The prober of the agent's own host."""

    remote: LocalRemote
    arithmetic: tuple[str, ...] = ARITHMETIC
    """Command that computes a known result in a fresh process; it prints the result and exits with
    0 if that is right."""

    async def probe(self, device: Device) -> ProbeResult:
        """See Prober.probe."""
        async with exclusive_cores(device.host_cores):
            try:
                folder, place = PurePosixPath(self.remote.folder), self.remote.programs.place
                seen = await examine(self.remote, folder, place)
                done = await self.remote.run(self.arithmetic, DEADLINE_S)
            except RemoteFault as fault:
                return ProbeResult(False, str(fault))
        lines = (done.stdout if not done.exit_code else done.stderr).decode().strip().splitlines()
        said = lines[-1] if lines else f"the arithmetic test exited with status {done.exit_code}"
        return ProbeResult(done.exit_code == 0, said if done.exit_code else f"{seen}, {said}")
