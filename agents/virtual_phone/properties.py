"""A phone's Android properties (`getprop`)."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from agents.virtual_phone.emulation import ABIS, Emulator
from agents.virtual_phone.profiles import Profile

VIRTUAL = "ro.benchfarm.virtual"
"""Property of virtual phones; its value is 1."""
HOST_CORES = "ro.benchfarm.host_cores"
"""Property with the host cores that it uses, such as 0,1."""
EMULATED = "ro.benchfarm.emulated"
"""Property that names the emulator of its processor; absent without one."""
_IN_BANNER = ("ro.product.name", "ro.product.model", "ro.product.device")


def properties_of(
    profile: Profile,
    serial: str,
    cores: Iterable[int] = (),
    emulator: Emulator | None = None,
    *,
    locked: bool,
) -> dict[str, str]:
    """Return all properties; the ABI is that of its programs, emulated or not.

    A profile replaces any of them but those that say what the phone is.
    """
    abi = profile.abi or ABIS.get(platform.machine(), platform.machine())
    build = f"benchfarm-virtual-{profile.api_level}"
    name = f"{profile.manufacturer.lower()}/{profile.device}/{profile.device}"
    usual = {
        "ro.serialno": serial,
        "ro.boot.serialno": serial,
        "ro.product.manufacturer": profile.manufacturer,
        "ro.product.brand": profile.manufacturer,
        "ro.product.model": profile.model,
        "ro.product.name": profile.device,
        "ro.product.device": profile.device,
        "ro.product.board": profile.device,
        "ro.product.cpu.abi": abi,
        "ro.product.cpu.abilist": abi,
        "ro.soc.manufacturer": profile.soc_manufacturer,
        "ro.soc.model": profile.soc_model,
        "ro.board.platform": profile.soc_model.lower().replace(" ", "_"),
        "ro.hardware": "virtual",
        "ro.build.id": build,
        "ro.build.type": "user",
        "ro.build.tags": "test-keys",
        "ro.build.version.release": profile.android,
        "ro.build.version.sdk": str(profile.api_level),
        "ro.build.fingerprint": f"{name}:{profile.android}/{build}/1:user/test-keys",
        "ro.debuggable": "0",
        "ro.secure": "1",
        "ro.adb.secure": "1" if locked else "0",
        "sys.boot_completed": "1",
    }
    emulated = {EMULATED: emulator.words} if emulator else {}
    marks = {VIRTUAL: "1", HOST_CORES: ",".join(map(str, sorted(cores))), **emulated}
    return usual | profile.properties | marks


def banner(properties: dict[str, str], features: tuple[str, ...]) -> bytes:
    """Return the CNXN banner that describes the phone to an adb server."""
    facts = [f"{name}={properties[name]}" for name in _IN_BANNER]
    if features:
        facts.append(f"features={','.join(features)}")
    return f"device::{';'.join(facts)}".encode()
