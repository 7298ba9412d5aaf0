"""The names by which devices are shown to people. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

HOSTNAME: Final = "hostname"
"""The fact that has a server's name."""
BETWEEN: Final = " · "
SHORT_ID: Final = 8
"""Characters of a server's id beside the name of its host."""
LONGEST_HOST: Final = 32
Names = Mapping[str, str]
"""The shown name of each device, by its id."""


def shown_name(device_id: str, facts: Mapping[str, object], given: str | None = None) -> str:
    """Return a device's name for people: the given one, else its host's and its short id.

    facts: its own, or the environment of its results; a phone's have no host. Without a host, it is
    the id.
    """
    if given:
        return given
    host = host_of(facts)
    return f"{host}{BETWEEN}{_short(device_id)}" if host else device_id


def told_apart(devices: Iterable[tuple[str, Mapping[str, object], str | None]]) -> dict[str, str]:
    """Return the shown name of each device by its id; equal ones get the whole id.

    devices: the arguments of `shown_name` for each.
    """
    names = {id_: shown_name(id_, facts, given) for id_, facts, given in devices}
    times = Counter(names.values())
    return {
        id_: name if times[name] == 1 or name == id_ else f"{name.split(BETWEEN)[0]}{BETWEEN}{id_}"
        for id_, name in names.items()
    }


def host_of(facts: Mapping[str, object]) -> str:
    """Return a host's name without its domain, from a device's facts; empty if it has none."""
    host = str(facts.get(HOSTNAME) or "")
    first = host.partition(".")[0]
    short = host if first.isdigit() else first  # an address has no domain
    return short if len(short) <= LONGEST_HOST else f"{short[: LONGEST_HOST - 1]}…"


def _short(device_id: str) -> str:
    return device_id if len(device_id) <= SHORT_ID + 1 else f"{device_id[:SHORT_ID]}…"
