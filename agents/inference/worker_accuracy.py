"""The accuracy of a training workload's model under LoadGen: which runs have one, and its score.

Answers are scored by the same metric as those of a device's runner, from LoadGen's own log.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from agents.inference.quality import judged
from agents.inference.run_length import MODES
from controller.contracts.audit import audit_of
from controller.contracts.errors import WorkerFault
from controller.contracts.manifests import QualityTarget
from controller.contracts.mobile import Detections, OutputKind
from controller.contracts.result import Blame, Failure, Result, Validity
from controller.contracts.weights import KNOB, NO_WEIGHTS
from controller.contracts.wire import Job
from controller.loadgen.logs import ACCURACY
from models.evaluation import SCORER
from models.inference import ScoredWorkload
from models.training import Outputs


class TrueSamples:
    """The Input of a workload whose truths are known."""

    def __init__(self, workload: ScoredWorkload[Outputs], count: int) -> None:
        self._workload, self._count = workload, count

    def __len__(self) -> int:
        """See Input."""
        return self._count

    def __getitem__(self, index: int, /) -> NDArray[Any]:
        """See Input; raises DataUnusable."""
        found: NDArray[Any] = self._workload.sample(index).numpy()
        return found


def weights_of(job: Job) -> str | None:
    """Return the name of the weights that the model begins with; None: random ones."""
    name = job.knobs.get(KNOB)
    return None if name in (None, NO_WEIGHTS) else str(name)


def modes_of(job: Job, truths: int) -> tuple[str, ...]:
    """Return the modes of a job's LoadGen runs; raises WorkerFault, blame user.

    An audit, random weights, and samples without truths have no accuracy: then a submission is a
    performance run alone.

    truths: how many samples have one.
    """
    mode = str(job.knobs["mode"])
    if mode == "performance" or audit_of(job.knobs):
        return ("performance",)
    if truths and weights_of(job):
        return MODES[mode]
    if mode == "submission":
        return ("performance",)
    lacks = "its samples have no truths" if weights_of(job) else "its weights are random"
    raise _refusal(job, lacks, "Set mode to performance.")


def require_scorer(job: Job, output: OutputKind) -> None:
    """Raise WorkerFault, blame user, if this environment lacks what the metric needs."""
    if isinstance(output, Detections) and find_spec(SCORER) is None:
        seen = f"the environment of stack {job.stack} has no {SCORER}"
        raise _refusal(job, seen, "Set mode to performance, or use stack torch.")


def scored(
    result: Result, workload: ScoredWorkload[Outputs], folder: Path, repeated: int = 0
) -> Result:
    """Add the score of an accuracy run's answers; INVALID if a sample was left out.

    folder: of LoadGen's logs; repeated: see `run_length.repeats`.

    Raises DatasetUnusable; WorkerFault if the log can't be read.
    """
    from models.mobile.metrics import read_answers, score

    truths = workload.truths()
    try:
        answers = read_answers(folder / ACCURACY, len(truths), repeated)
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        message = f"cannot read {folder / ACCURACY}: {error!r:.200}. Run it again."
        failure = Failure(blame=Blame.HARNESS, kind="accuracy_log", message=message)
        raise WorkerFault(failure) from error
    found = score(workload.output, answers.by_sample, truths) if answers.by_sample else {}
    reasons = (*result.reasons, *answers.objections)
    return result.model_copy(
        update={
            "validity": Validity.INVALID if reasons else Validity.VALID,
            "reasons": reasons,
            "metrics": {**result.metrics, **found},
        }
    )


def held_to_target(result: Result, job: Job, target: QualityTarget | None) -> Result:
    """Make a result INVALID whose accuracy is below the workload's target, or the sweep's own."""
    return judged(result, target, float(job.knobs["quality_target"]))


def _refusal(job: Job, seen: str, remedy: str) -> WorkerFault:
    message = f"cannot score the answers of {job.workload}: {seen}. {remedy}"
    return WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
