"""What `benchfarm profile run` asks the farm for, and where it finds the answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from controller.cli.common import console, reading_here
from controller.cli.comparison_options import knobs_of
from controller.cli.meant import farm_client
from controller.cli.plugins_view import warn_of_left_out
from controller.cli.progress import show_sweep
from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceKind, RegisteredDevice
from controller.contracts.errors import UserError
from controller.contracts.sweep import Sweep
from controller.platform.terminal import say
from controller.scheduling.expansion import cells_of
from controller.scheduling.references import find_device
from controller.store.protocol import FarmReader


def profiled_folder(
    workload: str, stack: str, knob: Sequence[str] | None, device: str | None, *, quiet: bool
) -> Path | None:
    """Submit a sweep of one profiled run, follow it, and return its profile's folder.

    None, with the reason on standard error, if nothing was profiled. Raises UserError.
    """
    catalog = load_catalog()
    warn_of_left_out(catalog)
    # Complain before asking the farm, and first of what is wrong on any host.
    cells_of(_sweep(workload, stack, knob, "any"), catalog, "profile run")
    with reading_here() as store:
        found = device_here(store, device, os.uname().nodename)
    sweep = _sweep(workload, stack, knob, f'device == "{found}"')
    client = farm_client()
    sweep_id = client.submit(sweep, again=True).sweep_id
    try:
        show_sweep(client, sweep_id, console(stderr=quiet))
    except KeyboardInterrupt:
        say(err=True)
        say(f"the run continues; cancel it: benchfarm sweep cancel {sweep_id}", err=True)
        return None
    return _folder_of(sweep_id)


def _sweep(workload: str, stack: str, knob: Sequence[str] | None, devices: str) -> Sweep:
    return Sweep(
        name="profile",
        workload=(workload,),
        stack=(stack,),
        scenario=("training",),
        knobs={name: (value,) for name, value in knobs_of(knob or ()).items()},
        devices=(devices,),
        profile=True,
    )


def device_here(store: FarmReader, device: str | None, host: str) -> str:
    """Return the device to profile on: the host's own, unless another of its is asked for.

    A profile stays where it was measured. Raises UserError if that would be elsewhere.
    """
    agents, devices = store.fleet()
    host_of = {known.agent.id: known.agent.host for known in agents}
    if device is None:
        return _own([known for known in devices if host_of[known.agent_id] == host], host)
    at = {known.device.id: host_of[known.agent_id] for known in devices}
    device = find_device(device, devices)
    if at[device] != host:
        raise UserError(
            f"use --device {device}",
            f"it belongs to host {at[device]}, and a profile stays on the host of its device",
            "Leave it out, or submit a sweep with `profile: true` and show the profile there.",
        )
    return device


def _own(devices: Sequence[RegisteredDevice], host: str) -> str:
    cpus = [known for known in devices if known.device.kind is DeviceKind.CPU_HOST]
    if not cpus:
        raise UserError(
            "profile on this host",
            f"host {host} is not a device of this farm, and a profile stays where it is measured",
            "Run it on a host that `benchfarm agent list` shows.",
        )
    return max(cpus, key=lambda known: (known.online, known.since)).device.id


def _folder_of(sweep_id: str) -> Path | None:
    with reading_here() as store:
        results, failures = store.results(sweep_id), store.failures(sweep_id)
    for result in results:
        if result.counted and "profile" in result.artefacts:
            return Path(result.artefacts["profile"])
    for failure in failures:
        say(f"{failure.shown_device}: {failure.blame}: {failure.message}", err=True)
    say(f"nothing was profiled; see: benchfarm sweep status {sweep_id}", err=True)
    return None
