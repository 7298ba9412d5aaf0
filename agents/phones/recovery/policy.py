"""What is done for a phone that can't be reached, one rung after another. Pure.

adb connects anew, then adb's server is restarted, then a command of the user's cycles the phone's
power; between these and after them the phone is only probed, until it is given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agents.remotes.remote import FaultKind

PROBES = 11
"""How often a phone is looked for; the pauses double, 17 minutes in all."""
RECONNECTS = 3
"""So many fail before anything is done that more than this phone would notice."""
RESTARTS = 1
CYCLES = 2
RESTARTS_AN_HOUR = 3
"""Of one adb server, for all its phones together."""
CYCLES_AN_HOUR = 4
"""Of one phone: one that goes again and again is not worn out."""
IN_USE = "adb is not restarted while another phone is in use"
CURABLE = frozenset({FaultKind.OFFLINE, FaultKind.HUNG, FaultKind.ADB_SERVER, FaultKind.PROTOCOL})
"""Faults of the way to a phone; a full storage is not emptied by a restart."""


class Remedy(StrEnum):
    """A rung."""

    RECONNECT = "reconnect"
    RESTART_ADB = "restart adb"
    POWER_CYCLE = "power cycle"


@dataclass(frozen=True, slots=True)
class Means:
    """What could be done for a phone now."""

    own_server: bool
    """Its adb server is this agent's."""
    in_use: bool
    """Something uses a phone of that server."""
    restarts: int
    """Of that server in the last hour."""
    command: bool
    """The user has given one that cycles a phone's power."""
    cycles: int
    """Of this phone's power in the last hour."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is done next."""

    remedy: Remedy | None
    """None: the phone is given up."""
    left_out: tuple[str, ...] = ()
    """Why a rung that comes before it is left out for now."""


def next_step(failed: Sequence[Remedy], kind: FaultKind, means: Means) -> Step:
    """Return what to do for a phone after so much has failed, the last time with this fault."""
    if kind is FaultKind.UNAUTHORIZED or len(failed) >= PROBES:
        return Step(None)  # adb tells when the phone's user has let this host in
    if kind not in CURABLE or failed.count(Remedy.RECONNECT) < RECONNECTS:
        return Step(Remedy.RECONNECT)
    left_out: list[str] = []
    for remedy, times, objection in _rungs(means):
        if failed.count(remedy) >= times or failed[-1] is remedy:
            continue
        if not objection:
            return Step(remedy, tuple(left_out))
        left_out.append(objection)
    return Step(Remedy.RECONNECT, tuple(left_out))


def _rungs(means: Means) -> Iterator[tuple[Remedy, int, str]]:
    """Yield each remedy above reconnecting, how often it is tried, and what speaks against it."""
    yield Remedy.RESTART_ADB, RESTARTS, _against_restart(means)
    if means.command:
        often = f"its power is not cycled more than {CYCLES_AN_HOUR} times an hour"
        yield Remedy.POWER_CYCLE, CYCLES, often if means.cycles >= CYCLES_AN_HOUR else ""


def _against_restart(means: Means) -> str:
    if not means.own_server:
        return "adb is not restarted: its server is not this agent's"
    if means.in_use:
        return IN_USE
    if means.restarts >= RESTARTS_AN_HOUR:
        return f"adb is not restarted more than {RESTARTS_AN_HOUR} times an hour"
    return ""
