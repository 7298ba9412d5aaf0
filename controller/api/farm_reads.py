"""What the routes about the fleet and the farm return, beside the states of `reads`."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Final

from controller.api.answers import (
    AnnotationPage,
    ArtefactPage,
    DeviceNow,
    HistoryPage,
    RegisteredDevicePage,
    SpentPage,
    TookPage,
)
from controller.api.paging import json_bytes, page_of, place_of
from controller.api.queries import NoQuery, PageQuery, RegisteredQuery, SpentQuery, TookQuery
from controller.api.reads import Ids, Reading, run, unknown
from controller.contracts.administration import StoredFiles
from controller.contracts.farm_now import FarmNow
from controller.contracts.sweep import Cell
from controller.runtime.fleet import devices_now, is_up
from controller.runtime.health import trouble_of, why_away
from controller.runtime.stored_files import stored_files_now
from controller.runtime.waiting import held_up_now

PLACE_OF_ENTRY: Final = (float, str, int)
PLACE_OF_ENDED: Final = (float, str, int)
PLACE_OF_TRY: Final = (float, *PLACE_OF_ENDED)
SEE_DEVICES: Final = "GET /api/v1/devices lists all."


def farm_now(farm: Reading, _: NoQuery, __: Ids) -> FarmNow:
    """Return whether the farm works, and what its controller alone knows."""
    return FarmNow(
        away=why_away(farm.home),
        trouble=trouble_of(farm.home),
        held_up=dict(held_up_now(farm.home)) if is_up(farm.home) else {},
    )


def stored_files(farm: Reading, _: NoQuery, __: Ids) -> StoredFiles:
    """Return what is in the stores of models of online hosts; of none while the farm is down."""
    found = stored_files_now(farm.home)
    return StoredFiles(files={agent: tuple(files) for agent, files in found.items()})


def device(farm: Reading, _: NoQuery, ids: Ids) -> DeviceNow:
    """Return one device with its state now; raises NotFound."""
    found = devices_now(farm.home, farm.store, farm.store.runs(open_only=True))
    meant = next((each for each in found if each.device.id == ids["device_id"]), None)
    if meant is None:
        raise unknown("device", ids["device_id"], SEE_DEVICES)
    return DeviceNow.of(meant)


def history(farm: Reading, asked: PageQuery, ids: Ids) -> HistoryPage:
    """Return the history of a device that registered once, oldest first; raises NotFound."""
    device_id = ids["device_id"]
    known = [*farm.store.fleet()[1], *farm.store.forgotten()]
    if all(each.device.id != device_id for each in known):
        raise unknown("device", device_id, SEE_DEVICES)
    items, following = page_of(
        *(farm.store.placed_history(device_id), itemgetter(0), PLACE_OF_ENTRY, asked),
        size=lambda one: json_bytes(one[1]),
        ids=ids,
    )
    return HistoryPage(items=tuple(entry for _, entry in items), next=following)


def registered(farm: Reading, asked: RegisteredQuery, _: Ids) -> RegisteredDevicePage:
    """Return devices as they registered, with labels, holds and bookings."""
    found = farm.store.forgotten() if asked.forgotten else farm.store.fleet()[1]
    items, following = page_of(found, lambda each: (each.device.id,), (str,), asked)
    return RegisteredDevicePage(items=items, next=following)


def sweep_annotations(farm: Reading, asked: PageQuery, _: Ids) -> AnnotationPage:
    """Return the tags and notes of the sweeps that ever had some, by sweep id."""
    found = farm.store.annotations().values()
    items, following = page_of(found, lambda each: (each.sweep_id,), (str,), asked)
    return AnnotationPage(items=items, next=following)


def spent(farm: Reading, asked: SpentQuery, _: Ids) -> SpentPage:
    """Return the device time of each attempt that ended since a time, oldest first."""
    items, following = page_of(
        *(farm.store.placed_spent(asked.since), itemgetter(0), PLACE_OF_ENDED, asked),
        size=lambda one: json_bytes(one[1]),
    )
    return SpentPage(items=tuple(spent for _, spent in items), next=following)


def took(farm: Reading, asked: TookQuery, _: Ids) -> TookPage:
    """Return how long attempts with a result took, oldest first; see StoreReader.took."""
    kind = Cell(
        workload=asked.workload, stack=asked.stack, scenario=asked.scenario, knobs={}, selector=""
    )
    # The newest attempts change: a cursor also holds the end of the newest one of the first page.
    after = place_of(asked, PLACE_OF_TRY)
    found = farm.store.ended_tries([kind], math.inf if after is None else float(after[0]))
    newest = after[0] if after else max((place.ended_at for place, _ in found), default=0.0)
    items, following = page_of(
        *(found, lambda one: (newest, *one[0]), PLACE_OF_TRY, asked),
        size=lambda one: json_bytes(one[1]),
    )
    return TookPage(items=tuple(took for _, took in items), next=following)


def artefacts(farm: Reading, asked: PageQuery, ids: Ids) -> ArtefactPage:
    """Return the artefacts of one run that agents have announced; raises NotFound."""
    found = farm.store.artefacts(run(farm, NoQuery(), ids).run_id)
    items, following = page_of(
        *(found, lambda one: (one.attempt, one.name), (int, str), asked), ids=ids
    )
    return ArtefactPage(items=items, next=following)
