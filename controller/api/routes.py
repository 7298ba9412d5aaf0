"""The table of routes: what each address returns, to whom, and with which parameters.

The server answers by it, and the description of the API is made from it.
"""

from __future__ import annotations

from typing import Any, Final

from controller.api import farm_reads, outcome_reads, reads, run_profile
from controller.api.answers import (
    AgentPage,
    AnnotationPage,
    ArtefactPage,
    AttemptPage,
    DeviceNow,
    DevicePage,
    FailurePage,
    HistoryPage,
    ProfilePage,
    RegisteredDevicePage,
    ResultPage,
    RunPage,
    RunProfile,
    SpentPage,
    SweepDetail,
    SweepPage,
    TookPage,
)
from controller.api.exports import failure_lines, result_export, run_lines
from controller.api.prefix import CONTENT as CONTENT
from controller.api.prefix import EXPORT
from controller.api.prefix import PREFIX as PREFIX
from controller.api.queries import (
    AgentQuery,
    ComparisonQuery,
    DeviceQuery,
    FailureQuery,
    FailuresQuery,
    NoQuery,
    PageQuery,
    ProfileQuery,
    RegisteredQuery,
    ResultQuery,
    ResultsQuery,
    RunProfileQuery,
    RunQuery,
    RunsQuery,
    SpentQuery,
    SweepQuery,
    TookQuery,
)
from controller.api.route_kinds import ExportRoute, ReadRoute
from controller.api.written import WRITES as WRITES
from controller.contracts.administration import StoredFiles
from controller.contracts.farm_now import FarmNow
from controller.contracts.run import Run
from controller.reports.comparison import Comparison

DESCRIPTION: Final = f"{PREFIX}/openapi.json"
"""Address of the description of the API."""
EVENTS: Final = "/sweeps/{sweep_id}/events"
"""Path of a sweep's server-sent events."""
LINES: Final = "application/jsonl"
BINARY: Final = "application/octet-stream"

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
        *("/annotations", "listAnnotations", "List the tags and notes of sweeps."),
        *(PageQuery, AnnotationPage, farm_reads.sweep_annotations),
    ),
    ReadRoute(
        *("/runs", "listRuns", "List runs in the order of the queue."),
        *(RunQuery, RunPage, reads.runs),
    ),
    ReadRoute("/runs/{run_id}", "showRun", "Show a run.", NoQuery, Run, reads.run),
    ReadRoute(
        *("/runs/{run_id}/attempts", "listAttempts", "List the attempts of a run."),
        *(PageQuery, AttemptPage, reads.attempts),
    ),
    ReadRoute(
        *("/runs/{run_id}/artefacts", "listArtefacts", "List the artefacts of a run."),
        *(PageQuery, ArtefactPage, farm_reads.artefacts),
    ),
    ReadRoute(
        *("/runs/{run_id}/profile", "showProfile", "Show the profile of a run."),
        *(RunProfileQuery, RunProfile, run_profile.run_profile),
    ),
    ReadRoute(
        *("/results", "listResults", "List results."),
        *(ResultQuery, ResultPage, reads.results),
    ),
    ReadRoute(
        *("/failures", "listFailures", "List failed attempts, and who is to blame."),
        *(FailureQuery, FailurePage, outcome_reads.failures),
    ),
    ReadRoute(
        *("/profiles", "listProfiles", "List the profiles of results, newest first."),
        *(ProfileQuery, ProfilePage, outcome_reads.profiles),
    ),
    ReadRoute(
        *("/comparison", "compare", "Compare two cells by their stored results."),
        *(ComparisonQuery, Comparison, outcome_reads.comparison),
        statuses=(404,),
    ),
    ReadRoute(
        *("/devices", "listDevices", "List devices with their states now."),
        *(DeviceQuery, DevicePage, reads.devices),
    ),
    ReadRoute(
        *("/devices/{device_id}", "showDevice", "Show a device with its state now."),
        *(NoQuery, DeviceNow, farm_reads.device),
    ),
    ReadRoute(
        *("/devices/{device_id}/history", "listHistory", "List what happened to a device."),
        *(PageQuery, HistoryPage, farm_reads.history),
    ),
    ReadRoute(
        *("/registered-devices", "listRegistered", "List devices with their holds, as stored."),
        *(RegisteredQuery, RegisteredDevicePage, farm_reads.registered),
    ),
    ReadRoute(
        *("/agents", "listAgents", "List all agents that ever registered."),
        *(AgentQuery, AgentPage, reads.agents),
    ),
    ReadRoute(
        *("/farm", "showFarm", "Show whether the farm works, and which runs are held up."),
        *(NoQuery, FarmNow, farm_reads.farm_now),
        asks_controller=True,
    ),
    ReadRoute(
        *("/files", "showFiles", "Show which model files the online hosts have."),
        *(NoQuery, StoredFiles, farm_reads.stored_files),
        asks_controller=True,
    ),
    ReadRoute(
        *("/spent", "listSpent", "List the device time of ended attempts, by user."),
        *(SpentQuery, SpentPage, farm_reads.spent),
    ),
    ReadRoute(
        *("/took", "listTook", "List how long attempts with a result took."),
        *(TookQuery, TookPage, farm_reads.took),
    ),
)
EXPORTS: Final[tuple[ExportRoute[Any], ...]] = (
    ExportRoute(
        *(f"/results{EXPORT}", "exportResults", "Return all results that are meant at once."),
        *(ResultsQuery, result_export),
        (LINES, "application/vnd.apache.parquet"),
    ),
    ExportRoute(
        *(f"/failures{EXPORT}", "exportFailures", "Return all failures at once, one a line."),
        *(FailuresQuery, failure_lines, (LINES,)),
    ),
    ExportRoute(
        *(f"/runs{EXPORT}", "exportRuns", "Return all runs at once, one a line."),
        *(RunsQuery, run_lines, (LINES,)),
    ),
)
