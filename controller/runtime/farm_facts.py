"""What `benchfarm status` looks at: files and processes of this host, and the store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from controller.contracts.catalog import all_left_out, load_catalog
from controller.contracts.device import RegisteredAgent
from controller.contracts.errors import UserError
from controller.contracts.plugins import LeftOut
from controller.contracts.run import Run
from controller.contracts.version import installed_version
from controller.contracts.waiting import Waiting
from controller.runtime.api_beside import running_api
from controller.runtime.disks import DiskFacts, DiskReader, disk_facts, disks_of
from controller.runtime.fleet import DeviceOverview, agents_now, devices_now
from controller.runtime.health import is_listening, why_away, why_unanswered
from controller.runtime.home import ApiProcess, Cluster, Endpoint, Home
from controller.runtime.joining import instance_of, waits_for_head
from controller.runtime.manifests import have_changed
from controller.runtime.phones import complaints_here
from controller.runtime.up_command import PLAIN, up_command
from controller.runtime.waiting import waiting_now
from controller.store.protocol import StoreReader

ASIDE = (".refused", ".damaged")
"""Endings of outcomes in an agent's outbox that are not sent again by themselves."""


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What the store of a farm says."""

    agents: tuple[RegisteredAgent, ...] = ()
    devices: tuple[DeviceOverview, ...] = ()
    runs: tuple[Run, ...] = ()
    """Open ones, in queue order."""
    users: Mapping[str, str] = field(default_factory=dict)
    """Sweep → user."""
    waits: Mapping[str, Waiting] = field(default_factory=dict)
    """Run → what it waits for."""
    catalog_fault: UserError | None = None
    """Why the manifests can't be read, so that nobody knows what runs wait for."""
    left_out: tuple[LeftOut, ...] = ()
    """Plugins that are not used."""
    damage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FarmFacts:
    """All facts for `benchfarm status`."""

    home: Path
    release: str
    """The installed one."""
    away: str
    """Why the farm can't answer now, else ""."""
    unanswered: str
    """Why its controller does not answer although the farm runs, else ""."""
    cluster: Cluster | None
    joined: bool
    """Whether the cluster is another host's."""
    waits_for_head: bool
    """Whether this host is to join a farm whose head it has not reached."""
    since: float | None
    """When the head's Ray was started, in seconds since the epoch."""
    endpoint: Endpoint | None
    prometheus: str | None
    """URL of the Prometheus that `up` started."""
    prometheus_answers: bool
    api: ApiProcess | None
    """The API for the team that `up` started."""
    api_runs: bool
    manifests_changed: bool
    disks: tuple[DiskFacts, ...]
    aside: tuple[Path, ...]
    """Outcomes of this host's agent that the controller refused, or that can't be read."""
    phones: tuple[UserError, ...]
    """Why phones of this host are not used."""
    stored: StoredFacts
    up: str = PLAIN
    """The command that starts the farm as it was started."""


def farm_facts(
    home: Home, stored: StoredFacts, read: DiskReader = disk_facts, boot_time: float | None = None
) -> FarmFacts:
    """Return the facts of a home; raises UserError for a home that can't be read."""
    cluster = home.cluster()
    joined = cluster is not None and cluster.instance == instance_of(home)
    away = why_away(home)
    prometheus = _url(home.prometheus_url)
    return FarmFacts(
        home=home.path,
        release=installed_version(),
        away=away,
        unanswered="" if away or joined else why_unanswered(home),
        cluster=cluster,
        joined=joined,
        waits_for_head=cluster is None and waits_for_head(home),
        since=_since(cluster, psutil.boot_time() if boot_time is None else boot_time),
        endpoint=home.endpoint() if home.endpoint_file.exists() else None,
        prometheus=prometheus,
        prometheus_answers=bool(prometheus)
        and is_listening(str(prometheus).partition("//")[2], home.owner),
        api=home.api_process(),
        api_runs=running_api(home) is not None,
        manifests_changed=not away and have_changed(home),
        disks=tuple(map(read, disks_of(home.path))),
        aside=tuple(_aside(home)),
        phones=tuple(complaints_here(home, {d.device.id for d in stored.devices})),
        stored=stored,
        up=up_command(home),
    )


def stored_facts(home: Home, store: StoreReader) -> StoredFacts:
    """Return what a store says of its farm, as of now."""
    runs = store.runs(open_only=True)
    waits: Mapping[str, Waiting] = {}
    fault: UserError | None = None
    left_out: tuple[LeftOut, ...] = ()
    try:
        left_out = all_left_out()
        if any(run.lease is None for run in runs):  # else the manifests need not be read
            waits = waiting_now(home, store, runs, load_catalog)
    except UserError as error:  # a manifest is broken: all else is shown
        fault = error
    return StoredFacts(
        agents=tuple(agents_now(home, store)),
        devices=tuple(devices_now(home, store, runs, waits)),
        runs=tuple(runs),
        users={record.sweep_id: record.user for record in store.sweeps()},
        waits=waits,
        catalog_fault=fault,
        left_out=left_out,
        damage=tuple(store.damage()),
    )


def _since(cluster: Cluster | None, boot_time: float) -> float | None:
    """Return when the first process of a head was started."""
    ticks = [process.started for process in cluster.head] if cluster else []
    return boot_time + min(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def _url(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace").strip()
    except FileNotFoundError:
        return None


def _aside(home: Home) -> Iterator[Path]:
    for path in sorted(home.agent.glob("*/outbox/*")):
        if path.suffix in ASIDE:
            yield path
