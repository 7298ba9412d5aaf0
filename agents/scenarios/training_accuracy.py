"""The scenario training_accuracy: does a cell train as plain fp32 does?

The cell's model and the plain one (the workload's switches at their defaults, eager, fp32) begin
with the same weights and see the same batches. First their gradients are compared, tensor by
tensor, at these weights: with the cell in fp32, where a small error shows, and in its own number
format, beside what that format does to the plain model. Then both are trained, and the cell's
losses have to stay in a band around the plain ones'. How wide it is, more trainings tell: the plain
model's from weights that were nudged at random, as many as are needed to hold the cell's losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Final, TypeVar, cast

import torch

from agents.backends.protocol import OwnGradients, TrainingBackend
from agents.backends.stepping import OneProcess
from agents.backends.torch_eager.backend import TorchEager
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import (
    Blame,
    Environment,
    Failure,
    Measurement,
    Result,
    Validity,
)
from controller.contracts.units import Unit
from controller.contracts.wire import Progress
from controller.stats.following import (
    NUDGES,
    Curves,
    Dots,
    Limits,
    beside_nudged,
    gradient_objections,
    plain_objections,
    total,
)
from models.training import Batch, Outputs, TrainingWorkload

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

Step = TypeVar("Step")
BuildBackend = Callable[[Mapping[str, Scalar]], TrainingBackend]
OF_PROCESS: Final = "flush_denormals"
"""The knob that sets a mode of the whole process."""
PLAIN: Final = {"precision": "fp32", "memory_format": "contiguous"}
"""Knobs of the plain model's stack, eager torch."""
LIMITS: Final = {
    # Most seen, over all switches of RetinaNet at 96 px: scale 1e-5, residual 6e-4.
    "fp32": Limits(scale=1e-3, residual=0.01, loss=1e-3, nudge=1e-6),
    # In bf16, stack ipex scales gradients of RetinaNet's pyramid by 0.94 where stock autocast does
    # not: a smaller error shows in fp32 alone.
    "bf16": Limits(scale=0.08, residual=0.1, loss=0.02, nudge=2**-9),
}
"""How far a training in a number format may be from one in fp32."""
GRADIENT_FACTS: Final = {
    "fp32": ("gradient_scale_off_fp32", "gradient_residual_fp32"),
    "bf16": ("gradient_scale_off_bf16", "gradient_residual_bf16"),
}
COMPILED: Final = "_orig_mod."
"""Before the names of a compiled model's parameters."""


class Held:
    """An optimizer that leaves the weights as they are, so that all batches meet the same ones."""

    def __init__(self, model: Module) -> None:
        self._model = model

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients."""
        self._model.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        """Do nothing."""


class Pupil(OneProcess[Batch, Outputs]):
    """A model in training whose gradients can be read."""

    def gradients(self, number: int) -> dict[str, Tensor]:
        """Return the gradients of a batch, by parameter; the weights stay."""
        held = cast("Optimizer", Held(self.model))
        self._backend.step(self._workload, self.model, held, self._workload.batch(number))
        named = ((n, self._gradient(p)) for n, p in self.model.named_parameters())
        return {n.removeprefix(COMPILED): grad.detach() for n, grad in named if grad is not None}

    def _gradient(self, parameter: Tensor) -> Tensor | None:
        if isinstance(self._backend, OwnGradients):
            return self._backend.gradient(self._optimizer, parameter)
        return parameter.grad

    def trained(self) -> set[str]:
        """Return the names of the parameters that the optimizer changes."""
        held = {id(each) for group in self._optimizer.param_groups for each in group["params"]}
        named = self.model.named_parameters()
        return {name.removeprefix(COMPILED) for name, each in named if id(each) in held}

    def losses(self, steps: int) -> Iterator[float]:
        """Train, and yield the loss of each step."""
        for number in range(steps):
            self.load(number)
            yield self.step()

    def nudged_losses(self, steps: int, share: float, seed: int) -> Iterator[float]:
        """Train anew, from nudged weights, and yield the loss of each step."""
        self.start()
        self.nudge(share, seed)
        yield from self.losses(steps)

    @torch.no_grad()
    def nudge(self, share: float, seed: int) -> None:
        """Change each weight at random, up or down by a share of it."""
        numbers = torch.Generator().manual_seed(seed)
        for weight in self.model.parameters():
            signs = torch.randint(0, 2, weight.shape, generator=numbers) * 2 - 1
            weight.mul_(1 + share * signs)


def run_beside(
    plain: TrainingWorkload[Batch, Outputs],
    workload: TrainingWorkload[Batch, Outputs],
    build_backend: BuildBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Compare the gradients of `gradient_batches` batches, then the losses of `steps` steps.

    plain: the workload with its switches at their defaults. Raises WorkerFault, blame user, for a
    knob that the plain model, which trains in the same process, would have, too.
    """
    if knobs.get(OF_PROCESS):
        message = (
            f"cannot compare {OF_PROCESS}: it is a mode of the whole process, which the plain "
            "model would have, too. Leave it out here; scenario training takes it."
        )
        raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
    limits = LIMITS[str(knobs["precision"])]
    steps, batches = int(knobs["steps"]), int(knobs["gradient_batches"])
    precisions = dict.fromkeys(("fp32", str(knobs["precision"])))
    told = StepCounter(on_progress, len(precisions) * batches + 3 * steps)
    reference = Pupil(plain, TorchEager(PLAIN))
    reference.start()
    reasons: list[str] = []
    facts: Environment = {}
    for precision in precisions:
        cell = Pupil(workload, build_backend({**knobs, "precision": precision}))
        cell.start()
        dots = total(told.all(f"gradients in {precision}", compared(reference, cell, batches)))
        rounding = rounded(reference, plain, precision, batches)
        reasons += gradient_objections(dots, rounding, LIMITS[precision], precision)
        facts |= gradient_facts(dots, precision)
    expected = told.all("plain", reference.losses(steps))
    losses = told.all("training", cell.losses(steps))
    nudges = nudged(reference, limits.nudge, steps, told)
    curves, trained = beside_nudged(losses, expected, nudges, limits)
    reasons += plain_objections(expected, trained)
    return judged(
        reasons, curves, {**cell.environment(), **facts, "nudged_trainings": len(trained)}
    )


def nudged(
    reference: Pupil[Batch, Outputs], share: float, steps: int, told: StepCounter
) -> Iterator[list[float]]:
    """Train the reference from nudged weights, NUDGES times, and yield the losses of each."""
    for seed in range(1, NUDGES + 1):
        if seed > 1:
            told.expect(steps)
        yield told.all("plain, nudged", reference.nudged_losses(steps, share, seed))


class StepCounter:
    """Says how far a run is.

    count: steps that are known of at first; more may come.
    """

    def __init__(self, on_progress: Callable[[Progress], None], count: int) -> None:
        self._on_progress, self._count, self._done = on_progress, count, 0

    def expect(self, steps: int) -> None:
        """Add steps that are to be done too."""
        self._count += steps

    def all(self, phase: str, steps: Iterable[Step]) -> list[Step]:
        """Return all steps of a phase; say of each that it is done."""
        return list(map(partial(self._told, phase), steps))

    def _told(self, phase: str, step: Step) -> Step:
        self._done += 1
        values = {"loss": step} if isinstance(step, float) and math.isfinite(step) else {}
        self._on_progress(Progress(phase=phase, done=self._done, total=self._count, values=values))
        return step


def compared(
    reference: Pupil[Batch, Outputs], cell: Pupil[Batch, Outputs], batches: int
) -> Iterator[dict[str, Dots]]:
    """Yield what the gradients of each batch have in common, by parameter.

    A gradient that the reference does not have counts if the cell's optimizer changes the tensor:
    a cell may compute gradients of frozen tensors that nothing uses (`skip_frozen: false`).
    """
    trained = cell.trained()
    for number in range(batches):
        wanted, got = reference.gradients(number), cell.gradients(number)
        names = [*wanted, *(name for name in got if name in trained and name not in wanted)]
        yield {name: _dots(wanted.get(name), got.get(name)) for name in names}


def rounded(
    reference: Pupil[Batch, Outputs],
    plain: TrainingWorkload[Batch, Outputs],
    precision: str,
    batches: int,
) -> dict[str, Dots]:
    """Return what a number format does to the plain model's gradients; empty of its own."""
    if precision == PLAIN["precision"]:
        return {}
    stock = Pupil(plain, TorchEager({**PLAIN, "precision": precision}))
    stock.start()
    return total(compared(reference, stock, batches))


def _dots(wanted: Tensor | None, got: Tensor | None) -> Dots:
    """Return two gradients' inner products; one that is missing is 0."""
    both = [each.double().flatten() for each in (wanted, got) if each is not None]
    none = torch.zeros_like(both[0])
    mine = none if wanted is None else both[0]
    other = none if got is None else both[-1]
    products = (mine.dot(mine), mine.dot(other), other.dot(other))
    return Dots(mine.numel(), *map(float, products))


def gradient_facts(dots: Mapping[str, Dots], precision: str) -> Environment:
    """Return how far the gradients in a number format are from the plain ones.

    None where a gradient is no number, or trains a tensor of which the plain model has none.
    """
    off, residual = GRADIENT_FACTS[precision]
    return {
        off: _largest(abs(one.scale - 1.0) for one in dots.values()),
        residual: _largest(one.residual for one in dots.values()),
    }


def _largest(distances: Iterable[float]) -> float | None:
    found = list(distances)
    return max(found, default=None) if all(map(math.isfinite, found)) else None


def judged(reasons: Iterable[str], curves: Curves, environment: Environment) -> Result:
    """Return the result: INVALID if a gradient or a loss is not the plain model's.

    reasons: what is wrong with the gradients, or with the plain trainings.
    """
    wrong = (*reasons, *curves.objections())
    apart, losses = curves.apart, tuple(filter(math.isfinite, curves.losses))
    metrics = {}
    if apart:
        metrics["loss_deviation"] = Measurement(value=fmean(apart), unit=Unit.LOSS)
        metrics["loss"] = Measurement(value=losses[-1], unit=Unit.LOSS, samples=losses)
    return Result(
        validity=Validity.INVALID if wrong else Validity.VALID,
        reasons=wrong,
        metrics=metrics,
        environment={**environment, "loss_band_used": curves.used},
    )
