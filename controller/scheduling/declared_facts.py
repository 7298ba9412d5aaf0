"""The rule for facts that nobody has declared: the result is INVALID. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.documents import short
from controller.contracts.facts import OwnFact, undeclared
from controller.contracts.result import Outcome, Result, Validity

NAMED: Final = 5
"""So many of them are named in the reason."""


def with_declared_facts(outcome: Outcome, own: Mapping[str, OwnFact]) -> Outcome:
    """Return an outcome as it is stored: a result with an undeclared fact is INVALID.

    The fact is stored, but nothing tells its unit, or whether results may be compared across it.
    own: what the catalogue's stacks and scenarios declare.
    """
    if not isinstance(outcome, Result) or not (names := undeclared(outcome.environment, own)):
        return outcome
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    reason = (
        f"undeclared facts: {', '.join(map(short, names[:NAMED]))}{more}. Declare them in the "
        "manifest of the stack or scenario, under facts"
    )
    reasons = tuple(dict.fromkeys((*outcome.reasons, reason)))
    return outcome.model_copy(update={"validity": Validity.INVALID, "reasons": reasons})
