"""What came of looking at a host or a phone, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from controller.contracts.base import Contract


class Health(StrEnum):
    """What came of looking at one thing, the worst first."""

    MEND = "mend"
    """Runs fail, or are INVALID, until it is mended."""
    HINT = "hint"
    """Runs are VALID; their figures may be better, or steadier."""
    UNKNOWN = "unknown"
    """Nothing here tells."""
    WELL = "well"


class Check(Contract):
    """One thing that `benchfarm doctor` or `benchfarm phone doctor` has looked at."""

    what: str
    health: Health
    seen: str
    remedy: str = ""


def worst_first(checks: Iterable[Check]) -> list[Check]:
    """Return what is to be mended first, and what is well last."""
    return sorted(checks, key=lambda check: list(Health).index(check.health))
