"""Messages of a rank to its worker: JSON lines on the rank's standard output."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from controller.contracts.base import Contract
from controller.contracts.result import Environment, Failure


class RankReady(Contract):
    """A rank's first message: it has built its model."""

    type: Literal["rank_ready"] = "rank_ready"
    batch_size: int
    """Samples in a batch of all ranks."""


class RankStep(Contract):
    """A rank's message after each step."""

    # Unlike stored numbers, a loss may be lost.
    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")

    type: Literal["rank_step"] = "rank_step"
    loss: float
    """Mean over this rank's share of the batch."""
    seconds: float
    computed_s: float
    """Of them, until this rank's gradients were there."""
    exchanged_s: float
    """Of them, from then on until the mean over all ranks was: the wait for other ranks, too."""


class RankEnd(Contract):
    """A rank's last message."""

    type: Literal["rank_end"] = "rank_end"
    environment: Environment


RankMessage = RankReady | RankStep | RankEnd | Failure
RANK_MESSAGE: Final[TypeAdapter[RankMessage]] = TypeAdapter(
    Annotated[RankMessage, Field(discriminator="type")]
)
