"""Tables of delegates by device. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from controller.contracts.capability import Capability
from controller.reports.views.model import DelegateColumn, DelegateRow, DelegateTable, DeviceName

DEVICES_A_TABLE = 4
"""Most columns of text that fit on a printed page."""
Place = tuple[str, str]
"""A device and the build of its system."""


def delegates_of(
    capabilities: Sequence[Capability], names: Mapping[str, DeviceName]
) -> tuple[DelegateTable, ...]:
    """Return tables of the delegates that were asked for; names: by device id.

    A device has a column for each build of its system.
    """
    places = list(dict.fromkeys((one.device, one.build) for one in capabilities))
    places.sort(key=lambda place: (names[place[0]].virtual, place[0]))
    builds = Counter(device for device, _ in places)
    tables = range(0, len(places), DEVICES_A_TABLE)
    return tuple(
        _table(places[start : start + DEVICES_A_TABLE], builds, capabilities, names)
        for start in tables
    )


def _table(
    places: Sequence[Place],
    builds: Mapping[str, int],
    capabilities: Sequence[Capability],
    names: Mapping[str, DeviceName],
) -> DelegateTable:
    columns = tuple(
        DelegateColumn(names[device], (build or "build unknown") if builds[device] > 1 else "")
        for device, build in places
    )
    return DelegateTable(columns, tuple(_rows(places, capabilities)))


def _rows(places: Sequence[Place], capabilities: Sequence[Capability]) -> Iterator[DelegateRow]:
    found = {
        (_kind(one), (one.device, one.build)): one
        for one in capabilities
        if (one.device, one.build) in places
    }
    for kind in sorted({kind for kind, _ in found}):
        yield DelegateRow(kind, tuple(found.get((kind, place)) for place in places))


def _kind(one: Capability) -> tuple[str, str, str, str]:
    return one.workload, one.stack, one.delegate, one.numerics
