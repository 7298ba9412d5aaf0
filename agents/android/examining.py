"""Looking at a phone for `benchfarm phone doctor`: asks it, and uses it as a run does."""

from __future__ import annotations

from agents.android.doctor import SETTINGS, checks, settings_of
from agents.android.policy import Policy
from agents.android.requirements_check import bundle_checks
from agents.android.transport import read_conditions
from agents.transports.adb.facts import read_device
from agents.transports.adb.remote import AdbRemote
from agents.transports.examination import examine
from agents.transports.remote import RemoteFault
from controller.contracts.adb_status import Check, Health, worst_first

ASK_S = 15.0
WHAT = "storage and programs"
REMEDY = "free space on /data, or use a phone on which adb may run programs there"


async def looked_at(remote: AdbRemote, place: str, policy: Policy) -> list[Check]:
    """Return what is well and what is to be mended; raises RemoteFault if it can't be asked."""
    device = await read_device(remote, place, shell_v2=True)
    said = await remote.run(SETTINGS, ASK_S)
    conditions = await read_conditions(remote, ASK_S, cores=device.attribute("cores"))
    settings = settings_of(said.stdout.decode(errors="replace"))
    used = await _used(remote, place)
    sdk, release = device.facts.get("sdk"), str(device.facts.get("android", "Android"))
    level = sdk if isinstance(sdk, int) else None
    found = checks(conditions, release, level, settings, used, policy)
    return worst_first([*found, *await bundle_checks(remote, place, device.architecture)])


async def _used(remote: AdbRemote, place: str) -> Check:
    try:
        seen = await examine(remote, remote.folder, place)
    except RemoteFault as fault:
        return Check(what=WHAT, health=Health.MEND, seen=fault.message, remedy=REMEDY)
    return Check(what=WHAT, health=Health.WELL, seen=seen)
