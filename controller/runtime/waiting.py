"""What each open run waits for, from the store; works without a running farm.

Only what the controller keeps in memory is asked of it, if it is up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controller.contracts.administration import HELD_UP, HeldUpList
from controller.contracts.catalog import Catalog
from controller.contracts.errors import UserError
from controller.contracts.run import Run
from controller.contracts.waiting import Waiting
from controller.runtime.fleet import Where, is_up, registered_now
from controller.runtime.home import Home
from controller.scheduling.device_life import reserved_for
from controller.scheduling.fair_share import REMEMBERED_S, Claim, Claims, Shares
from controller.scheduling.planning import Durations
from controller.scheduling.waiting import Queue, waiting
from controller.store.protocol import FarmReader

ANSWER_S: Final = 1.0
"""Longest wait for what the controller alone knows: a list is shown without it, too."""


def held_up_now(home: Home) -> Mapping[str, str]:
    """Return the leased runs that processes of other farms hold up, with what they wait for.

    Only the controller knows; nobody does while it is away, which other lines of a list say.
    """
    # Late: its HTTP client takes longer to load than all else of a list, and few lists need it.
    from controller.runtime.client import FarmClient, Timings

    client = FarmClient(home, {}, Timings(answer_s=ANSWER_S))
    try:
        return client.administer(HeldUpList, HELD_UP).runs
    except UserError:
        return {}


def waiting_now(
    farm: Where,
    store: FarmReader,
    runs: Sequence[Run],
    catalog: Callable[[], Catalog],
    clock: Callable[[], float] = time.time,
    held_up: Callable[[Home], Mapping[str, str]] = held_up_now,
) -> dict[str, Waiting]:
    """Return what each run waits for, and when it will most likely start.

    While the farm is down, all devices are away. runs: the open ones; catalog: called if there are
    any; held_up: called if some are leased and the farm is up.
    """
    if not runs:
        return {}
    now, devices = clock(), registered_now(farm, store)
    of_sweep = {record.sweep_id: Claim.of(record) for record in store.sweeps()}
    leased = [
        (of_sweep.get(run.sweep_id, Claim()).user, run.lease.leased_at, len(run.lease.places))
        for run in runs
        if run.lease
    ]
    spent_s = Shares(store.spent(now - REMEMBERED_S)).now(now, leased)
    claims = Claims(of_sweep, spent_s, reserved_for(devices, now))
    ever = (*devices, *store.forgotten())
    emulated = {known.device.id for known in ever if known.device.emulated}
    durations = Durations(store.took(run.cell for run in runs), emulated)
    up = is_up(farm)
    locked = _locked(farm, held_up) if up and leased else {}
    queue = Queue(now, runs, devices, claims, held_up=locked, is_up=up)
    return waiting(queue, catalog(), durations.of)


def _locked(farm: Where, held_up: Callable[[Home], Mapping[str, str]]) -> Mapping[str, str]:
    return held_up(farm) if isinstance(farm, Home) else farm.held_up
