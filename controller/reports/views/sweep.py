"""The report of one sweep. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.contracts.annotations import SweepAnnotations
from controller.contracts.catalog import Catalog
from controller.contracts.imported import ImportedResult
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.contracts.sweep import Sweep, side_labels
from controller.reports.groups import grouped
from controller.reports.views.common import Made, measured_facts, moment, view_of
from controller.reports.views.model import ReportView
from controller.reports.views.reference import Baseline


@dataclass(frozen=True, slots=True)
class SweepData:
    """All stored data of one sweep."""

    record: SweepRecord
    runs: Sequence[Run]
    results: Sequence[StoredResult]
    failures: Sequence[StoredFailure]
    annotations: SweepAnnotations | None = None
    imported: Sequence[ImportedResult] = ()
    """Published results to stand beside the sweep's own."""


def sweep_view(data: SweepData, catalog: Catalog, made: Made) -> ReportView:
    """Return the view of a sweep's report; raises NotFound for an unknown scenario."""
    sweep = data.record.sweep
    states = Counter(run.state.value for run in data.runs)
    axes = [f"{name} {', '.join(map(str, values))}" for name, values in sweep.knobs.items()]
    recipes = [
        f"{name} ({', '.join(f'{knob}={value}' for knob, value in recipe.items())})"
        for name, recipe in sweep.recipes.items()
    ]
    waits = ", awaiting those that were away" if sweep.awaits else ""
    facts = {
        "Sweep": data.record.sweep_id,
        "Submitted": moment(data.record.submitted_at),
        **_words(data.annotations),
        "Runs": ", ".join(f"{count} {state}" for state, count in states.items()),
        "Workloads": ", ".join(sweep.workload),
        "Stacks": ", ".join(sweep.stack or _of_recipes(sweep)),
        "Scenarios": ", ".join(sweep.scenario),
        "Knobs": "; ".join(axes),
        "Recipes": "; ".join(recipes),
        "Paired": _paired(sweep),
        "Baseline": ", ".join(f"{name}={value}" for name, value in sweep.baseline.items()),
        "Repeats": str(sweep.repeats),
        "Asked for": f"{' or '.join(sweep.devices)} ({sweep.run_on}{waits})",
        **measured_facts(data.results, made),
    }
    return view_of(
        title=f"Sweep {sweep.name}",
        description=sweep.description,
        facts=facts,
        groups=grouped(data.results, data.failures),
        results=data.results,
        failures=data.failures,
        reference=Baseline(sweep.baseline, catalog),
        catalog=catalog,
        imported=data.imported,
    )


def _words(annotations: SweepAnnotations | None) -> dict[str, str]:
    """Return the tags and notes of people."""
    if annotations is None:
        return {}
    notes = {f"Note {note.number}": note.line for note in annotations.notes}
    return {"Tags": ", ".join(annotations.tags), **notes}


def _of_recipes(sweep: Sweep) -> Iterable[str]:
    """Return the stacks that recipes name, each once."""
    named = (recipe.get("stack") for recipe in sweep.recipes.values())
    return dict.fromkeys(str(stack) for stack in named if stack)


def _paired(sweep: Sweep) -> str:
    if sweep.paired is None:
        return ""
    pairs = [" vs ".join(side_labels(sweep.paired.a, b)) for b in sweep.paired.b]
    return f"{'; '.join(pairs)}, to a width of {sweep.paired.width:g}"
