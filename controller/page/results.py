"""Results: the list, and one run with its samples, conditions and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.api.reads import Reading
from controller.contracts.artefacts import ArtefactRecord
from controller.contracts.errors import NotFound, UserError
from controller.contracts.facts import OwnFact, unit_of
from controller.contracts.provenance import FileState, Provenance
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Environment, Measurement
from controller.contracts.run import Run
from controller.page.compare import catalog_of
from controller.page.kept import Kept
from controller.page.run_files import RunFileList, files_of
from controller.page.sample_charts import samples_chart
from controller.platform.terminal import LONGEST
from controller.reports.figures import HEADINGS, fact_label, shown
from controller.reports.html.charts import Chart
from controller.reports.provenance import provenance_of, wanted_files
from controller.reports.views.conditions import fact_text

SAMPLES_SHOWN: Final = 1000
"""Samples of a metric that are listed; the chart has more."""
FIGURES_SHOWN: Final = 2
"""Metrics of a result in a list."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The raw samples of a metric."""

    name: str
    heading: str
    measured: Measurement
    chart: str
    """Anchor of their chart; empty without one."""

    @property
    def listed(self) -> Sequence[str]:
        """The first of them as texts."""
        unit = self.measured.unit
        return [shown(value, unit) for value in self.measured.samples[:SAMPLES_SHOWN]]

    @property
    def left_out(self) -> int:
        """How many are not listed."""
        return max(0, len(self.measured.samples) - SAMPLES_SHOWN)


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """An outcome of a run, and where it comes from."""

    anchor: str
    outcome: StoredResult | StoredFailure
    provenance: Provenance
    facts: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    """Kinds of facts, with names and values for people."""
    samples: Sequence[Samples] = ()

    @property
    def is_result(self) -> bool:
        """Whether it measured something."""
        return isinstance(self.outcome, StoredResult)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with all its attempts and outcomes."""

    run_id: str
    run: Run | None
    """None if its record can't be read."""
    outcomes: Sequence[OutcomeView]
    charts: Sequence[Chart]
    files: RunFileList
    fault: str
    """Why units of facts are unknown; empty if they are not."""


def figures_of(result: StoredResult) -> list[tuple[str, str]]:
    """Return the main metrics of a result in a list, as headings and values."""
    known = [name for name in HEADINGS if name in result.metrics]
    named = known or sorted(result.metrics)
    found = ((name, result.metrics[name]) for name in named[:FIGURES_SHOWN])
    return [(HEADINGS.get(n, n), shown(measured.value, measured.unit)) for n, measured in found]


def run_view(farm: Reading, kept: Kept, run_id: str) -> RunView:
    """Return a run; raises NotFound."""
    run, outcomes = farm.store.run(run_id), farm.store.outcomes_of(run_id)
    if run is None and not outcomes:
        raise NotFound(
            f"show run {run_id[:LONGEST]!r}",
            "there is none with this id",
            "Search for the beginning of its id, or open its sweep.",
        )
    listed = farm.store.artefacts(run_id) if outcomes else []
    own, fault = _own_facts(kept)
    sweeps = {record.sweep_id: record for record in farm.store.sweeps()} if outcomes else {}
    agents, charts, views = farm.store.fleet()[0] if outcomes else [], list[Chart](), []
    for number, outcome in enumerate(outcomes, 1):
        provenance = provenance_of(
            outcome, run, sweeps.get(outcome.sweep_id), agents, _unread(outcome, listed), own
        )
        samples = list[Samples]()
        if isinstance(outcome, StoredResult):
            samples, drawn = _samples(f"outcome-{number}", outcome)
            charts += drawn
        views.append(
            OutcomeView(f"outcome-{number}", outcome, provenance, _facts(provenance, own), samples)
        )
    return RunView(run_id, run, views, charts, files_of(farm, run_id), fault)


def _own_facts(kept: Kept) -> tuple[Mapping[str, OwnFact], str]:
    try:
        return catalog_of(kept).own_facts, ""
    except UserError as fault:
        return {}, f"cannot {fault.tried}: {fault.seen}"


def _unread(
    outcome: StoredResult | StoredFailure, listed: Sequence[ArtefactRecord]
) -> dict[str, tuple[str | None, FileState]]:
    """Return a state for each file: none is read for a page, which `results show` does."""
    wanted = wanted_files(outcome, listed)
    return {path: (sha256, FileState.UNCHECKED) for path, sha256 in wanted.items()}


def _facts(
    provenance: Provenance, own: Mapping[str, OwnFact]
) -> Sequence[tuple[str, Sequence[tuple[str, str]]]]:
    kinds: Sequence[tuple[str, Environment]] = (
        ("Conditions", provenance.conditions),
        ("Settings", provenance.settings),
        ("Device, software, model and data", provenance.identity),
    )
    return [
        (
            title,
            [
                (fact_label(name), fact_text(value, unit_of(name, own)))
                for name, value in of.items()
            ],
        )
        for title, of in kinds
        if of
    ]


def _samples(anchor: str, result: StoredResult) -> tuple[list[Samples], list[Chart]]:
    found, charts = [], []
    for number, (name, measured) in enumerate(result.metrics.items(), 1):
        if not measured.samples:
            continue
        heading = HEADINGS.get(name, name)
        chart = samples_chart(f"{anchor}-samples-{number}", heading, measured)
        charts.append(chart)
        found.append(Samples(name, heading, measured, chart.anchor))
    return found, charts
