"""`python -m agents.kernel_bench.worker`: a helper for one variant, launched for it.

It serves a KernelBench.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import torch

from agents.host.compiler import compiler, require_private_headers
from agents.host.cpu_watch import CpuWatch
from agents.host.strain import own_cores
from agents.kernel_bench.measure import BATCH_S, Identity, compare
from agents.pairing.interleave import Plan
from controller.contracts.errors import UserError
from controller.contracts.kernels import KernelBench, KernelCheck, KernelRow
from controller.contracts.policy import load_policy
from controller.platform.helper_main import Replies, serve
from kernels.bench.case import COMPILED, Case, Comparator, Results, Work
from kernels.bench.comparator import ComparatorUnusable, digest_of, guarded, load
from kernels.bench.registry import operators
from kernels.library import capabilities

REMEDY = "Give a function of logits and targets that returns the sum of all losses."
"""What to do about an implementation that fails or does other work."""


def cases(wanted: KernelBench) -> Iterator[tuple[Identity, Case]]:
    """Yield the wanted cases, one at a time, since their inputs are large."""
    for op, operator in operators().items():
        for dtype in operator.dtypes:
            if op in (wanted.operators or (op,)) and dtype in (wanted.dtypes or (dtype,)):
                for shape in operator.shapes:
                    variant = capabilities().variant
                    identity = Identity(op, dtype, variant, wanted.direction)
                    yield identity, with_passes(operator.case(dtype, shape), identity)


def found(wanted: KernelBench, seed: str) -> Iterator[KernelCheck | KernelRow]:
    """Yield the checks or measurements.

    seed: of the random order within pairs; another one for each draw, else all draws have the same
    order, and what it favours, it favours in all of them.
    """
    own_cores()
    for identity, case in cases(wanted):
        if wanted.verb == "check":
            yield check(identity, case)
        elif wanted.against:
            yield against(wanted, identity, case, wanted.against, seed)
        else:
            for baseline in measurable(case):
                yield row(wanted, identity, case, baseline, case.baselines[baseline], seed)


def row(
    wanted: KernelBench, identity: Identity, case: Case, baseline: str, other: Work, seed: str
) -> KernelRow:
    """Return the comparison with other work, which is called `baseline`."""
    plan = plan_of(wanted, identity, case.shape, baseline, seed)
    return compare(identity, case, baseline, other, plan, load_policy(wanted.policy), CpuWatch())


def plan_of(wanted: KernelBench, identity: Identity, shape: str, baseline: str, seed: str) -> Plan:
    """Return when a comparison stops, and the seed of its order: the draw's and the row's own."""
    of = identity.op, identity.dtype, shape, identity.variant, identity.direction, baseline
    return Plan(
        width=wanted.width,
        time_limit_s=wanted.time_limit_s,
        seed="/".join((seed, *of)),
        batch_s=BATCH_S,
    )


def against(
    wanted: KernelBench, identity: Identity, case: Case, named: str, seed: str
) -> KernelRow:
    """Return the comparison with a user's implementation; raises UserError if it fails."""
    comparator = comparator_of(case, identity, named)
    try:
        identity = replace(identity, baseline_digest=digest_of(named))
        measured = row(wanted, identity, case, named, comparator.work, seed)
    except ComparatorUnusable as error:
        raise raised_by(case, identity, named, error) from error
    if changes := comparator.changes():
        raise other_work(case, identity, named, changes)
    return measured


def with_passes(case: Case, identity: Identity) -> Case:
    """Return a case that can be timed in a direction; raises UserError if it has no gradient."""
    if identity.direction == "both" or case.passes:
        return case
    seen = "it has no gradient, and so no two passes"
    remedy = "Leave out --direction, or name an operator with a gradient, as the focal losses."
    raise UserError(f"time the {identity.direction} pass of {identity.op}", seen, remedy)


def comparator_of(case: Case, identity: Identity, named: str) -> Comparator:
    """Return the same work as done by a user's implementation; raises UserError if it isn't."""
    tried = tried_with(identity, named)
    if case.comparator is None:
        remedy = "Choose sigmoid_focal_loss or sigmoid_focal_loss_from_labels."
        raise UserError(tried, "this operator has no form for others", remedy)
    # Before any code of the user runs, which could change the inputs.
    mine = cast("Results", case.kernel())
    try:
        comparator = case.comparator(load(named))
    except ComparatorUnusable as error:
        remedy = "Name FILE.py:FUNCTION, MODULE:FUNCTION or FILE.so:NAMESPACE::OP."
        raise UserError(tried, str(error), remedy) from error
    if few := comparator.objections():
        raise UserError(tried, f"it does other work: {'; '.join(few)}", REMEDY)
    if "torch._dynamo" in sys.modules:
        # Else what torch.compile made of the few rows above is compiled again for any number of
        # rows, while our own baselines are compiled for theirs.
        torch._dynamo.reset()
    work = guarded(comparator.work)
    try:
        theirs = cast("Results", work())
    except ComparatorUnusable as error:
        raise raised_by(case, identity, named, error) from error
    # The check above is of few rows: what is timed has to be right, too.
    if whole := comparator.changes() or comparator.differences(theirs, mine):
        raise other_work(case, identity, named, whole)
    return replace(comparator, work=work)


def tried_with(identity: Identity, named: str) -> str:
    """Return what is tried with a user's implementation, as an error has it."""
    return f"compare {identity.op} ({identity.dtype}) with {named}"


def raised_by(case: Case, identity: Identity, named: str, error: ComparatorUnusable) -> UserError:
    """Return the error for what a user's implementation raised on the inputs that are timed."""
    seen = f"of {case.shape}, it raised {error}"
    return UserError(tried_with(identity, named), seen, REMEDY)


def other_work(case: Case, identity: Identity, named: str, how: Sequence[str]) -> UserError:
    """Return the error for what a user's implementation does otherwise on the timed inputs."""
    seen = f"of {case.shape}, it does other work: {'; '.join(how)}"
    return UserError(tried_with(identity, named), seen, REMEDY)


def measurable(case: Case) -> list[str]:
    """Return a case's baselines, without compiled ones if there is no compiler."""
    compiles = compiler() is not None
    return [name for name in case.baselines if compiles or not name.startswith(COMPILED)]


def check(identity: Identity, case: Case) -> KernelCheck:
    """Compare a case's results with the reference's."""
    return KernelCheck(
        op=identity.op,
        dtype=identity.dtype,
        shape=case.shape,
        variant=identity.variant,
        objections=tuple(case.objections()),
    )


def handle(wanted: KernelBench, replies: Replies) -> None:
    """Answer with a KernelCheck or a KernelRow for each case."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if wanted.verb == "bench" and compiler() is not None:
        require_private_headers("kernels bench")
    for answer in found(wanted, secrets.token_hex(8)):
        replies.answer(answer)


if __name__ == "__main__":
    sys.exit(serve(KernelBench, handle))
