"""An operator as a cell of a sweep, by a real worker, and what becomes of a wrong one."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from itertools import count
from pathlib import Path

import pytest
import torch

from agents.host import cpu_watch
from agents.host.cpu_watch import CpuTimes
from agents.host.disturbance import OWN_SPEED
from agents.host.strain import Reading
from agents.host.tools import LIBRARIES, read_host_tools
from agents.kernel_bench import __main__ as kernel_bench
from agents.kernel_bench import measure, worker
from agents.kernel_bench.measure import (
    JUDGED_COPY_S,
    Conditions,
    Identity,
    extra_memory,
    own_speed_objections,
)
from agents.kernel_bench.worker import measurable
from agents.pairing.interleave import ComparisonState, Plan, Side, interleave
from agents.scenarios import kernel
from agents.scenarios.protocol import KeepingScenario
from controller.contracts.base import Scalar
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.kernels import KernelBench, KernelCheck, KernelRow
from controller.contracts.policy import load_policy
from controller.contracts.result import Environment, Failure, Outcome, Result, Validity
from controller.platform.helper import Helper
from controller.platform.helper_main import Replies
from controller.scheduling.expansion import cells_of
from kernels.bench.case import Case
from kernels.bench.registry import operators
from kernels.bench.workload import KernelWorkload
from kernels.library import capabilities
from tests.support import builders
from tests.support.cells import CATALOG, run_cell
from tests.support.validity import MET_RULES

QUICK: Mapping[str, Scalar] = {
    "kernel_width": 0.5,
    "kernel_time_limit": 0.5,
    "compiled_baseline": False,
    "policy": "ci",
}


async def outcome_of(folder: Path, **knobs: Scalar) -> Outcome:
    sweep = builders.sweep(
        workload="kernels", stack="torch", scenario="kernel", knobs={**QUICK, **knobs}
    )
    (cell,) = cells_of(sweep, CATALOG)
    return await run_cell(cell, folder, folder, deadline_s=100, scenario="kernel")


async def test_a_cell_stores_how_fast_an_operator_is(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, op="box_match", variant="scalar")
    assert isinstance(outcome, Result), outcome
    assert outcome.validity in MET_RULES
    assert bool(outcome.reasons) == (outcome.validity is Validity.DISTURBED)
    timed_s = outcome.environment["timed_s"]
    assert isinstance(timed_s, float)
    assert timed_s > 0
    assert outcome.environment["kernels"] == outcome.environment["kernel_variant"] == "scalar"
    assert outcome.metrics["kernel_time"].value > 0
    assert outcome.metrics["eager_ratio"].value > 0


@pytest.mark.parametrize("malloc", ["glibc", "glibc-tuned", "jemalloc", "tcmalloc"])
async def test_memory_is_told_where_it_can_be_seen(tmp_path: Path, malloc: str) -> None:
    """Other mallocs than glibc's keep what was freed, and a run would seem to need nothing."""
    glibcs = malloc.startswith("glibc")
    if not glibcs and malloc not in read_host_tools().libraries:
        pytest.skip(f"{LIBRARIES[malloc].soname} is not here: {LIBRARIES[malloc].remedy}")
    outcome = await outcome_of(tmp_path, op="box_match", variant="scalar", malloc=malloc)
    assert isinstance(outcome, Result), outcome
    assert str(outcome.environment["malloc"]).startswith("glibc") == glibcs
    assert ("extra_memory" in outcome.metrics) == glibcs


async def test_a_dtype_an_operator_does_not_have_fails(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, op="nms", dtype="bf16")
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == ("user", "setup")
    assert "nms has no dtype bf16" in outcome.message


class Wrong(KernelWorkload):
    def case(self) -> Case:
        return replace(super().case(), objections=lambda: ["matches: 3 of 7 differ"])


class Silent:
    def environment(self) -> Environment:
        return {}


def test_wrong_output_is_invalid() -> None:
    found = kernel.run(
        Wrong("box_match", "fp32", "best"),
        Silent(),  # type: ignore[arg-type] # all that the scenario asks of a backend
        QUICK,
        lambda _: None,
    )
    assert found.validity is Validity.INVALID
    assert found.reasons[0] == "box_match: matches: 3 of 7 differ"


@pytest.mark.parametrize("policy", ["ci", "lab"])
def test_a_disturbed_operator_is_invalid_under_lab_and_disturbed_under_ci(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks say that others used a whole core of two."""
    ticks = count()

    def clocks() -> CpuTimes:
        now = float(next(ticks))
        return CpuTimes(elapsed_s=now, cores=2, busy_s=1.5 * now, own_s=0.5 * now)

    monkeypatch.setattr(cpu_watch, "read_cpu_times", clocks)
    monkeypatch.setattr(cpu_watch, "read_strain", Reading)
    monkeypatch.setattr(measure, "conditions", lambda _: Conditions((1.0,), 100.0))
    found = kernel.run(
        KernelWorkload("box_match", "fp32", "best"),
        Silent(),  # type: ignore[arg-type] # all that the scenario asks of a backend
        {**QUICK, "policy": policy},
        lambda _: None,
    )
    assert found.validity is (Validity.INVALID if policy == "lab" else Validity.DISTURBED)
    assert found.environment["timed_other_cores"] == 1.0
    (reason,) = found.reasons
    assert reason.startswith("other processes kept 1.00 of 2 cores busy")


@pytest.mark.parametrize(
    ("policy", "change", "is_told"),
    [("ci", 0.25, True), ("ci", 0.15, False), ("lab", 0.15, True), ("mlperf", 0.9, False)],
)
def test_a_machine_that_changes_its_speed_is_told(
    policy: str, change: float, *, is_told: bool
) -> None:
    fast = Conditions((4 * JUDGED_COPY_S, JUDGED_COPY_S), 100.0)
    slow_copies = replace(fast, copies_s=tuple(s / (1 - change) for s in fast.copies_s))
    slow_products = replace(fast, gflops=100.0 * (1 - change))
    judged = load_policy(policy)

    def said(*around: Conditions) -> tuple[str, ...]:
        return own_speed_objections(around, 10**7, judged)

    assert said(fast, fast) == ()
    for around in ((fast, slow_copies), (slow_copies, fast)):
        found = said(*around)
        assert len(found) == is_told
        for reason in found:
            rates = f"{10 * (1 - change):.4g} to 10 GB/s before and after what was timed"
            assert reason.startswith(f"{OWN_SPEED}: a copy ran at {rates}; policy {policy} allows")
    assert len(said(slow_products, fast)) == is_told
    assert len(said(fast, replace(slow_copies, gflops=slow_products.gflops))) == 2 * is_told


def test_a_copy_in_the_caches_is_not_judged() -> None:
    short, long = (Conditions((share * JUDGED_COPY_S,), 100.0) for share in (0.5, 5.0))
    assert own_speed_objections((short, long), 10**5, load_policy("lab")) == ()


def test_an_operator_on_a_machine_that_changed_its_speed_is_disturbed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    around = iter((Conditions((1.0,), 100.0), Conditions((1.0,), 50.0)))
    monkeypatch.setattr(measure, "conditions", lambda _: next(around))
    found = kernel.run(
        KernelWorkload("box_match", "fp32", "best"),
        Silent(),  # type: ignore[arg-type] # all that the scenario asks of a backend
        QUICK,
        lambda _: None,
    )
    assert found.validity is Validity.DISTURBED
    assert found.environment["matmul_gflops"] == 75.0
    assert f"{OWN_SPEED}: a matrix product ran at 50 to 100 GFLOP/s" in found.reasons[-1]


WANTED = KernelBench(
    verb="bench", operators=("box_match",), width=0.5, time_limit_s=0.1, policy="ci"
)


def seeds_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the seeds of all comparisons from now on, as they are made."""
    seeds: list[str] = []

    async def seeded(a: Side, b: Side, plan: Plan) -> ComparisonState:
        seeds.append(plan.seed)
        return await interleave(a, b, plan)

    monkeypatch.setattr(measure, "interleave", seeded)
    return seeds


def test_each_draw_of_each_row_has_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order favours whichever side goes first: the same one in all draws adds up."""
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    seeds = seeds_of(monkeypatch)
    rows = [*worker.found(WANTED, "one"), *worker.found(WANTED, "one")]
    first, again = seeds
    assert first == again
    row = rows[0]
    assert isinstance(row, KernelRow)
    assert first == f"one/box_match/fp32/{row.shape}/{row.variant}/both/eager"
    others = [
        worker.plan_of(WANTED, Identity("box_match", dtype, variant), "s", baseline, seed).seed
        for seed in ("one", "two")
        for dtype, variant in (("fp32", "avx2"), ("bf16", "avx2"), ("fp32", "scalar"))
        for baseline in ("eager", "compile")
    ]
    assert len(set(others)) == len(others)

    seeds.clear()
    for _ in range(2):
        worker.handle(WANTED, Replies(StringIO()))
    assert len(set(seeds)) == 2, "each process draws a fresh one"


def test_an_attempt_seeds_the_order_of_its_pairs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seeds = seeds_of(monkeypatch)
    scenario: object = kernel
    assert isinstance(scenario, KeepingScenario)
    for attempt in ("1", "2"):
        kernel.run_in_folder(
            KernelWorkload("box_match", "fp32", "best"),
            Silent(),  # type: ignore[arg-type] # all that the scenario asks of a backend
            QUICK,
            lambda _: None,
            tmp_path / "runs" / "r-7" / attempt,
        )
    assert seeds == ["r-7/1/eager", "r-7/2/eager"]


@pytest.mark.parametrize("kind", [KernelRow, KernelCheck])
def test_a_worker_that_ends_without_an_answer_is_an_error(
    kind: type[KernelCheck | KernelRow],
) -> None:
    """Code of a user may end it by itself, as if all were well."""
    worker = Helper(("true",), "run kernels bench with variant avx2")
    said = StringIO()
    with pytest.raises(UserError) as told:
        kernel_bench.pass_on(worker, WANTED, kind, Replies(said))
    assert str(told.value) == (
        "cannot run kernels bench with variant avx2: its process ended without an answer. "
        "See its output above."
    )
    assert said.getvalue() == ""


def test_a_compiled_baseline_without_a_compiler_is_the_users_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    with pytest.raises(WorkerFault) as caught:
        kernel.run(
            KernelWorkload("box_match", "fp32", "best"),
            Silent(),  # type: ignore[arg-type] # all that the scenario asks of a backend
            {**QUICK, "compiled_baseline": True},
            lambda _: None,
        )
    failure = caught.value.failure
    assert (failure.blame, failure.kind) == ("user", "no_compiler")
    assert failure.message.startswith("knob compiled_baseline: there is no C++ compiler")


def test_without_a_compiler_the_bench_goes_on_without_what_needs_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = operators()["box_match"].case("fp32", operators()["box_match"].shapes[0])
    monkeypatch.setenv("CXX", "true")
    assert measurable(case) == ["eager", "compile"]
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    assert measurable(case) == ["eager"]

    wanted = KernelBench(
        verb="bench", operators=("box_match",), width=0.5, time_limit_s=0.1, policy="ci"
    )
    monkeypatch.setattr(kernel_bench, "variants_of", lambda _: ())  # starts no worker
    said = StringIO()
    kernel_bench.handle(wanted, Replies(said))
    assert said.getvalue().count("without baselines by torch.compile: there is no") == 1


def test_the_manifest_names_the_operators_and_variants_there_are() -> None:
    knobs = CATALOG.workloads["kernels"].knobs
    assert set(knobs["op"].choices or ()) == set(operators())
    assert set(capabilities().supported) < set(knobs["variant"].choices or ())


def test_memory_that_a_run_takes_is_seen() -> None:
    taken = extra_memory(lambda: bytes(bytearray(b"x") * 30_000_000))
    assert taken == pytest.approx(60e6, rel=0.1)  # both are there at once


@pytest.mark.parametrize("op", ["sigmoid_focal_loss_from_labels", "frozen_batch_norm"])
def test_a_run_leaves_no_gradient_whose_memory_the_next_could_take(op: str) -> None:
    operator, others = operators()[op], leaves()
    case = operator.case("bf16", operator.shapes[0])
    case.kernel()
    case.baselines["eager"]()
    inputs = [leaf for leaf in leaves() if not any(leaf is other for other in others)]
    assert inputs
    assert [leaf.grad for leaf in inputs] == [None] * len(inputs)


def leaves() -> list[torch.Tensor]:
    """Return every tensor of this process that a gradient could be kept with."""
    tensors = [found for found in gc.get_objects() if type(found) is torch.Tensor]
    return [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad]
