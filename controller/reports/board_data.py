"""What a board shows, as files for other programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from controller.contracts.base import canonical_json
from controller.reports.csv_text import csv_text
from controller.reports.views.board_model import Board, BoardRanking, BoardRow, BoardRun, Cost
from controller.reports.views.model import Metric

FORMAT: Final = 1
"""Of both files; raised when a field changes its meaning or goes away."""
_COLUMNS: Final = (
    *("row", "task", "workload", "scenario", "problem", "virtual", "rank"),
    *("device", "device_name", "device_model", "imported_from", "stack", "knobs", "cell_key"),
    *("metric", "unit", "value", "low", "high", "vs_best"),
    *("quality_metric", "quality", "quality_target", "random_weights"),
    *("valid", "disturbed", "invalid", "failed", "price_per_hour", "currency", "costs", "runs"),
)


def board_json(board: Board) -> str:
    """Return a board as JSON: every figure in full precision, with the runs it comes from."""
    told = {
        "format": FORMAT,
        "title": board.title,
        "facts": dict(board.facts),
        "notes": board.notes,
        "not_verified": board.not_verified,
        "currency": board.currency,
        "rankings": [_ranking(one) for one in board.rankings],
    }
    return json.dumps(told, indent=1) + "\n"


def board_csv(board: Board) -> str:
    """Return a line for each row."""
    lines = (
        _line(ranking, row, board.currency) for ranking in board.rankings for row in ranking.rows
    )
    return csv_text(_COLUMNS, ([line[name] for name in _COLUMNS] for line in lines))


def _ranking(one: BoardRanking) -> dict[str, Any]:
    ranking = one.ranking
    quality = ranking.columns.quality
    return {
        "task": ranking.name,
        "workload": ranking.workload,
        "scenario": ranking.scenario,
        "problem": ranking.problem,
        "virtual": ranking.virtual,
        "metric": _metric(ranking.columns.metric),
        "quality_metric": _metric(quality.metric) if quality else None,
        "quality_target": quality.target if quality else None,
        "verdicts": ranking.verdicts,
        "rows": [_row(one, row) for row in one.rows],
    }


def _metric(metric: Metric) -> dict[str, str]:
    return {"name": metric.name, "unit": metric.unit.value}


def _row(of: BoardRanking, one: BoardRow) -> dict[str, Any]:
    row, details = one.row, of.ranking.columns.details
    best = row.vs_best
    return {
        "row": one.key,
        "rank": row.rank,
        "device": {
            "id": row.device.id,
            "name": row.device.name,
            "model": row.device.model,
            "virtual": row.device.virtual,
            "emulated": row.device.emulated,
            "imported_from": row.device.imported_from,
        },
        "stack": row.stack,
        "knobs": dict(row.all_knobs),
        "cell_key": row.cell_key,
        "value": row.median,
        "interval": row.interval,
        "vs_best": best.value if best else None,
        "vs_best_interval": best.interval if best else None,
        "quality": row.quality,
        "metrics": {
            metric.name: {"value": value, "unit": metric.unit.value}
            for metric, value in zip(details, row.details, strict=True)
            if value is not None
        },
        "random_weights": row.random_weights,
        "results": _counts(one),
        "reasons": row.reasons,
        "costs": [_cost(cost) for cost in one.costs],
        "runs": [_run(run) for run in one.runs],
    }


def _counts(one: BoardRow) -> dict[str, int]:
    row = one.row
    return {
        "valid": row.valid,
        "disturbed": row.disturbed,
        "invalid": row.invalid,
        "failed": row.failed,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "amount": cost.amount,
        "of": cost.of,
        "price_per_hour": cost.an_hour,
        "metric": cost.metric,
        "value": cost.value,
    }


def _run(run: BoardRun) -> dict[str, Any]:
    result = run.result
    return {
        "run": result.run_id,
        "sweep": result.sweep_id,
        "repeat": result.repeat,
        "attempt": result.attempt,
        "validity": result.validity.value,
        "used": run.used,
        "value": run.value,
        **run.published.model_dump(mode="json"),
    }


def _line(ranking: BoardRanking, one: BoardRow, currency: str) -> Mapping[str, object]:
    """Return a row of the CSV, by its columns."""
    of, told = _ranking_alone(ranking), _row(ranking, one)
    device = told["device"]
    low, high = told["interval"] or (None, None)
    return {
        **of,
        **{name: told[name] for name in ("row", "rank", "stack", "cell_key", "value", "vs_best")},
        **{name: told[name] for name in ("quality", "random_weights")},
        **_counts(one),
        "device": device["id"],
        "device_name": device["name"],
        "device_model": device["model"],
        "imported_from": device["imported_from"],
        "knobs": canonical_json(told["knobs"]),
        "low": low,
        "high": high,
        "price_per_hour": one.costs[0].an_hour if one.costs else None,
        "currency": currency if one.costs else "",
        "costs": "; ".join(f"{cost.amount!r} a {cost.of}" for cost in one.costs),
        "runs": " ".join(run.result.run_id for run in one.runs if run.used),
    }


def _ranking_alone(one: BoardRanking) -> dict[str, object]:
    ranking, quality = one.ranking, one.ranking.columns.quality
    metric = ranking.columns.metric
    return {
        "task": ranking.name,
        "workload": ranking.workload,
        "scenario": ranking.scenario,
        "problem": ranking.problem,
        "virtual": ranking.virtual,
        "metric": metric.name,
        "unit": metric.unit.value,
        "quality_metric": quality.metric.name if quality else "",
        "quality_target": quality.target if quality else None,
    }
