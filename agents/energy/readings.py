"""What the sampler beside a run read of the device. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """What a device said of itself at one moment."""

    at_s: float
    """Seconds since the first query; negative before it."""
    values: Mapping[str, str]
    """As the sampler prints them: see agents/inference/runner/sampler.py."""

    def number(self, name: str) -> float | None:
        """Return a value that is a finite number, None if none was read."""
        try:
            value = float(self.values[name])
        except (KeyError, ValueError):
            return None
        return value if math.isfinite(value) else None


def readings_of(text: str, started_uptime_s: float) -> list[Reading]:
    """Read what the sampler wrote; a last round that is cut off counts as far as it goes."""
    found: list[Reading] = []
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "at":
            try:
                at_s = float(value) - started_uptime_s
            except ValueError:
                break
            values = {}
            found.append(Reading(at_s, values))
        elif found and value:
            values[name] = value.strip()
    return found
