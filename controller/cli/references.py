"""What users type for devices and sweeps, found in this home's store or asked of the farm."""

from __future__ import annotations

from controller.cli.common import farm_elsewhere, home, reading
from controller.contracts.device import RegisteredDevice, shown_names
from controller.contracts.errors import NotFound
from controller.contracts.records import ADMIN, SweepRecord
from controller.platform.terminal import say
from controller.runtime.client import FarmClient
from controller.runtime.health import is_hopeless
from controller.scheduling.references import SweepReferent, find_device, find_sweep
from controller.store.protocol import StoreReader


def device_of(store: StoreReader, given: str, *, or_forgotten: bool = False) -> RegisteredDevice:
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


def record_of(store: StoreReader, given: str) -> SweepRecord:
    """Return the sweep that is meant, and say which if its name was typed.

    Raises NotFound, UserError if several may be.
    """
    records = {record.sweep_id: record for record in store.sweeps()}
    found = find_sweep(given, map(SweepReferent.of, records.values()), ADMIN)
    if found.note:
        say(found.note, err=True)
    return records[found.id]


def sweep_id_of(given: str) -> str:
    """Return the id of the sweep that is meant, here or on the farm elsewhere.

    Raises NotFound, NotAllowed, UserError if several may be.
    """
    if farm_elsewhere():
        found = FarmClient(home()).sweep_status(given).sweep_id
        if found != given:
            say(f"sweep {given} is {found}", err=True)
        return found
    if not home().store.is_file():
        return given  # the client says that there is no farm
    with reading() as store:
        try:
            return record_of(store, given).sweep_id
        except NotFound:
            if not (store.damage() or is_hopeless(home())):
                raise
            return given  # the client says that the farm has ended, or the controller knows more


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
