"""What kinds of virtual phones there are: one YAML file each in `profiles/`."""

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
    """The part of the host a phone gets, and how it presents it."""

    cores: PositiveInt
    """Host cores it is pinned to, unless others are named at its start."""
    quota: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of those cores; enforced only where a cgroup of version 2 can be written."""
    min_khz: PositiveInt
    max_khz: PositiveInt
    governor: str


class Profile(Contract):
    """A kind of phone; every name in it is invented."""

    serial: Annotated[str, Field(pattern=f"^{SERIAL}$")]
    manufacturer: str
    model: str
    device: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    soc_manufacturer: str
    soc_model: str
    android: str
    api_level: PositiveInt
    abi: str | None = None
    """What its programs are built for; where this host can't run them, they are emulated. Without:
    what this host runs."""
    old_daemon: bool = False
    """Speaks as Android 5 does: no shell v2, no exec."""
    programs: tuple[Annotated[str, Field(pattern=r"^[a-z0-9_.-]{1,64}$")], ...] = ()
    """All that its /system/bin has beside a shell, and nothing else has any; without, all that this
    host and Android have."""
    cpu: CpuProfile
    storage_mib: PositiveInt
    battery: Battery
    thermal: ThermalModel
    battery_zone: str
    """The thermal zone that is the battery's temperature."""
    properties: dict[str, str] = {}
    """Further Android properties, or other values of the usual ones."""
    faults: tuple[Fault, ...] = ()
    """What is wrong with it from the start, beside what its starter names."""
    settings: dict[str, str] = {}
    """What `settings get NAMESPACE KEY` says, as `NAMESPACE/KEY`."""


def names() -> list[str]:
    """Return the names of the built-in profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Profile:
    """Read a built-in profile by its name, or a .yaml file; raises PhoneOptionsInvalid."""
    path = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    remedy = f"Choose among {', '.join(names())}, or give a .yaml file."
    try:
        return Profile.model_validate(load_yaml(read_limited(path)))
    except UNREADABLE as error:
        raise PhoneOptionsInvalid(f"read profile {name!r}", reason(error), remedy) from error
