"""The attempt runner that waits for a phone's policy and records the phone's conditions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from agents.attempts.metered import FACTS, METRICS
from agents.attempts.protocol import AttemptRunner
from agents.energy.rails import is_of_battery
from agents.host.cores import as_progress, exclusive_cores
from agents.inference.on_device_result import with_run_rules
from agents.inference.quality import invalid
from agents.inference.run_rules import room_celsius
from agents.inference.throttling import BEGAN_AT
from agents.phones.condition_reading import read_conditions
from agents.phones.conditions import (
    environment_of,
)
from agents.phones.discovery import Phones
from agents.phones.doctor import remedy_of
from agents.phones.policy import Verdict, changed, preflight, too_hot
from agents.remotes.remote import Remote, RemoteFault, failure_of
from controller.contracts.base import Scalar
from controller.contracts.device import Device
from controller.contracts.policy import Policy, load_policy
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.wire import COOL_DOWN, Progress, WorkerSpec

SIDES: Final = ("", "a.", "b.")
"""What the names of a single run's facts begin with, and those of a comparison's sides."""


@dataclass(frozen=True, slots=True)
class PhoneRunner:
    """Runs a job on a phone through another runner, and records the phone's conditions.

    While a virtual phone is measured, it holds the host cores that the phone uses.
    """

    run_there: AttemptRunner
    phones: Phones
    on_conditions: Callable[[str, Mapping[str, Scalar]], None] = lambda *_: None
    """Called with a phone's id and its conditions, whenever they are read."""
    policy_of: Callable[[str], Policy] = load_policy

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        async with self.phones.present.used(spec.device.id):
            outcome = await self._run(spec, on_progress)
        if isinstance(outcome, Failure) and outcome.blame is Blame.DEVICE:
            await self.phones.suspect(spec.device)
        return outcome

    async def _run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """Measure once the phone is within its policy's limits; wait without holding host cores.

        A wait for these cores is none of the policy's.
        """
        policy = self.policy_of(str(spec.job.knobs["policy"]))
        waited_s, waited_for = 0.0, Verdict()
        try:
            while True:
                cores = spec.device.host_cores
                async with exclusive_cores(cores, on_wait=as_progress(on_progress)):
                    began = time.monotonic()
                    remote = self.phones.remote_of(spec.device)
                    await self.phones.present.claim(spec.device.id, remote)
                    before = await self._conditions(spec.device, remote)
                    verdict = preflight(policy, before)
                    if verdict.go:
                        outcome = await self._measure(spec, remote, on_progress, before)
                        return waited(outcome, waited_s, waited_for)
                if verdict.hopeless or waited_s >= policy.wait_s:
                    return refused(policy, verdict, waited_s)
                waited_for = waited_for if waited_for.reasons else verdict
                done, total = round(waited_s), round(policy.wait_s)
                on_progress(Progress(phase=COOL_DOWN, done=min(done, total), total=total))
                await asyncio.sleep(policy.ask_every_s)
                waited_s += time.monotonic() - began
        except RemoteFault as fault:
            return failure_of(fault)

    async def _measure(
        self,
        spec: WorkerSpec,
        remote: Remote,
        on_progress: Callable[[Progress], None],
        before: Mapping[str, Scalar],
    ) -> Outcome:
        """Measure, and read the conditions afterwards; raises RemoteFault if the phone is gone.

        The remote stays usable if the phone reconnects, before the phone is taken in again.
        """
        outcome = await self.run_there.run(spec, on_progress)
        if not isinstance(outcome, Result):
            return outcome
        after = await self._conditions(spec.device, remote)
        charged = [
            when for when, said in (("before", before), ("after", after)) if said.get("charging")
        ]
        if charged:
            why = f"a charger was connected {' and '.join(charged)} the run"
            outcome = without_battery_energy(outcome, why)
        conditions = environment_of(before, after) | {"room_celsius": room_celsius(spec.device)}
        # What this host has read comes last: a phone's own runner can't say otherwise.
        environment = {**outcome.environment, **spec.device.facts, **conditions}
        outcome = outcome.model_copy(update={"environment": environment})
        policy = self.policy_of(str(spec.job.knobs["policy"]))
        outcome = begun_within(policy, outcome)
        return with_run_rules(spec, still_fits(policy, outcome, after))

    async def _conditions(self, device: Device, remote: Remote) -> dict[str, Scalar]:
        facts = await read_conditions(remote, cores=device.attribute("cores"))
        self.on_conditions(device.id, facts)
        return facts

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.run_there.clean()


def without_battery_energy(result: Result, why: str) -> Result:
    """Return a result without the energy that its phone's battery told, also of a comparison's
    sides; why: the reason, a fact of the result."""
    said = result.environment
    told = [side for side in SIDES if is_of_battery(str(said.get(f"{side}energy_source")))]
    # What is the same for both sides of a comparison is told once, without a side.
    without = frozenset(
        f"{side}{name}" for side in (SIDES if "" in told else told) for name in METRICS | FACTS
    )
    facts = {name: fact for name, fact in said.items() if name not in without}
    unknown = {f"{side}energy_unknown": why for side in told}
    metrics = {name: metric for name, metric in result.metrics.items() if name not in without}
    return result.model_copy(update={"metrics": metrics, "environment": {**facts, **unknown}})


def begun_within(policy: Policy, result: Result) -> Result:
    """Make a result INVALID if its phone was too hot for the policy when LoadGen began.

    Until then, a task is prepared and pushed. Of a comparison, the first run counts.
    """
    celsius = result.environment.get(BEGAN_AT)
    if result.pairs and celsius is None:  # the sides differ
        first = "a." if result.pairs[0].a_first else "b."
        celsius = result.environment.get(f"{first}{BEGAN_AT}")
    for objection in too_hot(policy, celsius) if isinstance(celsius, int | float) else ():
        result = invalid(result, f"policy {policy.name}: when the run began, {objection}")
    return result


def still_fits(policy: Policy, result: Result, after: Mapping[str, Scalar]) -> Result:
    """Make a result INVALID if its phone has left what the policy asks for to the run's end."""
    for objection in changed(policy, after):
        result = invalid(result, f"policy {policy.name}: after the run, {objection}")
    return result


def refused(policy: Policy, verdict: Verdict, waited_s: float) -> Failure:
    """Return the failure of a run whose phone is outside its policy's limits; it is not retried."""
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    waiting = f", after waiting {waited_s:.0f} s" if waited_s >= 1 else ""
    seen = f"{'; '.join(verdict.reasons)} at {moment} by this host's clock{waiting}"
    remedies = " ".join(dict.fromkeys(map(remedy_of, verdict.reasons)))
    message = f"cannot run under policy {policy.name}: {seen}. {remedies}"
    return Failure(blame=Blame.USER, kind="preflight", message=message)


def waited(outcome: Outcome, waited_s: float, waited_for: Verdict) -> Outcome:
    """Record in a result how long its phone was waited for, and why."""
    if not isinstance(outcome, Result) or not waited_for.reasons:
        return outcome
    facts = {"preflight_waited_s": waited_s, "preflight_waited_for": waited_for.reasons}
    return outcome.model_copy(update={"environment": {**outcome.environment, **facts}})
