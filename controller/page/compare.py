"""Comparing any devices, stacks, workloads and scenarios: the views and charts of reports."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.api.problems import InvalidRequest
from controller.api.queries import MAX_WORD_CHARACTERS
from controller.api.reads import Reading, record_of
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.outcome_filter import Chosen, OutcomeFilter, PageRequest
from controller.contracts.policy import lab_limits
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.version import installed_version
from controller.page.kept import Kept, marker_of
from controller.platform.terminal import LONGEST
from controller.reports.groups import grouped
from controller.reports.html.page import Page
from controller.reports.html.report import report_page
from controller.reports.views.common import Made, measured_facts, view_of
from controller.reports.views.reference import Baseline
from controller.reports.views.sweep import SweepData, sweep_view

NAMES: Final = ("device", "workload", "stack", "scenario")
"""Parameters, each as often as wanted."""
MOST_VALUES: Final = 200
REPEATS: Final = 5
"""Newest results, and failures, that are taken of each cell on each device."""
MOST_RESULTS: Final = 3000
MOST_FAILED: Final = 200
"""Failures of a comparison, each with its last output."""
MOST_FAILURES: Final = 100
"""Those of a sweep's report."""
MANIFESTS_S: Final = 30.0
"""For so long manifests that were read stand."""
REPORT_S: Final = 600.0
"""For so long a report stands if nothing is stored."""

REPORT_REST: Final = 20.0
"""So many times as long as all kept reports took, each stands at least, whatever is stored."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A name that may be compared."""

    name: str
    """As the parameter has it."""
    shown: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Choices:
    """The names of one parameter."""

    parameter: str
    title: str
    of: Sequence[Choice]

    @property
    def count(self) -> int:
        """How many are chosen."""
        return sum(one.chosen for one in self.of)


def chosen_of(pairs: Iterable[tuple[str, str]]) -> Chosen:
    """Return what the parameters of a request choose; raises InvalidRequest."""
    found: dict[str, set[str]] = {name: set() for name in NAMES}
    for name, value in pairs:
        if name not in found:
            remedy = f"Parameters are {', '.join(NAMES)}."
            raise InvalidRequest(f"use parameter {name[:LONGEST]!r}", "it is unknown", remedy)
        if len(value) > MAX_WORD_CHARACTERS or len(found[name]) >= MOST_VALUES:
            seen = f"there are more than {MOST_VALUES}, or one is too long"
            raise InvalidRequest(f"use parameter {name}", seen, "Choose fewer.")
        found[name] |= {value} if value else set()
    return Chosen(**{f"{name}s": frozenset(values) for name, values in found.items()})


def choices(farm: Reading, chosen: Chosen) -> list[Choices]:
    """Return what can be compared."""
    kinds = farm.store.measured_kinds()
    fleet = [known.labelled for known in farm.store.fleet()[1]]
    devices = {device.id: f"{device.shown}{device.likeness}" for device in fleet}
    return [
        Choices("device", "Devices", [*_listed(devices, chosen.devices)]),
        *(
            Choices(
                name,
                f"{name.capitalize()}s",
                [*_listed({n: n for n in sorted({getattr(k, name) for k in kinds})}, of)],
            )
            for name, of in (
                ("workload", chosen.workloads),
                ("stack", chosen.stacks),
                ("scenario", chosen.scenarios),
            )
        ),
    ]


def _listed(names: Mapping[str, str], chosen: frozenset[str]) -> Iterator[Choice]:
    for name in (*names, *sorted(chosen - names.keys())):
        yield Choice(name, names.get(name, name), name in chosen)


def comparison(
    farm: Reading, kept: Kept, reports: Kept, chosen: Chosen
) -> tuple[Page, Sequence[str]]:
    """Return the page that sets results against each other, and what it leaves out.

    kept: has the manifests; reports: what was returned.
    """

    def make() -> tuple[Page, Sequence[str]]:
        found, more = farm.store.newest_of_cells(chosen, REPEATS, MOST_RESULTS)
        failures, more_failed = farm.store.newest_failures_of_cells(chosen, REPEATS, MOST_FAILED)
        catalog = catalog_of(kept)
        results, notes = _ranked(found, more, catalog)
        if more_failed:
            notes.append(f"Only the newest {MOST_FAILED} failures are taken.")
        return _page(results, _known(failures, catalog), catalog), notes

    marker = marker_of(farm.home.store)
    return reports.get(("compare", chosen), marker, REPORT_S, make, REPORT_REST)


def sweep_report(
    farm: Reading, kept: Kept, reports: Kept, sweep_id: str
) -> tuple[Page, Sequence[str]]:
    """Return the report of a sweep as a page, and what it leaves out; raises NotFound.

    kept and reports: as `comparison` has them.
    """

    def make() -> tuple[Page, Sequence[str]]:
        record = record_of(farm.store, sweep_id)
        wanted, catalog = OutcomeFilter(sweep_id=sweep_id), catalog_of(kept)
        page = farm.store.result_page(wanted, PageRequest(size=MOST_RESULTS, descending=True))
        failures = farm.store.newest_failures(wanted, MOST_FAILURES)
        by_age = page.results[::-1]
        found = sorted(by_age, key=lambda one: not one.counted)
        results, notes = _ranked(found, page.last is not None, catalog)
        known = _known(failures[::-1], catalog)
        words = farm.store.annotations(sweep_id).get(sweep_id)
        view = sweep_view(SweepData(record, (), results, known, words), catalog, _made())
        if page.left_out:
            notes.append(f"Left out: {page.left_out} that are damaged.")
        if len(failures) == MOST_FAILURES:
            notes.append(f"Only the newest {MOST_FAILURES} failures are shown.")
        return report_page(view), notes

    marker = marker_of(farm.home.store)
    return reports.get(("report", sweep_id), marker, REPORT_S, make, REPORT_REST)


def catalog_of(kept: Kept) -> Catalog:
    """Return the manifests; raises SweepInvalid."""
    return kept.get("catalog", None, MANIFESTS_S, load_catalog)


def _page(
    results: Sequence[StoredResult], failures: Sequence[StoredFailure], catalog: Catalog
) -> Page:
    newest = "The newest results and failures of each cell on each device"
    view = view_of(
        title="Compare",
        description=f"{newest}, {REPEATS} of each at most.",
        facts=measured_facts(results, _made()),
        groups=grouped(results, failures),
        results=results,
        failures=failures,
        reference=Baseline({}, catalog),
        catalog=catalog,
    )
    return report_page(view)


def _known(failures: Sequence[StoredFailure], catalog: Catalog) -> list[StoredFailure]:
    return [one for one in failures if one.scenario in catalog.scenarios]


def _ranked(
    found: Sequence[StoredResult], more: bool, catalog: Catalog
) -> tuple[list[StoredResult], list[str]]:
    """Return the results that this release can rank, and sentences about the others."""
    known = [one for one in found if one.scenario in catalog.scenarios]
    results = [one for one in known if one.profile is None]
    notes = []
    if more:
        said = "choose fewer devices, workloads, stacks or scenarios to see older ones"
        notes.append(f"Only the newest {MOST_RESULTS} results are taken: {said}.")
    if unknown := len(found) - len(known):
        notes.append(f"Left out: {unknown} of scenarios that this release does not have.")
    if profiled := len(known) - len(results):
        notes.append(f"Left out: {profiled} of profiled runs, which are ranked with nothing.")
    return results, notes


def _made() -> Made:
    return Made(time.time(), installed_version(), lab_limits())
