"""What `benchfarm profile advise --prove` compares, and what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.cli.common import reading, show_json
from controller.cli.comparison_options import TRAINING
from controller.cli.comparison_run import check_comparison, run_comparison
from controller.cli.proving_device import CORES, CPU, ProfiledHost, proving_device
from controller.contracts.advice import Advised, Remedy
from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.errors import UserError
from controller.contracts.profile import ProfileSummary
from controller.contracts.proof import Prediction, Proof, Proven
from controller.contracts.sweep import Side, Stopping
from controller.platform.terminal import say
from controller.profiles.advising.advise import predict_alone
from controller.profiles.advising.proving import prove, proven, why_not_provable
from controller.profiles.model import Profile
from controller.reports.proof_lines import count_line, proof_lines
from controller.reports.result_selection import Wanted
from controller.stats.medians import Ratio


@dataclass(frozen=True, slots=True)
class Profiled:
    """The cell that a profile is of, and its step."""

    workload: str
    stack: str
    knobs: Mapping[str, Scalar]
    host: ProfiledHost
    step_s: float


def prove_advice(
    subject: str,
    profile: Profile,
    advised: Advised,
    top: int,
    time_limit_s: float,
    asked: str | None,
    *,
    json: bool,
) -> Proven:
    """Compare the profiled cell with each advised change in turn; show and return what was
    realised.

    A comparison changes one thing, so its prediction is that of the change alone: in the list, it
    has only what other changes leave it. top: the most changes that are taken. asked: the device to
    compare on; None: one of the farm with the profile's CPU. Raises NotFound, UserError and
    FarmUnavailable.
    """
    cell = profiled(subject, profile.summary)
    with reading() as store:
        _, devices = store.fleet()
    device = proving_device(devices, cell.host, asked, subject).device.id
    if cell.host.device and device != cell.host.device:
        say(f"comparing on {device}; profiled was {cell.host.device}", err=True)
    predictions = predict_alone(profile)[:top]
    stopping, proofs = Stopping(time_limit_s=time_limit_s), []
    for note in () if json else advised.notes:
        say(f"note: {note}")
    for proof in _proofs(cell, device, predictions, stopping, quiet=json):
        proofs.append(proof)
        for line in () if json else proof_lines(proof):
            say(line)
    found = proven(cell.step_s, advised.notes, proofs)
    if json:
        show_json(found)
    else:
        say(count_line(found))
    return found


def profiled(subject: str, summary: ProfileSummary) -> Profiled:
    """Return the cell that a profile is of; raises UserError if the profile does not tell it."""
    origin, step_s = summary.origin, summary.step_s
    cpu = origin and origin.environment.get(CPU)
    known = origin and origin.workload and origin.stack and origin.knobs and step_s
    if not (origin and origin.workload and origin.stack and origin.knobs and step_s and cpu):
        seen = "CPU" if known else "workload, stack, knobs and step"
        raise UserError(
            f"prove the advice of {subject}",
            f"the profile does not tell its {seen}",
            "Profile the workload: `benchfarm profile run`.",
        )
    cores = origin.environment.get(CORES)
    host = ProfiledHost(str(cpu), cores if isinstance(cores, int) else None, origin.device)
    return Profiled(origin.workload, origin.stack, origin.knobs, host, step_s)


def _proofs(
    cell: Profiled,
    device: str,
    predictions: list[Prediction],
    stopping: Stopping,
    *,
    quiet: bool,
) -> Iterator[Proof]:
    catalog = load_catalog()
    for prediction in predictions:
        wanted = wanted_for(catalog, cell, prediction.remedy, device)
        if reason := _obstacle(catalog, cell, prediction.remedy, wanted, stopping):
            yield Proof(prediction=prediction, not_provable=reason)
            continue
        run = run_comparison(catalog, wanted, stopping, quiet=quiet)
        if (found := run.comparison) is None:
            yield Proof(prediction=prediction, sweep_id=run.sweep_id, reasons=run.failures)
            continue
        bounds = found.ratio_low, found.ratio_high
        interval = None if bounds[0] is None or bounds[1] is None else (bounds[0], bounds[1])
        ratio = Ratio(found.ratio, interval)
        yield prove(prediction, cell.step_s, ratio, found.validity, found.reasons, run.sweep_id)


def wanted_for(catalog: Catalog, cell: Profiled, remedy: Remedy, device: str) -> Wanted:
    """Return the comparison of the profiled cell (A) with a change of its stack or a knob (B).

    Knobs that the other stack has not are A's alone.
    """
    if remedy.kind == "stack":
        own, theirs = (_knobs_of(catalog, name) for name in (cell.stack, str(remedy.value)))
        apart = own - theirs
        changed = Side(stack=str(remedy.value))
    else:
        apart = {remedy.name}
        changed = Side(stack=cell.stack, knobs={remedy.name: remedy.value})
    before = {name: value for name, value in cell.knobs.items() if name in apart}
    return Wanted(
        a=Side(stack=cell.stack, knobs=before),
        b=changed,
        workload=cell.workload,
        scenario=TRAINING,
        knobs={name: value for name, value in cell.knobs.items() if name not in apart},
        device=device,
    )


def _knobs_of(catalog: Catalog, stack: str) -> set[str]:
    """Return the names of a stack's own knobs; none of one that is not known."""
    return set(catalog.stacks[stack].knobs) if stack in catalog.stacks else set()


def _obstacle(
    catalog: Catalog, cell: Profiled, remedy: Remedy, wanted: Wanted, stopping: Stopping
) -> str:
    """Return why a change can't be compared; empty if it can."""
    if reason := why_not_provable(remedy, cell.knobs):
        return reason
    try:
        check_comparison(catalog, wanted, stopping)
    except UserError as error:
        return str(error)
    return ""
