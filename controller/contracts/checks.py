"""The results of checking a host or a phone, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from controller.contracts.base import Contract


class Health(StrEnum):
    """The result of one check, the worst first."""

    MEND = "mend"
    """Runs fail, or are INVALID, until this is fixed."""
    HINT = "hint"
    """Runs are VALID; fixing this may make figures better or steadier."""
    UNKNOWN = "unknown"
    """The check could not be made here."""
    WELL = "well"


class Check(Contract):
    """One check of `benchfarm doctor` or `benchfarm phone doctor`."""

    what: str
    health: Health
    seen: str
    remedy: str = ""


def worst_first(checks: Iterable[Check]) -> list[Check]:
    """Return the checks with the worst results first."""
    return sorted(checks, key=lambda check: list(Health).index(check.health))
