"""One check of a figure in LoadGen's logs, and what it found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from controller.contracts.base import Contract
from controller.loadgen.texts import brief

DIGITS: Final = 6
"""Significant digits of LoadGen's floating-point numbers, as C++ prints them by default."""


LONGEST: Final = 240
"""Characters of a text that a table repeats: LoadGen's on early stopping has fewer."""


class Verdict(StrEnum):
    """What a check found."""

    SAME = "same"
    DIFFERS = "differs"
    UNCHECKED = "can't be checked"


class Check(Contract):
    """One figure: what a file says of it, and what it is by all else."""

    figure: str
    """Its key in the detail log; of a stored result, the name of the metric or fact."""
    says: str
    recomputed: str
    verdict: Verdict
    by: str
    """What it was compared with; why it can't be checked."""


class VerifiedLogs(Contract):
    """The logs of one test, and what checking them found."""

    where: str
    """Their folder, or the run and its mode."""
    unreadable: str | None = None
    """Why they can't be read; then there are no checks."""
    checks: tuple[Check, ...] = ()


def equal(figure: str, says: object, recomputed: object, by: str) -> Check:
    """Return the check of a figure that has to be exactly this."""
    same = type(says) is type(recomputed) and says == recomputed
    if isinstance(says, float) or isinstance(recomputed, float):
        same = not isinstance(says, bool) and says == recomputed
    return _check(figure, plain(says), plain(recomputed), by, same=same)


def printed_equal(figure: str, says: float, exact: float, by: str) -> Check:
    """Return the check of a number that LoadGen prints with DIGITS digits."""
    said, expected = (f"{value:.{DIGITS}g}" for value in (says, exact))
    return _check(figure, said, expected, by, same=said == expected)


def within(figure: str, says: float, low: float, high: float, by: str) -> Check:
    """Return the check of a number that lies between two others."""
    bounds = f"{plain(low)} to {plain(high)}" if low != high else plain(low)
    return _check(figure, plain(says), bounds, by, same=low <= says <= high)


def at_least(figure: str, says: float, least: float, by: str) -> Check:
    """Return the check of a number that has a lower bound."""
    return _check(figure, plain(says), f"at least {plain(least)}", by, same=says >= least)


def unchecked(figure: str, says: object, why: str) -> Check:
    """Return a check that can't be made."""
    said = "" if says is None else plain(says)
    return Check(figure=figure, says=said, recomputed="", verdict=Verdict.UNCHECKED, by=why)


def judged(figure: str, says: object, recomputed: object, by: str, *, same: bool) -> Check:
    """Return a check that its caller has decided."""
    return _check(figure, plain(says), plain(recomputed), by, same=same)


def _check(figure: str, says: str, recomputed: str, by: str, *, same: bool) -> Check:
    verdict = Verdict.SAME if same else Verdict.DIFFERS
    return Check(figure=figure, says=says, recomputed=recomputed, verdict=verdict, by=by)


def plain(value: object) -> str:
    """Return a value as a table shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        whole = math.isfinite(value) and value.is_integer() and abs(value) < 2**53
        return str(int(value)) if whole else f"{value:.9g}"
    return brief(value, LONGEST)


def differs(checks: Iterable[Check]) -> bool:
    """Return whether any figure differs."""
    return any(check.verdict is Verdict.DIFFERS for check in checks)
