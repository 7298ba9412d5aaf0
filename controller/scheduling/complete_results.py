"""The rule for results that lack what every result has. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.contracts.records import scores_only
from controller.contracts.result import Outcome, Result, Validity
from controller.contracts.sweep import Cell

UNEXPLAINED: Final = "its agent gave no reason"
CONTRADICTORY: Final = "its agent called it VALID and gave reasons why it is not"
UNPAIRED: Final = "it has no pairs, though it is of a paired comparison"


def as_complete(outcome: Outcome, cell: Cell, ranked_by: str) -> Outcome:
    """Return an outcome as it is stored: a result that contradicts itself or lacks its figure is
    INVALID.

    So a VALID result has no reasons, and any other has some. One that is not INVALID has the metric
    that ranks its scenario; of a paired comparison, its pairs and that metric of both sides. An
    INVALID one may lack them, as that of a training that has not reached its target.

    ranked_by: that metric; empty if it is not known.
    """
    if not isinstance(outcome, Result):
        return outcome
    objections = tuple(_objections(outcome, cell, ranked_by))
    reasons = (*outcome.reasons, *objections)
    if not reasons and outcome.validity is not Validity.VALID:
        reasons = (UNEXPLAINED,)
    if reasons == outcome.reasons:
        return outcome
    validity = Validity.INVALID if objections else outcome.validity
    return outcome.model_copy(update={"validity": validity, "reasons": reasons})


def _objections(result: Result, cell: Cell, ranked_by: str) -> Iterator[str]:
    if result.validity is Validity.INVALID:
        return
    if result.validity is Validity.VALID and result.reasons:
        yield CONTRADICTORY
    if cell.versus and not result.pairs:
        yield UNPAIRED
    if lacking := [name for name in _needed(cell, ranked_by) if name not in result.metrics]:
        yield f"it lacks {' and '.join(lacking)}, by which its scenario is ranked"


def _needed(cell: Cell, ranked_by: str) -> tuple[str, ...]:
    """Return the metrics without which a result has no figure."""
    if not ranked_by or scores_only(cell.knobs):
        return ()
    return (f"{ranked_by}_a", f"{ranked_by}_b") if cell.versus else (ranked_by,)
