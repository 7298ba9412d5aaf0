"""A farm on one screen: what is up, what runs, what waits, and what is wrong. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from controller.contracts.base import utc_minute
from controller.contracts.checks import Check, Health, worst_first
from controller.contracts.device import CONTROLLER, DeviceState, RegisteredAgent
from controller.contracts.farm_status import (
    AgentNow,
    FarmAddresses,
    FarmCondition,
    FarmStatus,
    RunNow,
)
from controller.contracts.run import Run
from controller.contracts.waiting import WaitingRuns, WaitReason
from controller.runtime import manifests
from controller.runtime.disks import disk_checks
from controller.runtime.farm_facts import FarmFacts, StoredFacts
from controller.runtime.fleet import DeviceOverview, agent_state, wrong_clocks
from controller.runtime.health import CONTROLLER_AWAY, RESTARTED
from controller.runtime.up_command import told
from controller.scheduling.waiting import grouped

AWAY: Final = (DeviceState.LOST, DeviceState.OFFLINE, DeviceState.UNAUTHORIZED)
STUCK: Final = (WaitReason.NO_MATCH, WaitReason.NO_DEVICE, WaitReason.GONE)
"""What runs wait for that does not end by itself."""
UP: Final = "Run `benchfarm up`."


def farm_status(facts: FarmFacts) -> FarmStatus:
    """Return what is shown of a farm."""
    condition, why = _condition(facts)
    stored, runs = facts.stored, facts.stored.runs
    works = condition in (FarmCondition.UP, FarmCondition.SILENT, FarmCondition.JOINED)
    known = condition is not FarmCondition.DOWN
    return FarmStatus(
        home=str(facts.home),
        state=condition,
        why=why,
        since=facts.since if works else None,
        version=facts.endpoint.version if works and facts.endpoint else None,
        addresses=_addresses(facts) if known else FarmAddresses(),
        agents=tuple(_agent(stored, agent) for agent in stored.agents),
        devices=dict(Counter(device.state for device in stored.devices)),
        running=tuple(_running(stored)),
        queued=sum(run.lease is None for run in runs),
        waiting=_waiting(stored),
        checks=tuple(worst_first(_checks(facts, condition, why))),
    )


def _condition(facts: FarmFacts) -> tuple[FarmCondition, str]:
    """Return whether a farm works, and why not."""
    if facts.waits_for_head:
        return FarmCondition.WAITING, "this host waits for the head of the farm it is to join"
    if facts.away.startswith(RESTARTED):
        return FarmCondition.RESTARTING, facts.away
    if facts.away:
        return FarmCondition.DOWN, facts.away
    if facts.joined and facts.cluster:
        return FarmCondition.JOINED, f"it measures for the farm at {facts.cluster.ray_address}"
    if facts.unanswered.startswith(CONTROLLER_AWAY):
        return FarmCondition.RESTARTING, facts.unanswered
    if facts.unanswered:
        return FarmCondition.SILENT, facts.unanswered
    return FarmCondition.UP, ""


def _addresses(facts: FarmFacts) -> FarmAddresses:
    cluster = facts.cluster
    return FarmAddresses(
        api=facts.endpoint.url if facts.endpoint else None,
        ray=cluster.ray_address if cluster else None,
        dashboard=(cluster.dashboard_url or None) if cluster else None,
        prometheus=facts.prometheus,
        page=facts.api.url if facts.api else None,
    )


def _agent(stored: StoredFacts, known: RegisteredAgent) -> AgentNow:
    return AgentNow(
        agent_id=known.agent.id,
        host=known.agent.host,
        state=agent_state(known, stored.runs),
        since=known.since,
        devices=sum(device.agent_id == known.agent.id for device in stored.devices),
    )


def _running(stored: StoredFacts) -> Iterator[RunNow]:
    known = {each.device.id: each for each in stored.devices}
    for run in stored.runs:
        if run.lease:
            device = known.get(run.lease.device_id)
            yield RunNow(
                run_id=run.run_id,
                sweep_id=run.sweep_id,
                user=_user(stored, run),
                device=run.lease.device_id,
                device_name=device.name if device else run.lease.device_id,
                likeness=device.device.likeness if device else "",
                since=run.lease.leased_at,
                cooling=run.lease.cooling is True,
            )


def _user(stored: StoredFacts, run: Run) -> str:
    return stored.users.get(run.sweep_id, "")


def _waiting(stored: StoredFacts) -> tuple[WaitingRuns, ...]:
    queued = (run for run in stored.runs if run.lease is None)
    groups = grouped(stored.waits, queued)
    return tuple(sorted(groups, key=lambda group: -group.runs))


# --- what is wrong ------------------------------------------------------------------------------


def _checks(facts: FarmFacts, condition: FarmCondition, why: str) -> Iterator[Check]:
    yield from _farm(facts, condition, why)
    for look in _ALWAYS:
        yield from look(facts)
    if condition in (FarmCondition.UP, FarmCondition.SILENT):
        for look in _WHILE_UP:
            yield from look(facts)


def _mend(what: str, seen: str, remedy: str) -> Check:
    return Check(what=what, health=Health.MEND, seen=seen, remedy=remedy)


def _farm(facts: FarmFacts, condition: FarmCondition, why: str) -> Iterator[Check]:
    logs = facts.home / "logs"
    match condition:
        case FarmCondition.DOWN:
            yield _mend("farm", why, UP)
        case FarmCondition.RESTARTING:
            yield _mend("farm", why, f"Wait; if it lasts, see {logs / 'supervisor.log'}.")
        case FarmCondition.SILENT:
            yield _mend("farm", why, f"Run {told(facts.up)}; runs are kept.")
        case FarmCondition.WAITING:
            yield _mend("farm", why, "Start that farm, or check its address and the network.")
        case _:
            pass
    if facts.endpoint and facts.endpoint.version != facts.release and not facts.away:
        seen = f"the farm runs {facts.endpoint.version}, installed is {facts.release}"
        yield _mend("farm", seen, f"Run {told(facts.up)}; runs are kept.")


def _disks(facts: FarmFacts) -> Iterator[Check]:
    for disk in facts.disks:
        yield from (check for check in disk_checks(disk) if check.health is not Health.WELL)


def _store(facts: FarmFacts) -> Iterator[Check]:
    if count := len(facts.stored.damage):
        more = f", and {count - 1} more" if count > 1 else ""
        yield _mend("store", f"{facts.stored.damage[0]}{more}", "Run `benchfarm store check`.")


def _outbox(facts: FarmFacts) -> Iterator[Check]:
    if facts.aside:
        count = len(facts.aside)
        outcomes = "1 outcome was" if count == 1 else f"{count} outcomes were"
        seen = f"{outcomes} refused or can't be read: {facts.aside[0]}"
        remedy = "Delete it; or rename it to .json, and the agent sends it at its next start."
        yield _mend("outbox", seen, remedy)


def _agents(facts: FarmFacts) -> Iterator[Check]:
    for known in facts.stored.agents:
        if not (known.online or known.revoked):
            seen = f"agent {known.agent.id} on host {known.agent.host} is not heard"
            remedy = f"See that host; if it is gone: benchfarm agent revoke {known.agent.id}."
            if not known.draining:  # else a person is at work there
                yield _mend("agents", seen, remedy)


def _drains(facts: FarmFacts) -> Iterator[Check]:
    for known in facts.stored.agents:
        if drain := known.draining:
            seen = (
                f"host {known.agent.host} takes no runs since {utc_minute(drain.since)}, by "
                f"{drain.who}: {drain.why}{'' if known.online else '; it is not heard'}"
            )
            remedy = f"When it is to measure again: benchfarm agent undrain {known.agent.id}."
            yield Check(what="agents", health=Health.HINT, seen=seen, remedy=remedy)


def _devices(facts: FarmFacts) -> Iterator[Check]:
    online = {known.agent.id for known in facts.stored.agents if known.online}
    for status in facts.stored.devices:
        id_ = status.device.id
        if status.state is DeviceState.QUARANTINED and status.who == CONTROLLER:
            remedy = f"Mend it; a probe lets it out, or: benchfarm device release {id_}."
            yield _mend("devices", f"{status.name} is in quarantine: {status.why}", remedy)
        elif status.state in AWAY and status.agent_id in online:
            seen = f"{status.name} is {status.state}: {status.why}"
            yield Check(what="devices", health=Health.HINT, seen=seen, remedy=_back(status))


def _back(status: DeviceOverview) -> str:
    if status.state is DeviceState.UNAUTHORIZED:
        return "Confirm this host's key on its screen."
    return "Connect it, if it is to measure."


def _queue(facts: FarmFacts) -> Iterator[Check]:
    for group in _waiting(facts.stored):
        remedy = "Bring a device that fits, or cancel them: benchfarm sweep cancel SWEEP."
        if group.first.reason in STUCK:
            yield _mend("runs", group.said, remedy)
        elif group.first.reason is WaitReason.AWAY:  # as a sweep with `await` may want
            yield Check(what="runs", health=Health.HINT, seen=group.said, remedy=remedy)


def _clocks(facts: FarmFacts) -> Iterator[Check]:
    for line in wrong_clocks(facts.stored.agents):
        seen, _, rest = line.partition("; ")
        yield _mend("clock", seen, f"{rest[:1].upper()}{rest[1:]}.")


def _phones(facts: FarmFacts) -> Iterator[Check]:
    for error in facts.phones:
        yield _mend("phones", f"cannot {error.tried}: {error.seen}", error.remedy)


def _prometheus(facts: FarmFacts) -> Iterator[Check]:
    if facts.prometheus and not facts.prometheus_answers:
        seen = f"nothing listens at {facts.prometheus}"
        yield _mend("Prometheus", seen, "Run `benchfarm up --prometheus`.")


def _api(facts: FarmFacts) -> Iterator[Check]:
    if facts.api and not facts.api_runs:
        seen = f"the API at {facts.api.url} has ended; it is started again"
        yield _mend("API", seen, f"If it lasts, see {facts.home / 'logs' / 'api.log'}.")


def _manifests(facts: FarmFacts) -> Iterator[Check]:
    if fault := facts.stored.catalog_fault:
        yield _mend("manifests", f"cannot {fault.tried}: {fault.seen}", fault.remedy)
    for one in facts.stored.left_out:
        yield _mend(one.noun, one.said, one.remedy)
    if facts.manifests_changed:
        yield _mend("manifests", manifests.CHANGED, manifests.REMEDY.format(told(facts.up)))


_ALWAYS: Final[tuple[Callable[[FarmFacts], Iterator[Check]], ...]] = (_disks, _store, _outbox)
_WHILE_UP: Final[tuple[Callable[[FarmFacts], Iterator[Check]], ...]] = (
    *(_agents, _drains, _devices, _queue, _clocks, _phones, _prometheus, _api, _manifests),
)
