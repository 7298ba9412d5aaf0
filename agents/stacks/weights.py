"""The weights that a job's model begins with, from this host's store of models."""

from __future__ import annotations

from controller.contracts.catalog import user_tasks
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.mobile import ModelFile
from controller.contracts.result import Blame, Environment, Failure
from controller.contracts.weights import KNOB
from controller.contracts.wire import TrainingProgram, WorkerSpec
from models.mobile.store import Store, stored

SHA256 = "weights_sha256"
"""The fact that tells the file's content."""


def with_weights(spec: WorkerSpec) -> tuple[WorkerSpec, Environment]:
    """Return a job whose argument `weights` is the path of the file, and facts of that file.

    Raises WorkerFault, blame user, if it is not in the store, or not whole.
    """
    program = spec.job.program
    if not isinstance(program, TrainingProgram) or program.weights is None:
        return spec, {}
    needed = program.weights
    part = ModelFile(checksum=needed.checksum, source=needed.source)
    try:
        path = stored(Store(user_tasks().parent), part, needed.key)
    except UserError as error:
        failure = Failure(blame=Blame.USER, kind=KNOB, message=str(error))
        raise WorkerFault(failure) from error
    place = {KNOB: str(path)}
    plain = None if program.plain is None else {**program.plain, **place}
    found = program.model_copy(
        update={"arguments": {**program.arguments, **place}, "plain": plain, "weights": None}
    )
    job = spec.job.model_copy(update={"program": found})
    return spec.model_copy(update={"job": job}), {SHA256: path.name}


def require_unchanged(facts: Environment) -> None:
    """Check after a run that the file of these facts is still what was checked before it.

    Every rank and model reads it for itself, after that check. Raises WorkerFault, blame user.
    """
    if SHA256 not in facts:
        return
    checksum = f"sha256:{facts[SHA256]}"
    try:
        seen = Store(user_tasks().parent).verify(checksum)
    except OSError as error:
        seen = error.strerror or str(error)
    if seen:
        why = f"the file {checksum} changed during the run: {seen}"
        message = f"cannot tell which weights were loaded: {why}. Run `benchfarm models verify`."
        raise WorkerFault(Failure(blame=Blame.USER, kind=KNOB, message=message))
