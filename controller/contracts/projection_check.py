"""A log's projected efficiency beside that of a live profile of the same work."""

from __future__ import annotations

from enum import StrEnum

from controller.contracts.base import Contract


class Agreement(StrEnum):
    """Whether two efficiencies lie within a share of each other, their interval considered."""

    WITHIN = "within"
    NOT_RESOLVED = "not resolved"
    """The interval reaches across the limit."""
    BEYOND = "beyond"


class ComparedKind(Contract):
    """Primitives of one kind and direction that both have, with their efficiency in both.

    Efficiencies are time when replayed alone / time as watched: a log knows no step without
    watching, to which a profile's times are scaled.
    """

    primitive: str = ""
    """Empty: all kinds together."""
    direction: str = ""
    share: float
    """Of the log's time in primitives."""
    log: float
    live: float
    ratio: float
    """log / live."""
    low: float
    """Bounds of the ratio: that of all together also counts how far the steps' medians may be off;
    those of one kind come from the 95 % intervals of the replays alone."""
    high: float


class ProjectionCheck(Contract):
    """What a log alone came to, against what was measured live."""

    limit: float
    """Share by which they may differ."""
    agreement: Agreement
    whole: ComparedKind
    kinds: tuple[ComparedKind, ...]
    """Those with the most of the log's time first."""
    live_share: float
    """Of the profile's time in primitives, that which is compared."""
    shown_efficiency: float
    """The profile's own, of all that was replayed there and of times scaled to its plain step."""
    notes: tuple[str, ...] = ()
