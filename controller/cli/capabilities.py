"""`benchfarm device capabilities`: what is known of a device, and the sweeps that find it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table

from controller.cli.common import console, reading, require_this_host, show_json, show_table
from controller.cli.meant import farm_client
from controller.cli.progress import show_sweep
from controller.contracts.capability import Capability
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import Device, build_of
from controller.contracts.errors import NotFound, UserError
from controller.contracts.sweep import Sweep
from controller.platform.terminal import say
from controller.reports.capabilities import capabilities
from controller.runtime.models import model_statuses
from controller.scheduling.runtimes import lacks_runtime

DEADLINE_S = 600.0
"""Of a run of a probe."""


def probe(device: Device) -> None:
    """Run each task, as far as its model is there, on each runtime, delegate and number format.

    Raises UserError if none can run on the device. What comes of it is in the store.
    """
    require_this_host(f"probe {device.shown}")  # whose store of models is looked at
    client = farm_client()
    there = [status.key for status in model_statuses("list") if status.there]
    sweeps = list(probes(device, load_catalog(), there))
    if not sweeps:
        seen = "no stack has a runtime for it, or no model is in the store"
        remedy = "Run `benchfarm models list` to see which are."
        raise UserError(f"probe {device.shown}", seen, remedy)
    for submission in [client.submit(sweep, again=True) for sweep in sweeps]:
        show_sweep(client, submission.sweep_id, console(stderr=True))


def probes(device: Device, catalog: Catalog, there: Iterable[str]) -> Iterator[Sweep]:
    """Yield a sweep for each task and runtime; there: WORKLOAD/models/NUMERICS of the store."""
    known = set(there)
    for workload in catalog.workloads.values():
        models = workload.on_device.models if workload.on_device else {}
        numerics = [n for n in models if f"{workload.name}/models/{n}" in known]
        for stack in catalog.stacks.values():
            fits = device.kind in stack.device_kinds and not lacks_runtime(stack, device)
            if not (stack.bundle and numerics and fits):
                continue
            asked = [c for c in stack.knobs["delegate"].choices or () if c != "auto"]
            knobs = {"mode": "performance", "length": "rapid", "policy": "ci"}
            yield Sweep.model_validate(
                {
                    "name": "capabilities",
                    "workload": workload.name,
                    "stack": stack.name,
                    "scenario": "single_stream",
                    "knobs": {**knobs, "numerics": numerics, "delegate": asked},
                    "devices": [f'device == "{device.id}"'],
                    "deadline_s": DEADLINE_S,
                }
            )


def show(device: Device, build: str | None, *, all_builds: bool, json: bool) -> None:
    """Print what is known of a device's present build, or of others, as JSON or a table.

    Raises NotFound for a build on which nothing was measured.
    """
    with reading() as store:
        results, failures = store.results(), store.failures()
    found = [one for one in capabilities((*results, *failures)) if one.device == device.id]
    builds = list(dict.fromkeys(one.build for one in sorted(found, key=lambda one: one.at)))
    wanted = build_of(device.facts) if build is None else build
    if build is not None and build not in builds:
        seen = f"nothing was measured on {device.shown} with this build"
        known = ", ".join(map(_named, builds)) or "none"
        raise NotFound(f"find build {build}", seen, f"Builds with outcomes: {known}.")
    chosen = found if all_builds else [one for one in found if one.build == wanted]
    if json:
        show_json(chosen)
    elif chosen:
        _show_table(chosen, device, all_builds=all_builds)
    else:
        say(f"nothing was measured on {device.shown} ({_named(wanted)}) yet; run this with --probe")
        if found:
            say(f"{len(builds)} other builds have outcomes; show them with --all-builds")


def _show_table(found: Iterable[Capability], device: Device, *, all_builds: bool) -> None:
    kind = ("task", "stack", "delegate", "numerics")
    build = ("build",) if all_builds else ()
    title = f"{device.shown}{device.likeness}"
    table = Table(*kind, *build, "verdict", "why", "run", title=title, title_justify="left")
    for one in found:
        named = (one.workload, one.stack, one.delegate, one.numerics)
        of = (_named(one.build),) if all_builds else ()
        table.add_row(*named, *of, one.verdict, one.why, one.run_id)
    show_table(table)


def _named(build: str) -> str:
    return build or "build unknown"
