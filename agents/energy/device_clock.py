"""The offset of a device's uptime from this host's, with its uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agents.energy.trace import EnergyUnknownError, Span
from agents.remotes.remote import Remote, RemoteFault

ASKS: Final = 3
ASK_S: Final = 10.0
MOST_UNSURE_S: Final = 1.0
UPTIME: Final = ("cat", "/proc/uptime")
_TOLD_S: Final = 0.01
"""Resolution of /proc/uptime, which rounds down."""


@dataclass(frozen=True, slots=True)
class Offset:
    """This host's uptime minus the device's: a lower and an upper bound."""

    least_s: float
    most_s: float

    @property
    def middle_s(self) -> float:
        """The middle of the bounds."""
        return (self.least_s + self.most_s) / 2

    @property
    def unsure_s(self) -> float:
        """The largest error of the middle."""
        return (self.most_s - self.least_s) / 2

    def here(self, span: Span) -> Span:
        """Convert a span of the device's uptime to this host's."""
        return Span(span.began_s + self.middle_s, span.ended_s + self.middle_s)


SAME_CLOCK: Final = Offset(0.0, 0.0)


async def ask_offset(remote: Remote, clock: Callable[[], float]) -> Offset:
    """Return a device's offset, from the fastest of a few answers; raises EnergyUnknownError.

    clock: this host's uptime. The device reads its own between the request and the answer.
    """
    return min([await _ask(remote, clock) for _ in range(ASKS)], key=lambda o: o.unsure_s)


async def _ask(remote: Remote, clock: Callable[[], float]) -> Offset:
    asked_s = clock()
    try:
        answer = await remote.run(UPTIME, ASK_S)
    except RemoteFault as fault:
        raise EnergyUnknownError(f"the device's clock could not be read: {fault}") from fault
    answered_s = clock()
    try:
        uptime_s = float(answer.stdout[:64].split()[0])
    except (IndexError, ValueError) as error:
        raise EnergyUnknownError("the device does not tell its uptime") from error
    return Offset(asked_s - uptime_s - _TOLD_S, answered_s - uptime_s)


def throughout(offsets: Sequence[Offset]) -> Offset:
    """Return the offset for the time between several readings; raises EnergyUnknownError.

    It covers all of them, so that a drift between the clocks counts as uncertainty.
    """
    whole = Offset(min(o.least_s for o in offsets), max(o.most_s for o in offsets))
    if not whole.unsure_s <= MOST_UNSURE_S:
        raise EnergyUnknownError(
            f"the device's clock is known to ±{whole.unsure_s:.1f} s only against this host's"
        )
    return whole
