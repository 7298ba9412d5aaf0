"""How outcomes of audits are stored. Pure."""

from __future__ import annotations

from controller.contracts.audit import AUDIT, OWN_VALIDITY, audit_of
from controller.contracts.result import Outcome, Result, Validity
from controller.contracts.run import Run


def reason_of(audit: str) -> str:
    """Return why the result of an audit's run is INVALID."""
    return f"audit {audit}: it shows something of another result, and is none itself"


def as_audited(outcome: Outcome, run: Run) -> Outcome:
    """Return an outcome as it is stored: the result of an audit's run is INVALID.

    Only VALID results are ranked, compared, used as baselines or exported. What counts is the run's
    own cell, so an agent's word can't make a result of it. A result that calls itself an audit's
    without its cell saying so is none either. Its own validity is kept as a fact.
    """
    if not isinstance(outcome, Result):
        return outcome
    said = outcome.environment.get(AUDIT)
    audit = audit_of(run.cell.knobs) or (str(said) if said else None)
    if audit is None:
        return outcome
    reason = reason_of(audit)
    if outcome.validity is Validity.INVALID and reason in outcome.reasons:
        return outcome
    return outcome.model_copy(
        update={
            "validity": Validity.INVALID,
            "reasons": tuple(dict.fromkeys((reason, *outcome.reasons))),
            "environment": {
                **outcome.environment,
                AUDIT: audit,
                OWN_VALIDITY: str(outcome.validity),
            },
        }
    )
