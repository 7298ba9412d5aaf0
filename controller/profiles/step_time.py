"""What a profile's step takes as a whole, beside what its parts come to. Pure."""

from __future__ import annotations

from controller.contracts.profile import ProfileSummary


def step_time(summary: ProfileSummary, parts_s: float) -> float:
    """Return the step as timed; else what its parts come to, but of several threads as traced.

    A trace that marks no steps has time between its ops that is in no part. parts_s: seconds of all
    parts of the step.
    """
    traced_s = summary.traced_step_s if summary.op_threads > 1 else None
    known = (summary.step_s, traced_s)
    return next((of for of in known if of is not None), parts_s)
