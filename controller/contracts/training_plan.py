"""How long training to the quality target takes: epochs as known, times as measured."""

from __future__ import annotations

from controller.contracts.base import Contract, Scalar
from controller.contracts.manifests import ConvergencePoint


class Estimate(Contract):
    """A value with its 95 % interval; None: nothing tells how well it is known."""

    value: float
    low: float | None = None
    high: float | None = None


class PlannedTraining(Contract):
    """Training on one device, or on several at once, by a recipe that was measured there."""

    devices: tuple[str, ...]
    shown: tuple[str, ...]
    """The devices' names."""
    virtual: bool
    stacks: tuple[str, ...]
    """Each device's."""
    knobs: dict[str, Scalar] = {}
    """Of the cell; none of several cells."""
    cell_keys: tuple[str, ...]
    """Each device's cell."""
    batch: int
    """Samples in a step, of all devices together."""
    runs: int
    """VALID results that the step's time is the median of."""
    step_s: Estimate
    epoch_s: Estimate
    epochs: Estimate
    train_s: Estimate
    took_s: Estimate | None = None
    """What trainings to the target took by the same recipe on that device; None: there is none."""
    took_runs: int = 0
    """VALID results that this is the median of."""
    unlike_published: tuple[str, ...] = ()
    """Knobs that differ from those that the epochs are published for."""
    notes: tuple[str, ...] = ()


class TrainingPlan(Contract):
    """Epochs against batch, and what they come to on measured devices."""

    workload: str
    source: str
    """Where the points were published, or which trainings they are of."""
    samples: int
    """Of the training set."""
    points: tuple[ConvergencePoint, ...]
    own: bool = False
    """Whether they are of trainings of the farm's own; a batch may then have several."""
    factor: float
    exponent: float
    """epochs = factor * batch ** exponent."""
    planned: tuple[PlannedTraining, ...]
    """Shortest first, those that are unlike what was published last."""
