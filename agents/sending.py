"""What an agent does next about a file that it sends to the head. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller.contracts.artefacts import ArtefactReceipt
from controller.platform.frames import FRAME_BYTES

PART_FRAMES: Final = 8
"""Frames that are sent at once: half a MiB, in which no run begins unnoticed for long."""
MOST_STALLS: Final = 5
"""Parts in a row that added nothing, after which a file is left for later."""


class Step(StrEnum):
    """What is done next."""

    SEND = "send"
    """Send the part that follows on what the head has."""
    WAIT = "wait"
    """Ask again later: a run measures on the head's host."""
    DONE = "done"
    REFUSED = "refused"
    DAMAGED = "damaged"
    """It is refused, but may be sent anew: what had arrived was damaged at the head."""
    STALLED = "stalled"
    """Parts are damaged on the way, or the head loses them."""


@dataclass(frozen=True, slots=True)
class Sending:
    """How far the sending of a file is. held: bytes that the head had last, -1 before it said."""

    held: int = -1
    stalls: int = 0


def next_step(sending: Sending, receipt: ArtefactReceipt) -> tuple[Sending, Step]:
    """Return how far the sending is after the head's answer, and what is done next."""
    if receipt.whole:
        return sending, Step.DONE
    if receipt.refused:
        return sending, Step.DAMAGED if receipt.damaged else Step.REFUSED
    if receipt.later_s > 0:
        return sending, Step.WAIT
    if receipt.held > sending.held:
        return Sending(receipt.held), Step.SEND
    further = Sending(receipt.held, sending.stalls + 1)
    return further, Step.STALLED if further.stalls >= MOST_STALLS else Step.SEND


def sizes_of_part(held: int, size: int) -> list[int]:
    """Return the bytes of content of each frame of the part that follows on what is held.

    size: of the file. Every frame but the file's last is whole.
    """
    end = min(size, held + PART_FRAMES * FRAME_BYTES)
    return [min(FRAME_BYTES, end - start) for start in range(held, end, FRAME_BYTES)]
