"""Messages of a rank to its worker: JSON lines on the rank's standard output."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from controller.contracts.base import Contract
from controller.contracts.result import Environment, Failure

PEER: Final = "peer"
"""Kind of the failure of a rank that has lost another one, whose own failure tells why."""


class RankReady(Contract):
    """A rank's first message: it has built its model."""

    type: Literal["rank_ready"] = "rank_ready"
    batch_size: int
    """Samples in a batch of all ranks."""


class RankFigures(Contract):
    """What a step of one rank took, and its loss."""

    # Unlike stored numbers, a loss may be lost.
    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")

    loss: float
    """Mean over this rank's share of the batch."""
    seconds: float
    computed_s: float
    """Of them, until this rank's gradients were there."""
    exchanged_s: float
    """Of them, from then on until the mean over all ranks was: the wait for other ranks, too."""


class FarRankFigures(RankFigures):
    """Those of a rank on another host, with its peak memory so far."""

    peak_memory_bytes: float


class RankStep(RankFigures):
    """A rank's message after each step."""

    type: Literal["rank_step"] = "rank_step"
    elsewhere: tuple[FarRankFigures, ...] = ()
    """Of the ranks on other hosts; only the first one of a host tells of them."""


class RankEnd(Contract):
    """A rank's last message."""

    type: Literal["rank_end"] = "rank_end"
    environment: Environment
    alone_s: tuple[float, ...] = ()
    """Seconds of steps on its own share without an exchange, while all other ranks of its host
    waited; only of the first rank of a host."""
    together_s: tuple[float, ...] = ()
    """Those of the same steps while all ranks made such steps, in turns with `alone_s`."""


RankMessage = RankReady | RankStep | RankEnd | Failure
RANK_MESSAGE: Final[TypeAdapter[RankMessage]] = TypeAdapter(
    Annotated[RankMessage, Field(discriminator="type")]
)
