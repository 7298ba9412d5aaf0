"""A pair of a paired comparison, as it is measured and stored."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.contracts.base import Contract

Samples = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]


class Pair(Contract):
    """A batch of A and a batch of B, one right after the other."""

    a: Samples
    """Raw samples in the order they were measured, in the unit of the metric."""
    b: Samples
    a_first: bool
    ended_s: Annotated[float, Field(ge=0)] | None = None
    """Seconds from the comparison's first turn to the end of this pair; None in those of earlier
    releases."""

    def swapped(self) -> Pair:
        """Return the pair with A and B exchanged."""
        return self.model_copy(update={"a": self.b, "b": self.a, "a_first": not self.a_first})
