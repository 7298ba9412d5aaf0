"""Checks and set-up of this host's phones for VALID results."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing

from controller.contracts.adb_status import (
    ADB_FOLDER,
    SETTINGS_FOLDER,
    USES_FOLDER,
    PhoneResult,
    RouteStatus,
)
from controller.contracts.catalog import load_catalog
from controller.contracts.checks import Check, Health, worst_first
from controller.contracts.errors import PhoneUnavailable
from controller.runtime.adb_agents import AdbAgent, agents_here
from controller.runtime.home import Home
from controller.runtime.phones import routes_here, with_port
from controller.scheduling.runtimes import REMEDY, without_runtime
from controller.store.sqlite import SqliteStore


def examined_phone(home: Home, name: str, policy: str) -> PhoneResult:
    """Return the checks of a phone for a policy, the failed ones first.

    name: its device id or adb serial. The result also has what adb may set for the policy.

    Raises PhoneUnavailable if it is not here, or a run or a probe is on it, FarmUnavailable.
    """
    for agent, serial, route in _ways_to(home, name):
        if route.device_id is None:
            return PhoneResult(checks=_unasked(agent, serial, route))
        found = agent.ask("examine", serial, *_files(agent, route.device_id, policy))
        return _with_ours(home, route, found)
    for agent in agents_here(home):
        for serial in dict.fromkeys((name, with_port(name))):
            if checks := agent.ask("look", serial).checks:
                return PhoneResult(checks=checks)
    raise _not_here("examine", name)


def set_up_phone(home: Home, name: str, policy: str, keys: Collection[str]) -> PhoneResult:
    """Set those of these keys that a policy needs, keep their old values, and check again.

    Raises as `examined_phone` does.
    """
    for agent, serial, route in _ways_to(home, name):
        if route.device_id is not None:
            files = _files(agent, route.device_id, policy)
            return _with_ours(home, route, agent.ask("set", serial, *files, *keys))
    raise _not_here("set up", name)


def restored_phone(home: Home, name: str) -> PhoneResult:
    """Restore the settings that were changed on a phone; raises as `examined_phone`."""
    for agent, serial, route in _ways_to(home, name):
        if route.device_id is not None:
            lock, _, kept = _files(agent, route.device_id, "")
            return agent.ask("restore", serial, lock, kept)
    raise _not_here("restore", name)


def kept_settings(home: Home) -> list[str]:
    """Return this host's phones with settings to restore; waits for no agent."""
    files = home.agent.glob(f"*/{ADB_FOLDER}/{SETTINGS_FOLDER}/*.json")
    return sorted({file.stem for file in files})


def _ways_to(home: Home, name: str) -> Iterator[tuple[AdbAgent, str, RouteStatus]]:
    for agent, serial, route in routes_here(home):
        if name in (serial, route.device_id, route.last_device_id):
            yield agent, serial, route


def _files(agent: AdbAgent, device_id: str, policy: str) -> tuple[str, str, str]:
    """Return a phone's lock, the policy, and the file of its changed settings."""
    kept = agent.folder / SETTINGS_FOLDER / f"{device_id}.json"
    return str(agent.folder / USES_FOLDER / device_id), policy, str(kept)


def _not_here(verb: str, name: str) -> PhoneUnavailable:
    remedy = "Run `benchfarm phone list` to see those that are."
    return PhoneUnavailable(f"{verb} phone {name}", "it is not here", remedy)


def _with_ours(home: Home, route: RouteStatus, found: PhoneResult) -> PhoneResult:
    """Return a result with the checks of this side added."""
    ours = (*_complaint(route), *_runtime(home, str(route.device_id)))
    return found.model_copy(update={"checks": tuple(worst_first((*found.checks, *ours)))})


def _unasked(agent: AdbAgent, serial: str, route: RouteStatus) -> tuple[Check, ...]:
    """Return what is known of a phone that the agent doesn't use; raises PhoneUnavailable.

    The agent's own complaint is enough where adb can't be asked: it may be restarting for this
    very phone.
    """
    ours = tuple(_complaint(route))
    try:
        listed = agent.ask("look", serial).checks
    except PhoneUnavailable:
        if not ours:
            raise
        return ours
    in_the_way = any(check.health is Health.MEND for check in listed)
    return tuple(worst_first((*listed, *(() if in_the_way else ours))))


def _complaint(route: RouteStatus) -> Iterator[Check]:
    """Yield the check whether the agent uses a phone."""
    if why := route.complaint:
        yield Check(what="connection", health=Health.MEND, seen=why.seen, remedy=why.remedy)
    else:
        yield Check(what="connection", health=Health.WELL, seen="the agent uses it")


def _runtime(home: Home, device_id: str) -> Iterator[Check]:
    with closing(SqliteStore.open_reader(home.store)) as store:
        known = {d.device.id: d.device for d in store.fleet()[1]}
    if device_id not in known:
        return
    device = known[device_id]
    if lacking := without_runtime(device, load_catalog().stacks.values()):
        yield Check(what="runtime", health=Health.MEND, seen=lacking, remedy=REMEDY)
    else:
        yield Check(
            what="runtime", health=Health.WELL, seen=f"there is a runtime for {device.architecture}"
        )
