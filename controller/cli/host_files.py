"""Which hosts lack models or data sets that a sweep needs: those of the farm, or this one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from controller.cli.common import farm_elsewhere, home
from controller.cli.meant import elsewhere
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceState, RegisteredAgent, RegisteredDevice
from controller.contracts.errors import UserError
from controller.contracts.sweep import Cell, Sweep
from controller.platform.terminal import say
from controller.runtime.stored_files import stored_files_here, stored_files_now
from controller.scheduling.model_files import HERE, HostFiles, hosts_without, needed_files
from controller.scheduling.planning import SweepPlan, plan_sweep

Fleet = tuple[Sequence[RegisteredAgent], Sequence[RegisteredDevice]]
Stored = Mapping[str, Collection[str]]
"""Agent → the checksums and keys in its store, without an agent that has not said."""


def hosts_without_files(
    sweep: Sweep, cells: Sequence[Cell], catalog: Catalog, fleet: Fleet
) -> tuple[HostFiles, ...]:
    """Return the known hosts that lack files of a sweep; this host, if its farm knows none."""
    if fleet[0] or farm_elsewhere():
        return known_hosts_without(sweep, cells, catalog, fleet, _stored_there)
    return this_host_without(cells, catalog, _stored_here)


def planned_with_files(
    plan: SweepPlan,
    cells: Sequence[Cell],
    catalog: Catalog,
    owners: Mapping[str, str],
    hosts: Mapping[str, str],
) -> SweepPlan:
    """Return a plan with the hosts that lack files; with this host, if the farm knows none.

    owners: device → agent; hosts: agent → host.
    """
    if hosts:
        return with_host_files(plan, owners, hosts, _stored_there)
    here = this_host_without(cells, catalog, _stored_here)
    return plan.model_copy(update={"without_files": here})


def with_host_files(
    plan: SweepPlan,
    owners: Mapping[str, str],
    hosts: Mapping[str, str],
    stored: Callable[[], Stored],
) -> SweepPlan:
    """Return a plan with the hosts that lack files.

    owners: device → agent; hosts: agent → host; stored: called if the plan needs any files.
    """
    needs = [(owners[each.device], each.files) for each in plan.devices if each.files]
    if not needs:
        return plan
    lacking = tuple(hosts_without(needs, hosts, stored()))
    return plan.model_copy(update={"without_files": lacking})


def known_hosts_without(
    sweep: Sweep,
    cells: Sequence[Cell],
    catalog: Catalog,
    fleet: Fleet,
    stored: Callable[[], Stored],
) -> tuple[HostFiles, ...]:
    """Return the hosts of a fleet that lack files of a sweep, whatever state their devices are in.

    stored: see with_host_files.
    """
    agents, devices = fleet
    ready = [(registered.labelled, DeviceState.READY) for registered in devices]
    plan = plan_sweep(sweep, cells, ready, catalog, ())
    owners = {registered.device.id: registered.agent_id for registered in devices}
    hosts = {registered.agent.id: registered.agent.host for registered in agents}
    return with_host_files(plan, owners, hosts, stored).without_files


def this_host_without(
    cells: Iterable[Cell],
    catalog: Catalog,
    stored: Callable[[], Stored],
) -> tuple[HostFiles, ...]:
    """Return this host if it lacks files that cells need; for where no agent is known yet.

    stored: returns what is in this host's store, under HERE; called if any files are needed.
    """
    needs = [(HERE, files) for cell in cells if (files := needed_files(cell, catalog))]
    return tuple(hosts_without(needs, {}, stored())) if needs else ()


def _stored_there() -> Stored:
    """Return what is in the store of models of each online host of the farm that is meant."""
    other = elsewhere()
    return stored_files_now(home()) if other is None else other.host().files().files


def _stored_here() -> Stored:
    """Return what is in this host's store; nothing, and say why, if it can't be read."""
    try:
        return stored_files_here()
    except UserError as error:  # the sweep may be right nevertheless
        say(f"benchfarm: {error}", err=True)
        return {}
