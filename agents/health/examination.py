"""The checks of `benchfarm phone doctor`: queries the phone, and uses it as a run does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agents.inference.requirements_check import bundle_checks
from agents.phones import doctor, settings
from agents.phones.condition_reading import read_conditions
from agents.phones.kept_settings import KeptFile
from agents.phones.modes import mode_checks
from agents.remotes.adb.facts import read_device
from agents.remotes.adb.refusals import DEVICE
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.remote import RemoteFault
from agents.remotes.self_test import examine
from controller.contracts.adb_status import PhoneResult
from controller.contracts.checks import Check, Health, worst_first
from controller.contracts.device import Device
from controller.contracts.errors import PhoneUnavailable
from controller.contracts.policy import Policy

ASK_S = 15.0
WHAT = "storage and programs"
REMEDY = "Free space on /data, or use a phone on which adb may run programs there."


@dataclass(frozen=True, slots=True)
class Patient:
    """A phone that answers, with its facts and settings."""

    remote: AdbRemote
    place: str
    policy: Policy
    device: Device
    settings: dict[str, str]
    networked: bool
    kept: KeptFile

    @property
    def sdk(self) -> int | None:
        """Its API level."""
        level = self.device.facts.get("sdk")
        return level if isinstance(level, int) else None


Source = Callable[[Patient], Awaitable[Sequence[Check]]]
"""Makes one kind of check; raises RemoteFault if the phone doesn't answer."""


async def looked_at(
    remote: AdbRemote, place: str, policy: Policy, kept: KeptFile, *, networked: bool
) -> PhoneResult:
    """Return every check of a phone, and the settings that adb can change to pass them.

    kept: the settings changed before. Raises RemoteFault if the phone doesn't answer.
    """
    device = await read_device(remote, place, shell_v2=True)
    said = await remote.run(doctor.SETTINGS, ASK_S)
    told = doctor.settings_of(said.stdout.decode(errors="replace"))
    patient = Patient(remote, place, policy, device, told, networked, kept)
    found = [check for source in SOURCES for check in await source(patient)]
    offered = settings.offers(policy, told, patient.sdk, networked=networked)
    return PhoneResult(checks=tuple(worst_first(found)), offers=tuple(offered))


async def _mode(patient: Patient) -> Sequence[Check]:
    listed = mode_checks(DEVICE)
    developer = doctor.developer_options(patient.settings)
    return [*(check for check in listed if check.what != developer.what), developer]


async def _used(patient: Patient) -> Sequence[Check]:
    remote = patient.remote
    try:
        seen = await examine(remote, remote.folder, patient.place)
    except RemoteFault as fault:
        return [Check(what=WHAT, health=Health.MEND, seen=fault.message, remedy=REMEDY)]
    return [Check(what=WHAT, health=Health.WELL, seen=seen)]


async def _judged(patient: Patient) -> Sequence[Check]:
    cores = patient.device.attribute("cores")
    conditions = await read_conditions(patient.remote, ASK_S, cores=cores)
    release = str(patient.device.facts.get("android", "Android"))
    return doctor.checks(conditions, release, patient.sdk, patient.settings, patient.policy)


async def _changed(patient: Patient) -> Sequence[Check]:
    """List the settings that were changed and not restored."""
    try:
        kept = patient.kept.read().kept
    except PhoneUnavailable as error:
        return [Check(what="set", health=Health.MEND, seen=error.seen, remedy=error.remedy)]
    if not kept:
        return []
    seen = ", ".join(f"{one.key} {one.ours}" for one in kept)
    remedy = f"When you are done, run `benchfarm phone restore {patient.device.id}`."
    return [Check(what="set", health=Health.WELL, seen=seen, remedy=remedy)]


async def _bundles(patient: Patient) -> Sequence[Check]:
    return await bundle_checks(patient.remote, patient.place, patient.device.architecture)


SOURCES: tuple[Source, ...] = (_mode, _used, _judged, _bundles, _changed)
"""Every check of a phone; add new ones here."""
