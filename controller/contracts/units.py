"""The closed table of units."""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    """The unit of a measurement, spelled as it is stored and shown."""

    SECONDS = "s"
    IMAGES_PER_SECOND = "images/s"
    SEQUENCES_PER_SECOND = "sequences/s"
    SAMPLES_PER_SECOND = "samples/s"
    TOKENS_PER_SECOND = "tokens/s"
    FRACTION = "fraction"
    BYTES = "bytes"
    JOULES = "J"
    JOULES_PER_QUERY = "J/query"
    JOULES_PER_STEP = "J/step"
    LOSS = "loss"
    RATIO = "ratio"
    DECIBELS = "dB"

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is better."""
        return self not in _HIGHER_IS_BETTER


_HIGHER_IS_BETTER = frozenset(
    {
        *(Unit.IMAGES_PER_SECOND, Unit.SEQUENCES_PER_SECOND),
        *(Unit.SAMPLES_PER_SECOND, Unit.TOKENS_PER_SECOND),
        *(Unit.FRACTION, Unit.RATIO, Unit.DECIBELS),
    }
)
