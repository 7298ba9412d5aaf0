"""What steps of several ranks lose to each other, as medians. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.ranks.protocol import RankFigures


@dataclass
class StepShares:
    """The timed steps of all ranks: what they computed, exchanged and waited."""

    untimed: int
    """Steps that are still to come before those that count: in them, code is compiled and memory is
    touched for the first time, which other ranks wait for."""
    rank: int = 0
    """Whose waits are counted: it is the one that also tells what its work takes alone."""
    _exchange_shares: list[float] = field(default_factory=list)
    _waits: list[float] = field(default_factory=list)
    _computed_s: list[list[float]] = field(default_factory=list)

    def add(self, ranks: Sequence[RankFigures]) -> None:
        """Count a step of all ranks, unless it is a warm-up."""
        if self.untimed:
            self.untimed -= 1
            return
        own, slowest_s = ranks[self.rank], max(rank.seconds for rank in ranks)
        exchange_s = min(rank.exchanged_s for rank in ranks)  # whoever came last did not wait
        waited_s = (own.exchanged_s - exchange_s) + (slowest_s - own.seconds)
        self._exchange_shares.append(exchange_s / slowest_s)
        self._waits.append(waited_s / slowest_s)
        self._computed_s.append([rank.computed_s for rank in ranks])

    @property
    def exchange(self) -> float:
        """The share of a step in which the ranks exchanged gradients."""
        return statistics.median(self._exchange_shares)

    @property
    def imbalance(self) -> float:
        """The share of a step in which the rank waited for the slowest one, for its gradients or
        for its whole step."""
        return statistics.median(self._waits)

    @property
    def own(self) -> float:
        """The share of a step in which the rank neither exchanged nor waited."""
        return 1 - (self.exchange + self.imbalance)

    @property
    def computed_s(self) -> tuple[float, ...]:
        """The seconds of a step until each rank's gradients were there."""
        return tuple(statistics.median(each) for each in zip(*self._computed_s, strict=True))
