"""Imported results as the verbs read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controller.cli.common import DAMAGES_SAID, home
from controller.contracts.imported import ImportedResult
from controller.contracts.outcome_filter import OutcomeFilter
from controller.platform.terminal import say
from controller.store.imported import ImportedResults


def imported_results() -> list[ImportedResult]:
    """Return all imported results of this home; says which files are damaged."""
    found, damage = ImportedResults(home().path).results()
    for line in damage[:DAMAGES_SAID]:
        say(f"benchfarm: {line}", err=True)
    if (more := len(damage) - DAMAGES_SAID) > 0:
        say(f"benchfarm: and {more} more damaged files of imported results", err=True)
    return found


def those_of(results: Sequence[ImportedResult], wanted: OutcomeFilter) -> list[ImportedResult]:
    """Return the imported results that a filter keeps, in their order.

    A device is named by its id or its system; a sweep by the id that its round's results share.
    """
    return [result for result in results if _fits(result, wanted)]


def _fits(result: ImportedResult, wanted: OutcomeFilter) -> bool:
    names = (result.device, result.device_name, result.imported.system)
    if wanted.device is not None and wanted.device not in names:
        return False
    return replace(wanted, device=None).keeps(result)
