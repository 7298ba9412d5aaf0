"""Reading the conditions of a phone through its Remote."""

from __future__ import annotations

from agents.phones.conditions import (
    BATTERY,
    OTHERS,
    THERMAL,
    battery_facts,
    other_facts,
    thermal_facts,
)
from agents.remotes.adb.facts import MAX_SAID
from agents.remotes.remote import Completed, Remote, run_own
from controller.contracts.base import Scalar

ASK_S = 15.0


async def read_conditions(
    remote: Remote, ask_s: float = ASK_S, cores: object = None
) -> dict[str, Scalar]:
    """Return a phone's conditions; ask_s: deadline of each command. Raises RemoteFault."""
    battery = await run_own(remote, BATTERY, ask_s)
    thermal = await run_own(remote, THERMAL, ask_s)
    others = await run_own(remote, OTHERS, ask_s)
    known = cores if isinstance(cores, int) else None
    of_battery = battery_facts(_words(battery))
    level = of_battery.get("battery_percent")
    percent = level if isinstance(level, int) else None
    return {
        **of_battery,
        **thermal_facts(_words(thermal)),
        **other_facts(_words(others), known, percent),
    }


def _words(said: Completed) -> str:
    """Return the output of a command on the phone, limited in length."""
    return said.stdout[:MAX_SAID].decode(errors="replace")
