"""Parameters of the routes that read; the description of the API is made from these. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from controller.api.problems import InvalidRequest, own_fault
from controller.contracts.base import Contract, Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceKind, DeviceState
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter, nothing_omitted
from controller.contracts.result import Validity
from controller.contracts.run import RunState
from controller.contracts.wording import faults_of
from controller.platform.terminal import LONGEST

MOST_ITEMS = 200
USUAL_ITEMS = 50
MAX_CURSOR_CHARACTERS = 1024
MAX_WORD_CHARACTERS = 200
MAX_KNOB_CHARACTERS = 2000
MOST_NEWEST = 10_000

Word = Annotated[str, Field(max_length=MAX_WORD_CHARACTERS)]
ResultFormat: TypeAlias = Literal["jsonl", "parquet"]
_KNOBS: Final = TypeAdapter(dict[str, Scalar])
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
    """Parameters of the list of runs, in the order of the queue: by submission, then position."""

    sweep: Word | None = Field(default=None, description="Id of the sweep.")
    open: bool = Field(default=False, description="Whether only those that have not ended.")
    state: RunState | None = Field(default=None, description="State of the run.")
    workload: Word | None = Field(default=None, description="Workload of the run's cell.")
    stack: Word | None = Field(default=None, description="Stack of the run's cell.")
    scenario: Word | None = Field(default=None, description="Scenario of the run's cell.")


class RunsQuery(NoQuery):
    """Parameters of all runs at once."""

    sweep: Word | None = Field(default=None, description="Id of the sweep.")
    open: bool = Field(default=False, description="Whether only those that have not ended.")


class OutcomeConditions(NoQuery):
    """Which outcomes are meant."""

    sweep: Word | None = Field(default=None, description="Id of its sweep.")
    tags: Word | None = Field(
        default=None, description="Tags parted by commas, all of which its sweep has."
    )
    workload: Word | None = Field(default=None, description="Its workload.")
    stack: Word | None = Field(
        default=None, description="Its stack; of a paired comparison, either side's."
    )
    scenario: Word | None = Field(default=None, description="Its scenario.")
    knobs: Annotated[str, Field(max_length=MAX_KNOB_CHARACTERS)] | None = Field(
        default=None, description='Knobs that it has, as a JSON object: {"precision": "bf16"}.'
    )
    device: Word | None = Field(default=None, description="Id of its device.")
    virtual: bool | None = Field(default=None, description="Whether its device was a virtual one.")
    since: float | None = Field(
        default=None, description="It started then or later; seconds since the epoch."
    )
    until: float | None = Field(
        default=None, description="It started earlier; seconds since the epoch."
    )

    def wanted(self, validity: Validity | None = None) -> OutcomeFilter:
        """Return the filter; blocks, for it reads the catalogue if knobs are asked for.

        Raises InvalidRequest for knobs that are no JSON object, HomeUnusable.
        """
        knobs = _knobs(self.knobs)
        with own_fault():
            omitted = load_catalog().omitted if knobs else nothing_omitted
        cell = CellFilter(self.workload, self.scenario, self.stack, knobs, omitted)
        return OutcomeFilter(
            cell=cell,
            sweep_id=self.sweep,
            tags=frozenset(filter(None, (self.tags or "").split(","))),
            device=self.device,
            validity=validity,
            virtual=self.virtual,
            since=self.since,
            until=self.until,
        )


def _knobs(text: str | None) -> Mapping[str, Scalar]:
    if text is None:
        return {}
    try:
        return _KNOBS.validate_json(text, strict=True)
    except ValidationError as error:
        remedy = 'Write a JSON object of numbers, texts and booleans: {"precision": "bf16"}.'
        raise _wrong("knobs", "it is none of knobs", remedy) from error


class ResultConditions(OutcomeConditions):
    """Which results are meant."""

    validity: Validity | None = Field(default=None, description="Its validity.")

    def kept(self) -> OutcomeFilter:
        """Return the filter; raises InvalidRequest."""
        return self.wanted(self.validity)


class ResultQuery(PageQuery, ResultConditions):
    """Parameters of the list of results."""

    samples: bool = Field(
        default=False, description="Whether metrics have their raw samples, and comparisons pairs."
    )
    sort: Literal["stored", "-stored", "started", "-started"] = Field(
        default="stored", description="Order of storing, or of the starts; `-` has the last first."
    )


class ResultsQuery(ResultConditions):
    """Parameters of all results at once."""

    format: ResultFormat = Field(
        default="jsonl",
        description="jsonl: a result a line; parquet: a row for each metric of a result.",
    )
    newest: int | None = Field(
        default=None, ge=1, le=MOST_NEWEST, description="At most so many of the newest; else all."
    )
    samples: bool = Field(
        default=False, description="Whether metrics have their raw samples, and comparisons pairs."
    )


class FailureQuery(PageQuery, OutcomeConditions):
    """Parameters of the list of failed attempts."""

    sort: Literal["stored", "-stored"] = Field(
        default="stored", description="Order of storing; `-` has the last first."
    )


class FailuresQuery(OutcomeConditions):
    """Parameters of all failed attempts at once."""

    newest: int | None = Field(
        default=None, ge=1, le=MOST_NEWEST, description="At most so many of the newest; else all."
    )


class ProfileQuery(PageQuery, ResultConditions):
    """Parameters of the list of profiles, newest first."""


class RunProfileQuery(NoQuery):
    """What is wanted of a run's profile."""

    attempt: int | None = Field(
        default=None, ge=1, description="Attempt of the run. [default: the newest with a profile]"
    )
    timeline: bool = Field(
        default=False, description="Whether with all that ran in the watched step; may be large."
    )


class ComparisonQuery(NoQuery):
    """Two cells whose stored results are compared."""

    a: Word = Field(description="Side A: STACK, or STACK:KNOB=VALUE,KNOB=VALUE.")
    b: Word = Field(description="Side B, in the same form.")
    workload: Word = Field(description="Workload that both sides ran.")
    scenario: Word = Field(default="training", description="Scenario under which they ran.")
    knobs: Annotated[str, Field(max_length=MAX_KNOB_CHARACTERS)] | None = Field(
        default=None, description='Knobs of both sides, as a JSON object: {"image_size": 256}.'
    )
    device: Word | None = Field(default=None, description="Id of the device.")
    sweep: Word | None = Field(default=None, description="Id of the sweep.")
    force: bool = Field(
        default=False, description="Whether results of different conditions are compared, too."
    )

    def knobs_given(self) -> Mapping[str, Scalar]:
        """Return the knobs; raises InvalidRequest."""
        return _knobs(self.knobs)


class DeviceQuery(PageQuery):
    """Parameters of the list of devices, by id."""

    kind: DeviceKind | None = Field(default=None, description="Kind of the device.")
    virtual: bool | None = Field(default=None, description="Whether it is a virtual one.")
    state: DeviceState | None = Field(default=None, description="Its state now.")


class RegisteredQuery(PageQuery):
    """Parameters of the list of registered devices, by id."""

    forgotten: bool = Field(
        default=False, description="Whether those that a person removed, instead of the others."
    )


class AgentQuery(PageQuery):
    """Parameters of the list of agents, by id."""

    online: bool | None = Field(default=None, description="Whether it is connected.")
    stored: bool = Field(
        default=False, description="As they are stored, also while the farm is down."
    )


class SpentQuery(PageQuery):
    """Parameters of the list of device times, by their ends."""

    since: float = Field(
        default=0.0, description="Of attempts that ended later; seconds since the epoch."
    )


class TookQuery(PageQuery):
    """Parameters of the list of attempts' times."""

    workload: Word = Field(description="Workload of the attempts.")
    stack: Word = Field(description="Their stack.")
    scenario: Word = Field(description="Their scenario.")


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
