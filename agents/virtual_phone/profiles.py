"""Profiles of virtual phones: one YAML file each in `profiles/`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from agents.virtual_phone.battery import Battery
from agents.virtual_phone.errors import PhoneOptionsInvalid
from agents.virtual_phone.faults import Fault
from agents.virtual_phone.thermal import ThermalModel
from controller.contracts.base import Contract
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.unreadable import UNREADABLE, reason

FOLDER = Path(__file__).with_suffix("")
SERIAL = "[A-Za-z0-9_.-]{1,64}"


class CpuProfile(Contract):
    """The host cores of a phone, and how the phone presents them."""

    cores: PositiveInt
    """Number of host cores, unless cores are named at its start."""
    quota: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of those cores; enforced only where a cgroup of version 2 is writable."""
    min_khz: PositiveInt
    max_khz: PositiveInt
    governor: str


class Profile(Contract):
    """A kind of phone; all names in it are invented."""

    serial: Annotated[str, Field(pattern=f"^{SERIAL}$")]
    manufacturer: str
    model: str
    device: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    soc_manufacturer: str
    soc_model: str
    android: str
    api_level: PositiveInt
    abi: str | None = None
    """ABI of its programs, emulated if this host can't run them; default: this host's."""
    old_daemon: bool = False
    """Whether its daemon is Android 5's: no shell v2, no exec."""
    programs: tuple[Annotated[str, Field(pattern=r"^[a-z0-9_.-]{1,64}$")], ...] = ()
    """All programs in its /system/bin besides a shell; default: all of this host and of Android."""
    cpu: CpuProfile
    storage_mib: PositiveInt
    memory_mib: PositiveInt | None = None
    """Memory of its processes, as /proc/meminfo says: with more, the largest is killed, as by
    Android's lmkd. None: this host's."""
    battery: Battery
    thermal: ThermalModel
    battery_zone: str
    """The thermal zone with the battery's temperature."""
    properties: dict[str, str] = {}
    """Further Android properties, or replacements; see `properties_of`."""
    faults: tuple[Fault, ...] = ()
    """Faults from the start, besides those given at its start."""
    settings: dict[str, str] = {}
    """`NAMESPACE/KEY` → output of `settings get NAMESPACE KEY`."""


def names() -> list[str]:
    """Return the names of the built-in profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Profile:
    """Read a built-in profile by name, or a .yaml file; raises PhoneOptionsInvalid."""
    path = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    remedy = f"Choose among {', '.join(names())}, or give a .yaml file."
    try:
        return Profile.model_validate(load_yaml(read_limited(path)))
    except UNREADABLE as error:
        raise PhoneOptionsInvalid(f"read profile {name!r}", reason(error), remedy) from error
