"""What stands between a phone of this host and a VALID result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from controller.contracts.adb_status import USES_FOLDER, Check, Health, RouteStatus, worst_first
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import PhoneUnavailable
from controller.runtime.home import Home
from controller.runtime.phones import routes_here
from controller.scheduling.runtimes import REMEDY, without_runtime
from controller.store.sqlite import SqliteStore


def examined_phone(home: Home, name: str, policy: str) -> list[Check]:
    """Look at a phone as a run under a policy would; what is to be mended comes first.

    name: its device id or adb serial.

    Raises PhoneUnavailable if it is not here, or a run or a probe is on it, FarmUnavailable.
    """
    for agent, serial, route in routes_here(home):
        if name not in (serial, route.device_id, route.last_device_id):
            continue
        if route.device_id is None:
            return [*_complaint(route)]
        lock = agent.folder / USES_FOLDER / route.device_id
        found = agent.ask("examine", serial, str(lock), policy).checks
        return worst_first((*_complaint(route), *_runtime(home, route.device_id), *found))
    raise PhoneUnavailable(
        f"examining phone {name}", "it is not here", "see what is: benchfarm phone list"
    )


def _complaint(route: RouteStatus) -> Iterator[Check]:
    """Yield why the agent doesn't use a phone: it may be locked, offline, or somebody else's."""
    if why := route.complaint:
        yield Check(what="connection", health=Health.MEND, seen=why.seen, remedy=why.remedy)
    else:
        yield Check(what="connection", health=Health.WELL, seen="its key is confirmed")


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
            what="runtime", health=Health.WELL, seen=f"there is one for {device.architecture}"
        )
