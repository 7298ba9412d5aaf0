"""What a published board says of its runs, against the stored results that it comes from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller.contracts.published import RESULT, RUNS
from controller.contracts.records import StoredResult
from controller.loadgen.checks import Check, equal, judged, unchecked
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.row_checks import BOARD, Json, RowOfBoard, rank_checks, row_checks
from controller.loadgen.texts import brief

_FOLDER: Final = re.compile(rf"{RUNS}/(?!\.)[\w.-]+", re.ASCII)
Results = Mapping[str, StoredResult]
"""Stored results by their folders in the board."""


def board_checks(told: object, results: Results) -> dict[str, list[Check]]:
    """Return the checks of each figure that a board says of a run and of its rows, by folder.

    told: the content of data/board.json. Raises LogUnreadable for one that is no board's.
    """
    found: defaultdict[str, list[Check]] = defaultdict(list)
    try:
        for ranking in _rankings(told):
            of_rows = _ranking_checks(ranking, results)
            for row, checks in zip(ranking["rows"], of_rows, strict=True):
                for run in row["runs"]:
                    if result := results.get(run["folder"]):
                        found[run["folder"]] += [*_run_checks(ranking, row, run, result), *checks]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"{type(error).__name__}: {error!s:.80}"
        raise LogUnreadable(f"{BOARD}: not as benchfarm writes it: {what}") from error
    return found


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


def _rankings(told: Any) -> list[Json]:  # noqa: ANN401 - JSON
    return list(told["rankings"])


def _rows(told: object) -> Iterator[tuple[Json, Json]]:
    for ranking in _rankings(told):
        for row in ranking["rows"]:
            yield ranking, row


def _run_checks(ranking: Json, row: Json, run: Json, result: StoredResult) -> Iterator[Check]:
    name, device = ranking["metric"]["name"], row["device"]
    metric = result.metrics.get(name)
    of_run = {
        name: metric.value if metric else None,
        "run": result.run_id,
        "sweep": result.sweep_id,
        "repeat": result.repeat,
        "attempt": result.attempt,
        "validity": result.validity.value,
    }
    for figure, value in of_run.items():
        yield equal(f"{BOARD}: {figure}", run["value" if figure == name else figure], value, RESULT)
    if metric:
        yield equal(f"{BOARD}: unit", ranking["metric"]["unit"], metric.unit.value, RESULT)
    said: dict[str, tuple[object, object]] = {
        "scenario": (ranking["scenario"], result.scenario),
        "workload": (ranking["workload"], result.workload),
        "virtual": (ranking["virtual"], result.virtual),
        "device": (device["id"], result.device),
        "device's virtual": (device["virtual"], result.virtual),
        "imported": (bool(device.get("imported_from")), bool(result.imported_from)),
        "stack": (row["stack"], result.stack),
        "cell": (row["cell_key"], result.cell_key),
    }
    for figure, (shown, known) in said.items():
        yield equal(f"{BOARD}: {figure}", shown, known, RESULT)
    same = row["knobs"] == result.knobs
    yield judged(f"{BOARD}: knobs", row["knobs"], result.knobs, RESULT, same=same)


def _ranking_checks(ranking: Json, results: Results) -> list[list[Check]]:
    """Return the checks of each row of a ranking."""
    metric, quality = ranking["metric"]["name"], ranking["quality_metric"]
    found: list[list[Check]] = []
    rows: list[RowOfBoard | None] = []
    for told in ranking["rows"]:
        folders = [run["folder"] for run in told["runs"]]
        absent = next((folder for folder in folders if folder not in results), None)
        why = f"{absent}/{RESULT} is not there or can't be read"
        found.append([unchecked(f"{BOARD}: row", told["row"], why)] if absent else [])
        of = {} if absent else {folder: results[folder] for folder in folders}
        rows.append(None if absent else RowOfBoard(told, of, metric))
    whole = [row for row in rows if row]
    ranked = {id(row): row.ranked for row in whole}
    for row, checks in zip(rows, found, strict=True):
        if row:
            checks += row_checks(row, ranked[id(row)], quality["name"] if quality else "")
        if len(whole) < len(rows):
            checks.append(unchecked(f"{BOARD}: rank", None, "a row of the ranking lacks a result"))
    if len(whole) == len(rows):
        figures, unit = [ranked[id(row)] for row in whole], ranking["metric"]["unit"]
        for number, check in rank_checks(whole, figures, unit):
            found[number].append(check)
    return found
