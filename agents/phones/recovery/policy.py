"""The recovery policy: which action comes next for a phone that can't be reached. Pure.

First adb reconnects, then adb's server is restarted, then the user's command cycles the phone's
power; between and after these the phone is only reconnected, until it is given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agents.remotes.remote import FaultKind

PROBES = 11
"""Attempts to reach a phone; the pauses double, 17 minutes in all."""
RECONNECTS = 3
"""Failed reconnects before an action that other phones may notice."""
RESTARTS = 1
CYCLES = 2
RESTARTS_AN_HOUR = 3
"""Restarts of one adb server, for all its phones together."""
CYCLES_AN_HOUR = 4
"""Power cycles of one phone, so that a phone that keeps vanishing is not worn out."""
IN_USE = "adb is not restarted while another phone is in use"
CURABLE = frozenset({FaultKind.OFFLINE, FaultKind.HUNG, FaultKind.ADB_SERVER, FaultKind.PROTOCOL})
"""Faults of the connection; other faults, such as a full storage, no restart cures."""


class Remedy(StrEnum):
    """A recovery action."""

    RECONNECT = "reconnect"
    RESTART_ADB = "restart adb"
    POWER_CYCLE = "power cycle"


@dataclass(frozen=True, slots=True)
class Means:
    """The recovery actions that are possible for a phone now."""

    own_server: bool
    """Whether the adb server is this agent's own."""
    in_use: bool
    """Whether something uses a phone of that server."""
    restarts: int
    """Restarts of that server in the last hour."""
    command: bool
    """Whether the user has set a power-cycle command."""
    cycles: int
    """Power cycles of this phone in the last hour."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next recovery action."""

    remedy: Remedy | None
    """None: the phone is given up."""
    left_out: tuple[str, ...] = ()
    """Why earlier actions are left out for now."""


def next_step(failed: Sequence[Remedy], kind: FaultKind, means: Means) -> Step:
    """Return the next action after these failed, the last one with a fault of this kind."""
    if kind is FaultKind.UNAUTHORIZED or len(failed) >= PROBES:
        return Step(None)  # adb reports when the user has authorised this host
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
    """Yield each action beyond reconnecting, how often it is tried, and an objection to it or
    ""."""
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
