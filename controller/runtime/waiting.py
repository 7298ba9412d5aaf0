"""What each open run waits for, from the store; works without a running farm."""

from __future__ import annotations

import time
from collections.abc import Callable

from controller.contracts.catalog import Catalog
from controller.contracts.waiting import Waiting
from controller.runtime.fleet import is_up, registered_now
from controller.runtime.home import Home
from controller.scheduling.device_life import reserved_for
from controller.scheduling.fair_share import REMEMBERED_S, Claim, Claims, Shares
from controller.scheduling.planning import Durations
from controller.scheduling.waiting import Queue, waiting
from controller.store.protocol import StoreReader


def waiting_now(
    home: Home,
    store: StoreReader,
    catalog: Callable[[], Catalog],
    clock: Callable[[], float] = time.time,
) -> dict[str, Waiting]:
    """Return what each run waits for, and when it will most likely start.

    While the farm is down, all devices are away. catalog: called if there are open runs.
    """
    runs = store.runs(open_only=True)
    if not runs:
        return {}
    now, devices = clock(), registered_now(home, store)
    of_sweep = {record.sweep_id: Claim.of(record) for record in store.sweeps()}
    leased = [
        (of_sweep.get(run.sweep_id, Claim()).user, run.lease.leased_at) for run in runs if run.lease
    ]
    spent_s = Shares(store.spent(now - REMEMBERED_S)).now(now, leased)
    claims = Claims(of_sweep, spent_s, reserved_for(devices, now))
    emulated = {known.device.id for known in devices if known.device.emulated}
    durations = Durations(store.took(), emulated)
    queue = Queue(now, runs, devices, claims, is_up=is_up(home))
    return waiting(queue, catalog(), durations.of)
