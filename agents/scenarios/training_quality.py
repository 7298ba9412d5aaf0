"""The scenario training_quality: train by the workload's schedule until it reaches a quality.

The model is scored every `evaluate_every` steps, by the same post-processing and metric as under
LoadGen and on phones. Only the steps are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch

from agents.backends.protocol import InferenceBackend, TrainingBackend
from agents.backends.stepping import OneProcess
from agents.scenarios.training import Steps, Trainer, objections
from agents.scenarios.training_accuracy import COMPILED
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Failure, Measurement, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Progress
from models.evaluation import SCORER, EvaluatedWorkload
from models.master_weights import MasterAdam
from models.training import Batch, Outputs

WEIGHTS: Final = "weights.pth"


class Scheduled(OneProcess[Batch, Outputs]):
    """Training with the workload's learning rates, and answers in between."""

    def __init__(
        self, workload: EvaluatedWorkload[Batch, Outputs], backend: TrainingBackend
    ) -> None:
        super().__init__(workload, backend)
        self._evaluated = workload

    def load(self, number: int) -> None:
        """See Stepping.load; also sets the learning rate."""
        super().load(number)
        for group in self._optimizer.param_groups:
            group["lr"] = self._evaluated.learning_rate(number)

    def answers(self) -> Mapping[int, bytes]:
        """Return the model's answer to each sample, in evaluation mode; the mode stays."""
        backend, batch = self._backend, self._evaluated.batch_size
        if not isinstance(backend, InferenceBackend):
            raise _refusal("this stack trains only", "Use stack torch.")
        truths = self._evaluated.truths()
        samples = self._evaluated.samples(len(truths))
        self.model.eval()
        found = [
            answer
            for part in torch.split(samples, batch)
            for answer in backend.infer(self._evaluated, self.model, part)
        ]
        self.model.train()
        return {number: answer.numpy().tobytes() for number, answer in enumerate(found)}

    def weights(self) -> Mapping[str, torch.Tensor]:
        """Return what was learnt as a checkpoint's tensors."""
        parameters = self.model.named_parameters()
        learnt = {
            name.removeprefix(COMPILED): self._learnt(parameter)
            for name, parameter in parameters
            if parameter.requires_grad
        }
        return self._evaluated.weights(learnt)

    def _learnt(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        optimizer = self._optimizer
        if isinstance(optimizer, MasterAdam):
            return optimizer.master(parameter)
        return parameter.detach()

    def quality(self) -> tuple[str, float]:
        """Return the workload's metric and the model's value on all samples."""
        from models.mobile.metrics import score

        truths = self._evaluated.truths()
        found = score(self._evaluated.output, self.answers(), truths)
        metric, measured = next(iter(found.items()))
        return metric, measured.value


def run(
    workload: EvaluatedWorkload[Batch, Outputs] | None,
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Train at most `steps` steps; INVALID unless the quality reaches `target`.

    Raises WorkerFault, blame user, on a stack that can't be scored.
    """
    return _trained(workload, backend, knobs, on_progress)[0]


def run_in_folder(
    workload: EvaluatedWorkload[Batch, Outputs] | None,
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
    folder: Path,
) -> Result:
    """Do as `run`, and keep the trained weights in a folder if `keep_weights` says so."""
    result, pupil = _trained(workload, backend, knobs, on_progress)
    if not knobs["keep_weights"]:
        return result
    return result.model_copy(update={"artefacts": {**result.artefacts, **kept(pupil, folder)}})


def kept(pupil: Scheduled[Batch, Outputs], folder: Path) -> dict[str, str]:
    """Write the weights as a checkpoint that the workload can begin with; return the artefact."""
    path = folder / WEIGHTS
    torch.save({"model": dict(pupil.weights())}, path)
    return {"weights": str(path)}


def _trained(
    workload: EvaluatedWorkload[Batch, Outputs] | None,
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
) -> tuple[Result, Scheduled[Batch, Outputs]]:
    if workload is None:
        raise _refusal("several ranks train it", "Set the knob ranks to 1.")
    if find_spec(SCORER) is None:
        raise _refusal(f"this stack's environment has no {SCORER}", "Use stack torch.")
    most, every = int(knobs["steps"]), int(knobs["evaluate_every"])
    target = float(knobs["target"])
    policy = load_policy(str(knobs["policy"]))
    pupil = Scheduled(workload, backend)
    trainer = Trainer(pupil, policy.rest_s)
    steps: Steps = []
    metric, quality, scored = "", 0.0, 0
    for count in _parts(most, every):
        with trainer.timing():
            steps += [trainer.step() for _ in range(count)]
        if objections(steps):
            break
        (metric, quality), scored = pupil.quality(), len(steps)
        values = {"loss": steps[-1][1], metric: quality}
        on_progress(Progress(phase="training", done=len(steps), total=most, values=values))
        if quality >= target:
            break
    result = trainer.result(steps, policy)
    if metric:
        result = judged(result, steps, (metric, quality, target), scored)
    return result, pupil


def _parts(most: int, every: int) -> Iterator[int]:
    """Yield how many steps there are to each evaluation."""
    for done in range(0, most, every):
        yield min(every, most - done)


def judged(result: Result, steps: Steps, reached: tuple[str, float, float], scored: int) -> Result:
    """Add the quality and the time to it to a training's result.

    reached: metric, its last value, its target; scored: the steps before that value.
    """
    metric, quality, target = reached
    metrics = {**result.metrics, metric: Measurement(value=quality, unit=Unit.FRACTION)}
    if quality >= target:
        seconds = sum(seconds for seconds, _ in steps)
        metrics["time_to_target"] = Measurement(value=seconds, unit=Unit.SECONDS)
        facts = {**result.environment, "steps_to_target": len(steps)}
        return result.model_copy(update={"metrics": metrics, "environment": facts})
    why = f"{metric} is {quality:g} after {scored} steps, below {target:g}"
    invalid = {"validity": Validity.INVALID, "reasons": (*result.reasons, why), "metrics": metrics}
    return result.model_copy(update=invalid)


def _refusal(why: str, remedy: str) -> WorkerFault:
    message = f"cannot score a training: {why}. {remedy}"
    return WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
