"""The outcome of an attempt: a measured Result, or a Failure and who is to blame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from statistics import median
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import BeforeValidator, Field

from controller.contracts.base import Contract, ResultFact
from controller.contracts.pair import Pair
from controller.contracts.profile import ProfileSummary
from controller.contracts.units import Unit

Environment = dict[str, ResultFact | tuple[ResultFact, ...] | None]
"""Flat facts about where and how a result was measured; None where a fact could not be read."""


class Validity(StrEnum):
    """Whether a measurement followed its run rules (MLPerf's words), and was undisturbed.

    From best to worst. Only VALID results are ranked, compared with stored ones or baselines.
    """

    VALID = "VALID"
    DISTURBED = "DISTURBED"
    """It followed the rules on a machine that was not quiet; its policy only records that."""
    INVALID = "INVALID"


def worst(validities: Iterable[Validity]) -> Validity:
    """Return the validity of several measurements together; VALID for none."""
    return max(validities, key=list(Validity).index, default=Validity.VALID)


class _Judged(Protocol):
    @property
    def validity(self) -> Validity: ...


Judged = TypeVar("Judged", bound=_Judged)


def usable(measured: Iterable[Judged]) -> list[Judged]:
    """Return those of several measurements of one thing from which a figure is computed.

    The VALID ones; if there are none, the DISTURBED ones, and whoever shows the figure says so;
    never an INVALID one.
    """
    found = list(measured)
    return [m for m in found if m.validity is Validity.VALID] or [
        m for m in found if m.validity is Validity.DISTURBED
    ]


def used(measured: Sequence[Judged]) -> Sequence[Judged]:
    """Return the usable of several measurements; all if none is, to be shown as INVALID."""
    return usable(measured) or measured


class Blame(StrEnum):
    """Who is to blame for a failure; decides whether it is retried."""

    USER = "user"
    DEVICE = "device"
    WORKLOAD = "workload"
    HARNESS = "harness"
    """benchfarm itself and what it runs on: Ray, the adb server."""


class Measurement(Contract):
    """One metric of a run: the reported value, its unit and the raw samples behind it."""

    value: float
    unit: Unit
    samples: tuple[float, ...] = ()

    @classmethod
    def of_samples(cls, samples: tuple[float, ...], unit: Unit) -> Measurement:
        """Report the median of raw samples; raises StatisticsError without any."""
        return cls(value=median(samples), unit=unit, samples=samples)

    @property
    def drawn(self) -> tuple[float, ...]:
        """The raw samples; the reported value if there are none."""
        return self.samples or (self.value,)


class Result(Contract):
    """The measurements of a finished attempt; one that is not VALID always has reasons."""

    type: Literal["result"] = "result"
    validity: Validity
    reasons: tuple[str, ...] = ()
    metrics: dict[str, Measurement]
    environment: Environment
    artefacts: dict[str, str] = {}
    """Name → path of a file kept by the agent that ran it."""
    checksums: dict[str, str] = {}
    """Path of a file that the attempt left → its SHA-256, hex, when the result was handed in."""
    pairs: tuple[Pair, ...] = ()
    """All pairs of a paired comparison, the first ones included, in order."""
    profile: ProfileSummary | None = None


def _encodable(text: object) -> object:
    """Return a text with escapes for lone surrogates, the bytes of a name or output that are no
    UTF-8, and all else unchanged."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


Words = Annotated[str, BeforeValidator(_encodable)]
"""A program's or a device's words, which may be any bytes."""


class Failure(Contract):
    """The reason why an attempt measured nothing."""

    type: Literal["failure"] = "failure"
    blame: Blame
    kind: str
    """A short stable word: `exception`, `deadline`, `signal`, `exit`, `lost` …"""
    message: Words
    output: Words = ""
    """The last lines the worker printed."""
    exit_code: int | None = None
    signal: int | None = None
    environment: Environment = {}
    """Facts about the device when the attempt began; may be empty."""


Outcome = Annotated[Result | Failure, Field(discriminator="type")]
