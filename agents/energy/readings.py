"""The sampler's readings of a device. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of a device at one moment."""

    at_s: float
    """Seconds since the first query; negative before it."""
    values: Mapping[str, str]
    """In the sampler's format: see agents/inference/runner/sampler.py."""

    def number(self, name: str) -> float | None:
        """Return a value as a finite number, or None."""
        try:
            value = float(self.values[name])
        except (KeyError, ValueError):
            return None
        return value if math.isfinite(value) else None


def readings_of(text: str, started_uptime_s: float) -> list[Reading]:
    """Parse the sampler's output; an incomplete last round counts as far as it goes."""
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
