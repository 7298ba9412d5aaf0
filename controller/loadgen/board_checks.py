"""What a published board says of a run, against the stored results that it is computed from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final

from controller.contracts.published import RESULT, RUNS
from controller.contracts.records import StoredResult
from controller.loadgen.checks import Check, equal, unchecked
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.texts import brief

BOARD: Final = "data/board.json"
_FOLDER: Final = re.compile(rf"{RUNS}/(?!\.)[\w.-]+", re.ASCII)
Json = Mapping[str, Any]
Results = Mapping[str, StoredResult]
"""Stored results by their folders in the board."""


def board_checks(told: object, folder: str, results: Results) -> Iterator[Check]:
    """Yield the checks of each figure that a board says of a run, and of the rows it is in.

    told: the content of data/board.json. Raises LogUnreadable for one that is no board's.
    """
    try:
        found = [*_rows_with(told, folder)]
        for ranking, row in found:
            yield from _run_checks(ranking, row, folder, results[folder])
            yield from _row_checks(ranking, row, results)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"{type(error).__name__}: {error!s:.80}"
        raise LogUnreadable(f"{BOARD}: not as benchfarm writes it: {what}") from error
    if not found:
        yield unchecked(BOARD, None, "it has no row with this run")


def folders_of(told: object) -> list[str]:
    """Return the folders of runs that a board names; raises LogUnreadable, as board_checks."""
    try:
        found = [run["folder"] for _, row in _rows(told) for run in row["runs"]]
        odd = next((name for name in found if not _FOLDER.fullmatch(name)), None)
    except (KeyError, TypeError) as error:
        raise LogUnreadable(f"{BOARD}: not as benchfarm writes it") from error
    if odd is not None:
        raise LogUnreadable(f"{BOARD}: {brief(odd)!r} is no folder of a run")
    return found


def _rows(told: Any) -> Iterator[tuple[Json, Json]]:  # noqa: ANN401 - JSON
    for ranking in told["rankings"]:
        for row in ranking["rows"]:
            yield ranking, row


def _rows_with(told: object, folder: str) -> Iterator[tuple[Json, Json]]:
    for ranking, row in _rows(told):
        if any(run["folder"] == folder for run in row["runs"]):
            yield ranking, row


def _run_checks(ranking: Json, row: Json, folder: str, result: StoredResult) -> Iterator[Check]:
    name, by = ranking["metric"]["name"], RESULT
    metric = result.metrics.get(name)
    for run in (each for each in row["runs"] if each["folder"] == folder):
        expected = {
            name: metric.value if metric else None,
            "run": result.run_id,
            "sweep": result.sweep_id,
            "repeat": result.repeat,
            "attempt": result.attempt,
            "validity": result.validity.value,
        }
        for figure, value in expected.items():
            said = run["value" if figure == name else figure]
            yield equal(f"{BOARD}: {figure}", said, value, by)
    yield equal(f"{BOARD}: scenario", ranking["scenario"], result.scenario, by)
    yield equal(f"{BOARD}: device", row["device"]["id"], result.device, by)
    yield equal(f"{BOARD}: cell", row["cell_key"], result.cell_key, by)


def _row_checks(ranking: Json, row: Json, results: Results) -> Iterator[Check]:
    """Yield the checks of a row's figures, from the results that it uses.

    The figure that ranks it is the median of all their samples; others are medians of their values.
    """
    used = [run["folder"] for run in row["runs"] if run["used"]]
    if absent := [folder for folder in used if folder not in results]:
        why = f"{absent[0]}/{RESULT} is not there or can't be read"
        yield unchecked(f"{BOARD}: row", row["row"], why)
        return
    ranked, quality = ranking["metric"]["name"], ranking["quality_metric"]
    said = {name: metric["value"] for name, metric in row["metrics"].items()}
    said |= {quality["name"]: row["quality"]} if quality else {}
    said |= {ranked: row["value"]}
    whole = all(run["value"] is not None for run in row["runs"])
    for name, value in said.items():
        found = [m for folder in used if (m := results[folder].metrics.get(name))]
        drawn = [sample for metric in found for sample in metric.drawn]
        values = drawn if name == ranked else [metric.value for metric in found]
        expected, figure = median(values) if values else None, f"{BOARD}: row's {name}"
        if name != ranked and not whole:
            yield unchecked(figure, value, "a result of the row lacks the metric that ranks it")
        elif value is not None or expected is not None:
            yield equal(figure, value, expected, f"{RESULT} of its runs")
