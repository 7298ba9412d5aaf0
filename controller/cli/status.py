"""`benchfarm status`: a farm on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer
from rich.table import Table

from controller.cli.common import Json, home, require_this_host, show_json, show_table
from controller.contracts.base import utc_minute
from controller.contracts.farm_status import FarmStatus
from controller.platform.terminal import say
from controller.runtime.farm_facts import StoredFacts, farm_facts, stored_facts
from controller.runtime.farm_status import farm_status
from controller.store.sqlite import SqliteStore

SHOWN = 5
"""Runs and reasons that are shown; --json has all."""


def status(json: Json = False) -> None:
    """Show whether the farm is up, what runs and waits, and what is wrong.

    Exit status 0 if it is up and well, 1 if it is down or anything is to be mended. Asks only files
    and processes of this host.
    """
    require_this_host("show the farm's status")
    found = farm_status(farm_facts(home(), _stored()))
    if json:
        show_json(found)
    else:
        _show(found)
    if not found.well:
        raise typer.Exit(1)


def _stored() -> StoredFacts:
    cluster = home().cluster()
    joined = cluster is not None and not cluster.dashboard_url
    if joined or not home().has_store():
        return StoredFacts()  # a store that is there is of an earlier farm
    lines: list[str] = []
    store = SqliteStore.open_reader(home().store, lines.append)
    try:
        return stored_facts(home(), store)
    finally:
        store.close()


def _show(found: FarmStatus) -> None:
    for line in _lines(found):
        say(line)
    if not found.checks:
        say("wrong    nothing")
        return
    table = Table("", "what is wrong", "seen", "what to do")
    for check in found.checks:
        table.add_row(check.health, check.what, check.seen, check.remedy)
    show_table(table)


def _lines(found: FarmStatus) -> Iterator[str]:
    since = f" since {utc_minute(found.since)}" if found.since else ""
    release = f", benchfarm {found.version}" if found.version else ""
    why = f" ({found.why})" if found.why else ""
    yield f"farm     {found.state}{since}{why}{release}, home {found.home}"
    there = found.addresses
    if there.ray:
        dashboard = f", dashboard {there.dashboard}" if there.dashboard else ""
        yield f"ray      {there.ray}{dashboard}"
    if there.api:
        yield f"api      {there.api}"
    if there.page:
        yield f"page     {there.page}"
    if there.prometheus:
        yield f"metrics  {there.prometheus}"
    states = [agent.state for agent in found.agents]
    yield f"agents   {_counts({state: states.count(state) for state in dict.fromkeys(states)})}"
    yield f"devices  {_counts(found.devices)}"
    yield f"runs     {len(found.running)} under way, {found.queued} queued"
    for run in found.running[:SHOWN]:
        cools = ", cools down" if run.cooling else ""
        began = utc_minute(run.since)
        device = f"{run.device_name}{run.likeness}"
        yield f"         {device}: run {run.run_id} of {run.user} since {began}{cools}"
    if (more := len(found.running) - SHOWN) > 0:
        yield f"         and {more} more"
    yield from (f"         {group.line}" for group in found.waiting[:SHOWN])
    if (more := len(found.waiting) - SHOWN) > 0:
        yield f"         and {more} more reasons"


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
