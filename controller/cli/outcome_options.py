"""Options that say which results or failures are meant."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import typer

from controller.cli.common import parse_seconds
from controller.cli.comparison_options import knobs_of
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.errors import NotFound, UserError
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter, nothing_omitted
from controller.contracts.result import Validity
from controller.contracts.spelling import did_you_mean
from controller.platform.terminal import LONGEST
from controller.store.protocol import FarmReader

TAGS_SAID: Final = 20
"""Tags that an error names."""
OfSweep = Annotated[str | None, typer.Option("--sweep", help="Sweep. [default: all sweeps]")]
OfTags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Tag of the sweep; repeatable. [default: all]"),
]
OfDevice = Annotated[str | None, typer.Option("--device", help="Device. [default: all devices]")]
OfWorkload = Annotated[str | None, typer.Option("--workload", help="Workload. [default: all]")]
OfStack = Annotated[
    str | None, typer.Option("--stack", help="Stack, of either side of a pair. [default: all]")
]
OfScenario = Annotated[str | None, typer.Option("--scenario", help="Scenario. [default: all]")]
OfKnobs = Annotated[
    list[str] | None,
    typer.Option("--knob", metavar="NAME=VALUE", help="Value of a knob; repeatable."),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Started then or later: 2d ago, or a date (UTC)."),
]
Until = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Started before: 2d ago, or a date (UTC).")
]
OfValidity = Annotated[
    Literal["VALID", "DISTURBED", "INVALID"] | None,
    typer.Option("--validity", case_sensitive=False, help="Validity. [default: all]"),
]


def filter_of(
    *,
    tag: Sequence[str] | None,
    workload: str | None,
    stack: str | None,
    scenario: str | None,
    knob: Sequence[str] | None,
    since: str | None,
    until: str | None,
    validity: str | None,
) -> OutcomeFilter:
    """Return what the options mean, for any sweep and device; raises UserError."""
    begin, end = _moment("--since", since), _moment("--until", until)
    if begin is not None and end is not None and begin >= end:
        tried = f"use --since {since!r} with --until {until!r}"
        raise UserError(tried, "it is not earlier", "Let --since be the earlier one.")
    omitted = load_catalog().omitted if knob else nothing_omitted
    cell = CellFilter(workload, scenario, stack, knobs_of(knob or ()), omitted)
    return OutcomeFilter(
        cell=cell,
        tags=frozenset(tag or ()),
        validity=Validity(validity) if validity else None,
        since=begin,
        until=end,
    )


def require_known(wanted: OutcomeFilter, store: FarmReader, catalog: Catalog) -> None:
    """Raise NotFound for a name that neither the farm nor the catalogue knows.

    Called if nothing was found: a result may be of a workload that is gone.
    """
    require_tags(wanted.tags, store)
    cell = wanted.cell
    ever = (*store.fleet()[1], *store.forgotten())
    devices = [registered.device.id for registered in ever]
    named: list[tuple[str, str | None, Collection[str], str]] = [
        ("device", wanted.device, devices, "device list"),
        ("workload", cell.workload, catalog.workloads, "workload list"),
        ("stack", cell.stack, catalog.stacks, "stacks list"),
        ("scenario", cell.scenario, catalog.scenarios, "scenario list"),
        *(("knob", name, _knobs(catalog), "workload show WORKLOAD") for name in cell.knobs),
    ]
    for noun, name, known, see in named:
        if name is not None and name not in known:
            tried = f"find results of {noun} {name[:LONGEST]!r}"
            missing = (
                "device ever registered" if noun == "device" else f"{noun} is in the catalogue"
            )
            why = f"nothing is stored that fits, and no such {missing}"
            raise NotFound(tried, why, f"Run `benchfarm {see}`.")


def require_tags(wanted: Collection[str], store: FarmReader) -> None:
    """Raise NotFound for a tag that no sweep has."""
    known = {tag for one in store.annotations().values() for tag in one.tags}
    for tag in sorted(wanted):
        if tag not in known:
            near = did_you_mean(tag, sorted(known))
            said = f"Known: {', '.join(sorted(known)[:TAGS_SAID]) or 'none yet'}."
            raise NotFound(f"find sweeps with tag {tag[:LONGEST]!r}", "none has it", near + said)


def _knobs(catalog: Catalog) -> set[str]:
    """Return the names of all knobs."""
    owners = (catalog.workloads, catalog.stacks, catalog.scenarios, catalog.launch)
    return {name for manifests in owners for one in manifests.values() for name in one.knobs}


def _moment(option: str, text: str | None) -> float | None:
    """Return a date, or a span before now, in seconds since the epoch; raises UserError."""
    if text is None:
        return None
    if text[-1:] in ("s", "m", "h", "d"):
        return time.time() - parse_seconds(option, text)
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        remedy = "Write 2d, 2026-11-25 or 2026-11-25T14:30; dates are in UTC."
        raise UserError(
            f"use {option} {text!r}", "it is neither a date nor a span", remedy
        ) from error
