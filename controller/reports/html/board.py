"""A board as static pages: one of all rankings, one for each device, and one for each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.reports.html.figures import FIGURES
from controller.reports.html.page import Page, render
from controller.reports.views.board import MLPERF
from controller.reports.views.board_model import Board, BoardRun
from controller.reports.views.common import moment
from controller.reports.views.notes import row_notes

VERIFY: Final = "benchfarm results verify"
INDEX: Final = "index.html"
_DETAIL: Final = "mlperf_log_detail.txt"


@dataclass(frozen=True, slots=True)
class Proof:
    """How a reader checks a board's files."""

    sums: str
    """File with the checksums."""
    signature: str
    """File with their signature."""
    namespace: str
    """What the signature is for."""
    signer: str = ""
    """Fingerprint of the key; empty for a board that nobody signed."""


def board_pages(board: Board, proof: Proof) -> Iterator[tuple[str, str]]:
    """Yield the path of each page in the board's folder, and the page as HTML."""
    shared = _shared(board, proof)
    yield (
        INDEX,
        render(
            Page(
                title=board.title,
                description="Static pages: they load nothing, and work without a network.",
                template="board.html",
                contents=_contents(board),
                charts=(),
                context=shared,
                scripts=("board.js",),
            )
        ),
    )
    for device in board.devices:
        title = str(device.name)
        contents = (("rankings", "Rank by task"), ("conditions", "Conditions"))
        context = {**shared, "one": device}
        page = Page(title, "", "board_device.html", contents, (), context)
        yield f"devices/{device.key}.html", render(page)
    yield from _rows(board, shared)


def _rows(board: Board, shared: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for of in board.rankings:
        for placed in of.rows:
            runs = ((f"run-{n}", f"Run {n}") for n in range(1, len(placed.runs) + 1))
            page = Page(
                title=f"{placed.row.label}: {of.ranking.name}",
                description="Where this row comes from.",
                template="board_row.html",
                contents=(("figure", "Figure"), ("results", "Results"), *runs, _CONDITIONS),
                charts=(),
                context={**shared, "of": of, "placed": placed},
            )
            yield f"rows/{placed.key}.html", render(page)


_CONDITIONS: Final = ("conditions", "Conditions")


def _shared(board: Board, proof: Proof) -> dict[str, Any]:
    return {
        **FIGURES,
        "board": board,
        "device_keys": board.device_keys,
        "currency": board.currency,
        "mlperf": MLPERF,
        "row_notes": row_notes,
        "moment": moment,
        "has_logs": _has_logs,
        "verify": VERIFY,
        "sums": proof.sums,
        "signature": proof.signature,
        "namespace": proof.namespace,
        "signer": proof.signer,
    }


def _has_logs(run: BoardRun) -> bool:
    return any(file.name.endswith(_DETAIL) for file in run.published.files)


def _contents(board: Board) -> list[tuple[str, str]]:
    return [
        ("about", "About"),
        *([("scoreboard", "Devices at a glance")] if board.scoreboards else []),
        *((one.ranking.anchor, one.ranking.name) for one in board.rankings),
        ("data", "Data"),
        ("check", "Check it"),
    ]
