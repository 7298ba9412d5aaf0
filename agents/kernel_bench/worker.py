"""`python -m agents.kernel_bench.worker`: a helper for one variant, launched for it.

It serves a KernelBench.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

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
from kernels.bench.case import COMPILED, Case, Work
from kernels.bench.comparator import ComparatorUnusable, load
from kernels.bench.registry import operators
from kernels.library import capabilities


def cases(wanted: KernelBench) -> Iterator[tuple[Identity, Case]]:
    """Yield the wanted cases, one at a time, since their inputs are large."""
    for op, operator in operators().items():
        for dtype in operator.dtypes:
            if op in (wanted.operators or (op,)) and dtype in (wanted.dtypes or (dtype,)):
                for shape in operator.shapes:
                    variant = capabilities().variant
                    identity = Identity(op, dtype, variant, wanted.direction)
                    yield identity, with_passes(operator.case(dtype, shape), identity)


def found(wanted: KernelBench) -> Iterator[KernelCheck | KernelRow]:
    """Yield the checks or measurements."""
    own_cores()
    plan = Plan(width=wanted.width, time_limit_s=wanted.time_limit_s, seed="0", batch_s=BATCH_S)
    policy = load_policy(wanted.policy)
    for identity, case in cases(wanted):
        if wanted.verb == "check":
            yield check(identity, case)
        elif wanted.against:
            comparator = comparator_of(case, identity, wanted.against)
            yield compare(identity, case, wanted.against, comparator, plan, policy, CpuWatch())
        else:
            for baseline in measurable(case):
                other = case.baselines[baseline]
                yield compare(identity, case, baseline, other, plan, policy, CpuWatch())


def with_passes(case: Case, identity: Identity) -> Case:
    """Return a case that can be timed in a direction; raises UserError if it has no gradient."""
    if identity.direction == "both" or case.passes:
        return case
    seen = "it has no gradient, and so no two passes"
    remedy = "Leave out --direction, or name an operator with a gradient, as the focal losses."
    raise UserError(f"time the {identity.direction} pass of {identity.op}", seen, remedy)


def comparator_of(case: Case, identity: Identity, named: str) -> Work:
    """Return the same work as done by a user's implementation; raises UserError if it isn't."""
    tried = f"compare {identity.op} ({identity.dtype}) with {named}"
    if case.comparator is None:
        remedy = "Choose sigmoid_focal_loss or sigmoid_focal_loss_from_labels."
        raise UserError(tried, "this operator has no form for others", remedy)
    try:
        comparator = case.comparator(load(named))
    except ComparatorUnusable as error:
        remedy = "Name FILE.py:FUNCTION, MODULE:FUNCTION or FILE.so:NAMESPACE::OP."
        raise UserError(tried, str(error), remedy) from error
    remedy = "Give a function of logits and targets that returns the sum of all losses."
    if unlike := comparator.objections():
        raise UserError(tried, f"it does other work: {'; '.join(unlike)}", remedy)
    if "torch._dynamo" in sys.modules:
        # Else what torch.compile made of the few rows above is compiled again for any number of
        # rows, while our own baselines are compiled for theirs.
        torch._dynamo.reset()
    try:
        comparator.work()
    except Exception as error:  # whatever a user's function raises
        raise UserError(
            tried, f"of {case.shape}, it raised {type(error).__name__}: {error}", remedy
        ) from error
    return comparator.work


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
    for row in found(wanted):
        replies.answer(row)


if __name__ == "__main__":
    sys.exit(serve(KernelBench, handle))
