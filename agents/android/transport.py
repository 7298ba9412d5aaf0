"""The transport of phones: their host's cores to themselves if virtual, conditions recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.android.conditions import (
    BATTERY,
    THERMAL,
    battery_facts,
    environment_of,
    thermal_facts,
)
from agents.android.phones import Phones
from agents.host.cores import exclusive_cores
from agents.transports.protocol import Transport
from agents.transports.remote import Remote, RemoteFault, failure_of
from controller.contracts.base import Scalar
from controller.contracts.device import Device
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.wire import Progress, WorkerSpec

ASK_S = 15.0


@dataclass(frozen=True, slots=True)
class PhoneTransport:
    """Runs a job on a phone through another transport, and records what state the phone is in."""

    run_there: Transport
    phones: Phones
    on_conditions: Callable[[str, Mapping[str, Scalar]], None] = lambda *_: None
    """Called with a phone's id and its conditions, whenever they are read."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See Transport.run."""
        async with self.phones.alone(spec.device):
            outcome = await self._run(spec, on_progress)
        if isinstance(outcome, Failure) and outcome.blame is Blame.DEVICE:
            await self.phones.suspect(spec.device)
        return outcome

    async def _run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        async with exclusive_cores(spec.device.host_cores):
            try:
                remote = self.phones.remote_of(spec.device)
                before = await self._conditions(spec.device, remote)
                outcome = await self.run_there.run(spec, on_progress)
                if not isinstance(outcome, Result):
                    return outcome
                after = await self._conditions(spec.device, remote)
            except RemoteFault as fault:
                return failure_of(fault)
        conditions = environment_of(before, after)
        environment = {**spec.device.facts, **conditions, **outcome.environment}
        return outcome.model_copy(update={"environment": environment})

    async def _conditions(self, device: Device, remote: Remote) -> dict[str, Scalar]:
        facts = await read_conditions(remote)
        self.on_conditions(device.id, facts)
        return facts

    async def clean(self) -> int:
        """See Transport.clean."""
        return await self.run_there.clean()


async def read_conditions(remote: Remote, ask_s: float = ASK_S) -> dict[str, Scalar]:
    """Ask a phone for its battery and heat, each at most so long; raises RemoteFault."""
    battery = await remote.run(BATTERY, ask_s)
    thermal = await remote.run(THERMAL, ask_s)
    return {
        **battery_facts(battery.stdout.decode(errors="replace")),
        **thermal_facts(thermal.stdout.decode(errors="replace")),
    }
