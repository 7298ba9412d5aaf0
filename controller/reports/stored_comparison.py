"""The comparison of two cells by their stored results, as commands and the API make it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.contracts.catalog import Catalog
from controller.contracts.errors import UserError
from controller.contracts.records import StoredResult
from controller.reports.comparability import difference
from controller.reports.comparison import Comparison, compare_pairs, compare_runs
from controller.reports.result_selection import Wanted, choose, stray_knob
from controller.reports.sides import with_omitted


def compare_stored(
    results: Sequence[StoredResult], wanted: Wanted, catalog: Catalog, remedy: str, *, force: bool
) -> tuple[Comparison, str | None]:
    """Return the comparison, and what differs between the sides that should not, or None.

    remedy: what to do where they differ; force: compare nevertheless. Raises NotFound if a side has
    no results, and UserError if one is ambiguous, if the sides differ, if the scenario measures
    no speed, or if pairs don't tell their metric.
    """
    scenario = catalog.scenarios[wanted.scenario]
    if not scenario.compares_speed:
        tried = f"compare results of scenario {scenario.name}"
        instead = scenario.instead_of_pairing or "Compare another scenario."
        raise UserError(tried, f"its {scenario.metric} is no speed", instead)
    chosen = choose([with_omitted(result, catalog) for result in results], wanted)
    unlike = difference(chosen.paired or chosen.a, chosen.b, catalog.own_facts)
    unlike = unlike or stray_knob(chosen, wanted)
    if unlike and not force:
        raise UserError("compare stored results", unlike, remedy)
    if chosen.paired:
        return compare_pairs(chosen.paired, catalog, chosen.sides), unlike
    return compare_runs(chosen.a, chosen.b, scenario.metric, catalog), unlike
