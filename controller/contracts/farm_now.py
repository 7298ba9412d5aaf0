"""What only the host of a farm can tell about it, for programs on other hosts."""

from __future__ import annotations

from controller.contracts.base import Contract


class FarmNow(Contract):
    """Whether a farm works, and what its controller alone knows."""

    away: str = ""
    """Why it cannot answer now, by its processes; empty if it can, as far as is known."""
    trouble: str = ""
    """What is wrong and what to do, in a line; empty if nothing is, or if it was ended on
    purpose."""
    held_up: dict[str, str] = {}
    """Leased run that a process of another farm holds up → what it waits for."""
