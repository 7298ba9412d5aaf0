"""What advice realised: a paired comparison of the profiled cell with the advised change."""

from __future__ import annotations

from controller.contracts.advice import Remedy, Rule
from controller.contracts.base import Contract
from controller.contracts.result import Validity


class Prediction(Contract):
    """What one change is predicted to save of a step, by all rules that advise it."""

    remedy: Remedy
    rules: tuple[Rule, ...]
    low_s: float
    high_s: float
    share: float
    """Share of the step that the prediction is; without loading beside it, if it is of the change
    alone, as what is realised."""

    @property
    def predicted_s(self) -> float:
        """The middle of the interval."""
        return (self.low_s + self.high_s) / 2


class Realised(Contract):
    """What the change saved of the profiled step; less than 0 if it made the step longer.

    Bounds are those of the 95 % interval; None if there are too few pairs for one.
    """

    seconds: float
    low_s: float | None
    high_s: float | None
    share: float
    share_low: float | None
    share_high: float | None


class Proof(Contract):
    """A prediction against what a comparison realised."""

    prediction: Prediction
    not_provable: str = ""
    """Why no comparison was run; empty if one was."""
    sweep_id: str | None = None
    """Of the comparison."""
    validity: Validity | None = None
    """Of the comparison; None if nothing was compared."""
    reasons: tuple[str, ...] = ()
    """Why it is not VALID, or why nothing was compared."""
    realised: Realised | None = None
    inside: bool | None = None
    """Whether the predicted seconds lie in the realised interval; None unless the comparison is
    VALID and has an interval."""
    at_least_half: bool | None = None
    """Whether at least half of the predicted seconds was realised; None as above."""


class Proven(Contract):
    """All proofs of a profile's advice, and how many predictions held."""

    step_s: float
    """The profiled step, of which shares are realised."""
    notes: tuple[str, ...]
    """Why the predictions may not hold."""
    proofs: tuple[Proof, ...]
    counted: int
    """VALID comparisons with an interval, of changes whose predicted share is large enough."""
    inside: int
    """Of these, those whose predicted seconds lie in the realised interval."""
    at_least_half: int
    """Of these, those that realised at least half of the predicted seconds."""
