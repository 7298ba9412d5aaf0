"""What people type for a device or a sweep: an id, a name, or the beginning of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controller.contracts.device import RegisteredAgent, RegisteredDevice, shown_names
from controller.contracts.device_names import HOSTNAME, host_of
from controller.contracts.errors import NotFound, UserError
from controller.contracts.records import ADMIN, SweepRecord
from controller.contracts.spelling import did_you_mean

SHOWN: Final = 5
"""Devices or sweeps that an error names."""
LONGEST_TYPED: Final = 200
CUT: Final = "…"
"""The end of a short id, which may be typed as it is shown."""


_LISTS: Final = {
    "agent": "benchfarm agent list",
    "device": "benchfarm device list",
    "sweep": "benchfarm sweep status",
    "run": "benchfarm results list",
    "session": "benchfarm suite status",
}


@dataclass(frozen=True, slots=True)
class Referent:
    """Something that can be typed. words: its names, besides its id; label: what errors call it."""

    id: str
    words: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class SweepReferent:
    """A sweep that can be typed."""

    id: str
    name: str
    user: str

    @staticmethod
    def of(record: SweepRecord) -> SweepReferent:
        """Return that of a record."""
        return SweepReferent(record.sweep_id, record.sweep.name, record.user)


@dataclass(frozen=True, slots=True)
class FoundSweep:
    """The sweep that was meant. note: which it is, if a name was typed; else empty."""

    id: str
    note: str = ""


def find_agent(
    given: str, agents: Iterable[RegisteredAgent], devices: Iterable[RegisteredDevice]
) -> str:
    """Return the id of the agent that is meant, by its id or its host.

    Raises NotFound, also for the name of a device, and UserError if several may be meant.
    """
    known = [
        Referent(one.id, (one.host, host_of({HOSTNAME: one.host})), f"{one.id} on {one.host}")
        for one in (registered.agent for registered in agents)
    ]
    try:
        return _find("agent", given, known)
    except NotFound as unknown:
        raise _device_instead(given, list(devices)) or unknown from None


def find_device(given: str, devices: Iterable[RegisteredDevice]) -> str:
    """Return the id of the device that is meant; raises NotFound, UserError if several may be."""
    return _find("device", given, referents_of(devices))


def referents_of(devices: Iterable[RegisteredDevice]) -> list[Referent]:
    """Return what can be typed for each device: its id, its name and its host's."""
    known = [registered.labelled for registered in devices]
    shown = shown_names(known)
    found = []
    for device in known:
        id_, name = device.id, shown[device.id]
        words = (device.name, name, device.facts.get(HOSTNAME), host_of(device.facts))
        label = name if name == id_ else f"{name} ({id_})"
        found.append(Referent(id_, tuple(str(word) for word in words if word), label))
    return found


def find_sweep(given: str, sweeps: Iterable[SweepReferent], user: str) -> FoundSweep:
    """Return the sweep that a user means: an id, the newest of a name, or the beginning of an id.

    sweeps: in the order of their submission, as the store has them: their times are by the head's
    clock, which may have been set. Only the administrator finds other users' sweeps, after their
    own. Raises NotFound, and UserError if several may be meant.
    """
    mine = [sweep for sweep in sweeps if user in (ADMIN, sweep.user)]
    if all(sweep.id != given for sweep in mine) and (
        named := [sweep for sweep in mine if sweep.name == given]
    ):
        newest = ([sweep for sweep in named if sweep.user == user] or named)[-1]
        return FoundSweep(newest.id, _said(given, newest, named, user))
    newest_first = mine[::-1]
    referents = [Referent(sweep.id) for sweep in newest_first]
    return FoundSweep(_find("sweep", given, referents, [sweep.name for sweep in newest_first]))


def find_run(given: str, run_ids: Iterable[str]) -> str:
    """Return the id of the run that is meant; raises NotFound, UserError if several may be."""
    return _find("run", given, [Referent(id_) for id_ in run_ids])


def find_session(given: str, sessions: Iterable[str]) -> str:
    """Return the id of the suite's session that is meant; raises as find_run does."""
    return _find("session", given, [Referent(id_) for id_ in sessions])


def _device_instead(given: str, devices: Sequence[RegisteredDevice]) -> UserError | None:
    """Return the error for a device that is named where an agent is asked for."""
    try:
        id_ = find_device(given, devices)
    except UserError:
        return None
    owner = next(d.agent_id for d in devices if d.device.id == id_)
    remedy = f"Name {owner}; for the device alone, run `benchfarm device maintain {id_} --for 2h`."
    tried = f"find agent {given[:LONGEST_TYPED]}"
    return UserError(tried, f"it is a device of agent {owner}", remedy)


def _said(given: str, newest: SweepReferent, named: Sequence[SweepReferent], user: str) -> str:
    whose = "" if newest.user == user else f" of {newest.user}"
    among = f", the newest of {len(named)}" if len(named) > 1 else ""
    return f"sweep {given} is {newest.id}{whose}{among}"


def _find(noun: str, given: str, known: Sequence[Referent], names: Sequence[str] = ()) -> str:
    """Return the id of what is meant; names: other words that may be misspelt."""
    tried = f"find {noun} {given[:LONGEST_TYPED]}"
    if not given:
        raise NotFound(f"find the {noun}", "its id is empty", f"Run `{_LISTS[noun]}`.")
    start = given.removesuffix(CUT) or given
    tiers = (
        [one for one in known if one.id == given],
        [one for one in known if given in one.words],
        [one for one in known if any(word.startswith(start) for word in (one.id, *one.words))],
    )
    meant = next((tier for tier in tiers if tier), [])
    if len(meant) == 1:
        return meant[0].id
    if meant:
        raise UserError(tried, f"it could be {_listed(meant)}", "Type more of its id.")
    words = [word for one in known for word in (one.id, *one.words)]
    near = did_you_mean(given, dict.fromkeys([*words, *names]))
    said = f"Known: {_listed(known)}." if known else "Known: none yet."
    raise NotFound(tried, f"there is no such {noun}", f"{near}{said}")


def _listed(found: Sequence[Referent]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(one.label or one.id for one in found[:SHOWN]) + more
