"""Top-down: which part of the pipeline's slots did work, and what held up the rest."""

from __future__ import annotations

import math
from typing import Final, Self

from pydantic import model_validator

from controller.contracts.base import Contract

LEVELS: Final[dict[str, tuple[str, ...]]] = {
    "retiring": ("light_operations", "heavy_operations"),
    "bad_speculation": ("branch_mispredicts", "machine_clears"),
    "frontend_bound": ("fetch_latency", "fetch_bandwidth"),
    "backend_bound": ("memory_bound", "core_bound"),
}
"""Node of level 1 → its nodes of level 2, by the names of Yasin's method (ISPASS 2014)."""
CLOSE: Final = 0.03
"""By how much shares may differ from their sum: tools round, and multiplex their counters."""


class TopDown(Contract):
    """Shares of the pipeline's slots, as a tool of others measured them."""

    source: str
    """The tool and the file."""
    shares: dict[str, float]
    """Node → share of all slots. Level 1 is whole; of level 2, pairs that the tool tells."""
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        for name, share in self.shares.items():
            if not math.isfinite(share) or not -CLOSE <= share <= 1 + CLOSE:
                raise ValueError(f"{name} is {share:.4g}, not a share")
        if missing := [name for name in LEVELS if name not in self.shares]:
            raise ValueError(f"there is no {', '.join(missing)}")
        _require_sum("all of level 1", 1.0, [self.shares[name] for name in LEVELS])
        for parent, children in LEVELS.items():
            told = [self.shares[name] for name in children if name in self.shares]
            if len(told) == len(children):
                _require_sum(f"{' and '.join(children)}", self.shares[parent], told)
            elif told:
                raise ValueError(f"of {' and '.join(children)}, only one is told")
        return self


def _require_sum(what: str, whole: float, parts: list[float]) -> None:
    if abs(sum(parts) - whole) > CLOSE:
        raise ValueError(f"{what} add up to {sum(parts):.3f}, not {whole:.3f}")
