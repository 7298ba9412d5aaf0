"""Parameters of the routes that read; the description of the API is made from these. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from controller.api.problems import InvalidRequest
from controller.contracts.base import Contract
from controller.contracts.device import DeviceKind, DeviceState
from controller.contracts.result import Validity
from controller.contracts.run import RunState
from controller.contracts.wording import faults_of
from controller.platform.terminal import LONGEST

MOST_ITEMS = 200
USUAL_ITEMS = 50
MAX_CURSOR_CHARACTERS = 1024
MAX_WORD_CHARACTERS = 200

Word = Annotated[str, Field(max_length=MAX_WORD_CHARACTERS)]
Read = TypeVar("Read", bound="NoQuery")


class NoQuery(Contract):
    """No parameters."""


class PageQuery(NoQuery):
    """Parameters of every list."""

    limit: int = Field(
        default=USUAL_ITEMS, ge=1, le=MOST_ITEMS, description="Most items of the page."
    )
    cursor: str | None = Field(
        default=None,
        max_length=MAX_CURSOR_CHARACTERS,
        description="`next` of the page before, asked for with the same other parameters.",
    )

    @property
    def conditions(self) -> dict[str, object]:
        """What stays the same from page to page."""
        return self.model_dump(mode="json", exclude={"limit", "cursor"})


class SweepQuery(PageQuery):
    """Parameters of the list of sweeps."""

    name: Word | None = Field(default=None, description="Name in the sweep's file.")
    user: Word | None = Field(default=None, description="User whose token submitted it.")
    sort: Literal["submitted", "-submitted"] = Field(
        default="submitted", description="`-` has the newest first."
    )


class RunQuery(PageQuery):
    """Parameters of the list of a sweep's runs, in the order of the queue."""

    sweep: Word = Field(description="Id of the sweep.")
    state: RunState | None = Field(default=None, description="State of the run.")
    workload: Word | None = Field(default=None, description="Workload of the run's cell.")
    stack: Word | None = Field(default=None, description="Stack of the run's cell.")
    scenario: Word | None = Field(default=None, description="Scenario of the run's cell.")


class ResultQuery(PageQuery):
    """Parameters of the list of results."""

    sweep: Word | None = Field(default=None, description="Id of its sweep.")
    workload: Word | None = Field(default=None, description="Its workload.")
    stack: Word | None = Field(
        default=None, description="Its stack; of a paired comparison, either side's."
    )
    scenario: Word | None = Field(default=None, description="Its scenario.")
    device: Word | None = Field(default=None, description="Id of its device.")
    validity: Validity | None = Field(default=None, description="Its validity.")
    virtual: bool | None = Field(default=None, description="Whether its device was a virtual one.")
    samples: bool = Field(
        default=False, description="Whether metrics have their raw samples, and comparisons pairs."
    )
    sort: Literal["stored", "-stored", "started", "-started"] = Field(
        default="stored", description="Order of storing, or of the starts; `-` has the last first."
    )


class DeviceQuery(PageQuery):
    """Parameters of the list of devices, by id."""

    kind: DeviceKind | None = Field(default=None, description="Kind of the device.")
    virtual: bool | None = Field(default=None, description="Whether it is a virtual one.")
    state: DeviceState | None = Field(default=None, description="Its state now.")


class AgentQuery(PageQuery):
    """Parameters of the list of agents, by id."""

    online: bool | None = Field(default=None, description="Whether it is connected.")


def parse(kind: type[Read], given: Iterable[tuple[str, str]]) -> Read:
    """Return the parameters of a request; raises InvalidRequest, which names the wrong one."""
    pairs = list(given)
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise _wrong(twice[0], "it is given twice", "Give it once.")
    try:
        return kind.model_validate(dict(pairs))
    except ValidationError as error:
        fault = faults_of(error)[0]
        known = ", ".join(kind.model_fields)
        remedy = f"Parameters are {known}." if known else "There are no parameters."
        raise _wrong(fault.key, fault.said.removesuffix("."), remedy) from error


def _wrong(name: str, seen: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"use parameter {name[:LONGEST]!r}", seen, remedy)
