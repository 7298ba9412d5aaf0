"""Lists of a farm elsewhere, which `benchfarm login` has kept as a context."""

from __future__ import annotations

import os

from controller.api.client import ApiClient
from controller.api.contexts import read_context
from controller.cli.common import console, show_json
from controller.contracts.catalog import ranking_metrics
from controller.contracts.errors import UserError
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.records import StoredResult
from controller.platform.terminal import say
from controller.reports.export import as_csv
from controller.reports.outcome_lists import result_lines


def client_of(context: str) -> ApiClient:
    """Return the client of a context; raises UserError."""
    return ApiClient(read_context(context, os.environ))


def results_of(context: str, wanted: OutcomeFilter, newest: int | None) -> list[StoredResult]:
    """Return a context's results that a filter keeps, oldest first; raises UserError."""
    return client_of(context).results(params_of(wanted, context), newest)


def params_of(wanted: OutcomeFilter, context: str) -> dict[str, str]:
    """Return a filter as parameters of the API; raises UserError for what it does not have."""
    missing = {
        "--tag": wanted.tags,
        "--knob": wanted.cell.knobs,
        "--since": wanted.since is not None,
        "--until": wanted.until is not None,
    }
    for option, given in missing.items():
        if given:
            tried = f"list results of the farm {context!r} with {option}"
            raise UserError(tried, "its API has no such filter", "Leave it out, or use the head.")
    said = {
        "sweep": wanted.sweep_id,
        "device": wanted.device,
        "workload": wanted.cell.workload,
        "stack": wanted.cell.stack,
        "scenario": wanted.cell.scenario,
        "validity": wanted.validity,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def show_results(found: list[StoredResult], newest: int | None, *, json: bool, csv: bool) -> None:
    """Print results in one form."""
    if json:
        return show_json(found)
    if csv:
        return say(as_csv(found), lines=True, end="")
    metric_of = ranking_metrics({result.scenario for result in found})
    for line in result_lines(found, metric_of, console().width):
        say(line)
    if not found:
        say("nothing is stored that fits")
    elif len(found) == newest:
        say(f"the newest {newest}; to see all, add --last 0")
    return None
