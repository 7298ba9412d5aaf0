"""Attempts of this host that wait for a core that a process of another farm holds."""

from __future__ import annotations

from typing import Final

from controller.contracts.wire import WAIT_FOR_CORE, AttemptRef, HeldUp, Progress
from controller.platform.terminal import visible

LONGEST: Final = 300
"""Characters of a reason that are sent."""


class HeldUpAttempts:
    """What attempts wait for, from their progress."""

    def __init__(self) -> None:
        self._why: dict[AttemptRef, str] = {}

    def progressed(self, ref: AttemptRef, progress: Progress) -> None:
        """Note what an attempt waits for, or that it has gone on."""
        if progress.phase.startswith(WAIT_FOR_CORE):
            self._why[ref] = visible(progress.phase)[:LONGEST]
        else:
            self.ended(ref)

    def ended(self, ref: AttemptRef) -> None:
        """Forget an attempt."""
        self._why.pop(ref, None)

    def now(self) -> tuple[HeldUp, ...]:
        """Return the attempts that wait now."""
        return tuple(HeldUp(ref=ref, why=why) for ref, why in self._why.items())
