"""Requests of `benchfarm bench` to the agents' side, and the answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.contracts.base import Contract
from controller.contracts.pair import Pair

Effect = Annotated[float, Field(ge=0, le=1)]
"""How much more work B does than A: 0.05 is 5 %."""


class PlantedTrials(Contract):
    """The request for a number of comparisons of each effect beside a random load."""

    effects: tuple[Effect, ...] = Field(min_length=1)
    trials: int = Field(ge=1)
    loads: int = Field(ge=0)
    """Processes of background load."""
    width: float = Field(gt=0)
    seed: int
    time_limit_s: float = Field(gt=0)
    """No comparison begins after this many seconds."""


class PlantedTrial(Contract):
    """One comparison and the true ratio behind it."""

    effect: Effect
    truth: float
    """The true ratio of the times, B / A."""
    ratio: float
    low: float | None
    """None if there are too few pairs for an interval."""
    high: float | None
    direction: int
    """As PairedRatio.direction."""
    pairs: int


class OverheadRequest(Contract):
    """A model of the catalogue, and how many pairs of it to measure."""

    workload: str
    numerics: str
    pairs: int


class OverheadSamples(Contract):
    """Pairs of periods in seconds: A is the bare loop, B the same loop run by the harness."""

    pairs: tuple[Pair, ...]
    invokes_per_query: int


class ApiLoad(Contract):
    """Response times of one user while another user sends all requests that are allowed."""

    requests: int
    median_s: float
    p99_s: float
    longest_s: float
    hostile_requests: int
    hostile_refused: int
    hostile_bytes: int
    """Bytes sent, headers included."""
    store_bytes: int
    """Bytes by which the store grew, for both users together."""
