"""The table of routes: what each address returns, to whom, and with which parameters.

The server answers by it, and the description of the API is made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from controller.api import reads, writes
from controller.api.answers import (
    AgentPage,
    AttemptPage,
    DevicePage,
    ResultPage,
    RunPage,
    SweepDetail,
    SweepPage,
)
from controller.api.identity import Caller
from controller.api.queries import (
    AgentQuery,
    DeviceQuery,
    NoQuery,
    PageQuery,
    ResultQuery,
    RunQuery,
    SweepQuery,
)
from controller.api.reads import Ids, Reading
from controller.contracts.administration import Count, SubmitRequest
from controller.contracts.base import Contract
from controller.contracts.run import Run
from controller.contracts.wire import Submission

PREFIX: Final = "/api/v1"
DESCRIPTION: Final = f"{PREFIX}/openapi.json"
"""Address of the description of the API."""
Query = TypeVar("Query", bound=NoQuery)
Body = TypeVar("Body", bound=Contract)


@dataclass(frozen=True, slots=True)
class ReadRoute(Generic[Query]):
    """A GET route."""

    path: str
    """Below PREFIX; `{…}` is an id."""
    name: str
    """Its operation's id in the description."""
    summary: str
    query: type[Query]
    answer: type[Contract]
    work: Callable[[Reading, Query, Ids], Contract]


@dataclass(frozen=True, slots=True)
class WriteRoute(Generic[Body]):
    """A route that the controller is asked for in the name of the caller."""

    method: str
    path: str
    name: str
    summary: str
    body: type[Body] | None
    answer: type[Contract]
    work: Callable[[Reading, Caller, Body | None, Ids], Contract]


READS: Final[tuple[ReadRoute[Any], ...]] = (
    ReadRoute(
        *("/sweeps", "listSweeps", "List sweeps."),
        *(SweepQuery, SweepPage, reads.sweeps),
    ),
    ReadRoute(
        *("/sweeps/{sweep_id}", "showSweep", "Show a sweep and how far it is."),
        *(NoQuery, SweepDetail, reads.sweep),
    ),
    ReadRoute(
        *("/runs", "listRuns", "List a sweep's runs, in the order of the queue."),
        *(RunQuery, RunPage, reads.runs),
    ),
    ReadRoute("/runs/{run_id}", "showRun", "Show a run.", NoQuery, Run, reads.run),
    ReadRoute(
        *("/runs/{run_id}/attempts", "listAttempts", "List the attempts of a run."),
        *(PageQuery, AttemptPage, reads.attempts),
    ),
    ReadRoute(
        *("/results", "listResults", "List results."),
        *(ResultQuery, ResultPage, reads.results),
    ),
    ReadRoute(
        *("/devices", "listDevices", "List devices with their states now."),
        *(DeviceQuery, DevicePage, reads.devices),
    ),
    ReadRoute(
        *("/agents", "listAgents", "List all agents that ever registered."),
        *(AgentQuery, AgentPage, reads.agents),
    ),
)
WRITES: Final[tuple[WriteRoute[Any], ...]] = (
    WriteRoute(
        *("POST", "/sweeps", "submitSweep", "Submit a sweep; the same one again adds nothing."),
        *(SubmitRequest, Submission, writes.submit),
    ),
    WriteRoute(
        *("DELETE", "/sweeps/{sweep_id}", "cancelSweep", "Cancel a sweep's open runs."),
        *(None, Count, writes.cancel),
    ),
)
