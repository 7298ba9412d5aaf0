"""Faults planted in real training runs: what the diff and the advice of their profiles name first.

Three dozen profiles take an hour on a quiet machine: only `make bench` runs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from agents.attempts.kept_peaks import KeptPeaks
from agents.attempts.paired import paired_workers
from agents.attempts.profiled import ProfiledRunner
from agents.attempts.worker_process import WorkerProcess
from agents.host.cpu import read_instruction_sets
from agents.host.facts import cpu_device
from agents.stacks.interpreter import stack_worker
from controller.contracts.advice import Rule
from controller.contracts.base import Scalar
from controller.contracts.result import Result
from controller.contracts.sweep import Cell
from controller.profiles.advising.advise import advise
from controller.profiles.diffing import diff
from controller.profiles.files import read
from controller.profiles.model import Profile
from controller.reports.profile_diff_lines import answer_lines, is_same
from tests.support.cells import importable_tests, job_of
from tests.support.figures import Figure
from tests.support.processes import OWNER

pytestmark = [
    *(pytest.mark.integration, pytest.mark.farm, pytest.mark.long),
    pytest.mark.timeout(3600),  # a dozen profiles in each
]

HAS_BF16 = not {"avx512_bf16", "amx_bf16"}.isdisjoint(read_instruction_sets().usable)
DEADLINE_S = 600.0
FELT = 1.03
"""Times a step from which a fault is one, at least: another malloc costs little where tensors are
small."""
Record = Callable[[str, object], None]
MODELS: Mapping[str, Mapping[str, Scalar]] = {
    "retinanet_resnext50": {
        "image_size": 128,
        "num_classes": 8,
        "frozen_bn": "folded",
        "focal_loss": "fused",
        "matching": "fused",
        "fused_optimizer": True,
        "memory_format": "channels_last",
    },
    "resnet50": {
        "image_size": 128,
        "batch_size": 4,
        "fused_optimizer": True,
        "memory_format": "channels_last",
    },
    "transformer_encoder": {
        "layers": 4,
        "sequence_length": 64,
        "batch_size": 4,
        "vocabulary_size": 2000,
        "fused_optimizer": True,
    },
}
"""Workload → the knobs of a cell without the faults."""
BEST: Mapping[str, Scalar] = {
    "precision": "bf16" if HAS_BF16 else "fp32",
    "malloc": "jemalloc",
    "steps": 5,
}


class Fault(NamedTuple):
    """A planted fault: knobs beside those of the model, and what must be named."""

    knobs: Mapping[str, Scalar]
    said: str
    """What the first line of the diff matches."""
    rules: tuple[Rule, ...]
    """One of these is predicted to save most of what the clean profile isn't."""


FAULTS = {
    "reorder": Fault({}, "reorder|to_mkldnn|to_dense", (Rule.REORDERS, Rule.LAYOUT)),
    "island": Fault({}, "data type|_to_copy", (Rule.FALLBACK,)),
    "frozen": Fault({"skip_frozen": False}, "skip_frozen|backward", (Rule.FROZEN,)),
    "loader": Fault({}, "loading a batch", (Rule.LOADING,)),
    "denormals": Fault({}, "denormal", (Rule.DENORMALS,)),
    "threads": Fault({"threads": 1}, "differs: threads", (Rule.THREADS,)),
    "malloc": Fault({"malloc": "glibc"}, "differs: malloc", (Rule.MALLOC,)),
}


def faults_of(workload: str) -> list[str]:
    """Return the faults that a workload can have on this machine."""
    cannot = {
        "frozen": not workload.startswith("retinanet"),  # no other has frozen stages
        "island": not HAS_BF16,  # one of fp32 needs bf16 around it
    }
    return [fault for fault in FAULTS if not cannot.get(fault)]


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    with importable_tests():
        yield


async def profile_of(folder: Path, workload: str, fault: str, **knobs: Scalar) -> Profile:
    """Profile a workload on this machine, with a fault."""
    made = {**MODELS[workload], **BEST, **knobs}
    cell = Cell(workload=workload, stack="torch", scenario="training", knobs=made, selector="any")
    folder.mkdir()
    spec = job_of(
        cell, folder, DEADLINE_S, builder=f"tests.support.planted_models:{workload}__{fault}"
    )
    job = spec.job.model_copy(update={"profiled": True})
    spec = spec.model_copy(update={"job": job, "device": cpu_device("0" * 32, {})})
    workers = WorkerProcess(OWNER, partial(stack_worker, folder))
    runner = ProfiledRunner(paired_workers(workers), workers, KeptPeaks(folder.parent / "peaks"))
    outcome = await runner.run(spec, lambda _: None)
    assert isinstance(outcome, Result), outcome
    return read(folder / "profile")


@pytest.mark.parametrize("workload", MODELS)
async def test_what_is_planted_is_named_first(
    workload: str,
    tmp_path: Path,
    figure: Figure,
    record_property: Record,
    pytestconfig: pytest.Config,
) -> None:
    if not pytestconfig.getoption("figures"):
        pytest.skip("figures of an hour: `make bench` measures them")
    clean = await profile_of(tmp_path / "clean", workload, "none")
    assert clean.summary.validity != "INVALID", clean.summary.reasons
    again = await profile_of(tmp_path / "again", workload, "none")
    told, advised = [], []
    own_s = sorted((_seconds(clean), _seconds(again)))
    felt = max(FELT, own_s[1] / own_s[0])  # what two profiles of one cell differ by says nothing
    for fault in (one for one in FAULTS if one not in faults_of(workload)):
        record_property(f"{workload}, {fault}", "not here: no such work in this cell on this CPU")
    for fault in faults_of(workload):
        planted = FAULTS[fault]
        faulty = await profile_of(tmp_path / fault, workload, fault, **planted.knobs)
        line, rule = first_line(clean, faulty), first_rule(clean, faulty)
        times = _seconds(faulty) / own_s[1]
        of = f"{faulty.summary.validity}; {line}; {rule}"
        record_property(f"{workload}, {fault}", f"{times:.2f}×; {of}")
        told.append(re.search(planted.said, line) is not None)
        if times > felt:
            advised.append(rule in planted.rules)
    shown = not is_same(diff(clean, again))
    figure(f"{workload}: planted faults named first by the diff / all", *_share_of(told))
    assert advised, "no fault costs anything: the machine was disturbed"
    figure(f"{workload}: of those over 3 %, named first by advice", *_share_of(advised))
    figure(f"{workload}: pairs of profiles of one cell with a difference shown", shown, "0")
    assert sum(told) > len(told) / 2
    assert sum(advised) > len(advised) / 2


def _share_of(named: list[bool]) -> tuple[float, str]:
    """Return the share that was named, and the least that it shall be."""
    return sum(named) / len(named), "0.95"


def _seconds(found: Profile) -> float:
    return (found.summary.step_s or 0.0) + (found.summary.load_s or 0.0)


def first_line(clean: Profile, faulty: Profile) -> str:
    """Return what the diff says first, after the whole."""
    lines = answer_lines(diff(clean, faulty), 3)[1:]
    return next((line for line in lines if not line.startswith("note: ")), "")


def first_rule(clean: Profile, faulty: Profile) -> Rule | None:
    """Return the rule whose prediction grew most, as a share of the step.

    Seconds of all rules grow together where the machine was slower.
    """
    before = {advice.rule: advice.share for advice in advise(clean).advice}
    grown = {
        advice.rule: advice.share - before.get(advice.rule, 0.0) for advice in advise(faulty).advice
    }
    return max(grown, key=lambda rule: grown[rule], default=None)
