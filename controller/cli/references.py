"""What users type for devices and sweeps, found in this home's store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.cli.common import context_elsewhere, farm_elsewhere, reading, reading_here
from controller.contracts.device import DeviceKind, RegisteredDevice, shown_names
from controller.contracts.errors import HomeUnusable, NotFound, UserError
from controller.contracts.records import ADMIN, SweepRecord
from controller.platform.terminal import say
from controller.scheduling.references import SweepReferent, find_device, find_run, find_sweep

if TYPE_CHECKING:
    from controller.store.protocol import FarmReader


def device_of(store: FarmReader, given: str, *, or_forgotten: bool = False) -> RegisteredDevice:
    """Return the device that is meant; raises NotFound, UserError if several may be."""
    ever = store.fleet()[1] + (store.forgotten() if or_forgotten else [])
    known = {registered.device.id: registered for registered in ever}
    return known[find_device(given, known.values())]


def device_id_of(given: str) -> str:
    """Return the id of the device that is meant; raises as device_of does.

    With a farm elsewhere, whose devices are not known here, it is what was typed.
    """
    if farm_elsewhere():
        return given
    with reading() as store:
        return device_of(store, given).device.id


def phone_of(given: str) -> str:
    """Return the id of the phone that has a name; else what was typed, such as an adb serial.

    Only whole names count: the beginning of one may be the serial of a phone that is new here.
    Raises UserError if several phones have the name.
    """
    if farm_elsewhere() or context_elsewhere():
        return given
    try:
        with reading_here() as store:
            known = [each for each in store.fleet()[1] if each.device.kind is DeviceKind.ANDROID]
    except (NotFound, HomeUnusable):  # no names are known
        return given
    if any(each.device.id == given for each in known):
        return given
    named = [each.device.id for each in known if each.labelled.name == given]
    if len(named) > 1:
        seen = f"{len(named)} phones have this name: {', '.join(named)}"
        raise UserError(f"find phone {given}", seen, "Give its id.")
    return named[0] if named else given


def record_of(store: FarmReader, given: str) -> SweepRecord:
    """Return the sweep that is meant, and say which if its name was typed.

    Raises NotFound, UserError if several may be.
    """
    records = {record.sweep_id: record for record in store.sweeps()}
    found = find_sweep(given, map(SweepReferent.of, records.values()), ADMIN)
    if found.note:
        say(found.note, err=True)
    return records[found.id]


def run_id_of(store: FarmReader, given: str) -> str:
    """Return the id of the run that is meant, which may be given by its beginning.

    Raises NotFound, UserError if several may be.
    """
    if store.run(given):
        return given
    return find_run(given, dict.fromkeys(o.run_id for o in (*store.results(), *store.failures())))


class DeviceNames:
    """The names of this home's devices for people; read again for one that is new."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __call__(self, device_id: str) -> str:
        """Return a device's name, or its id if it is unknown."""
        if device_id not in self._names:
            with reading() as store:
                self._names = shown_names(known.labelled for known in store.fleet()[1])
        return self._names.setdefault(device_id, device_id)
