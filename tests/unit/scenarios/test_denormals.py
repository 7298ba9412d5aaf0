"""Denormal numbers: how many there are, and that none are made where they are flushed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from agents.backends.denormals import CHUNK, denormal_facts, denormals_in
from agents.backends.stepping import OneProcess
from agents.backends.torch_eager.backend import TorchEager
from agents.backends.torch_eager.config import TorchConfig
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.manifests import defaults_of
from tests.support.workloads import Line

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
FLUSHED = """
import torch
from agents.backends.denormals import flush_denormals
from controller.contracts.errors import WorkerFault

torch.set_num_threads(2)
{before}
try:
    flush_denormals()
except WorkerFault as fault:
    print(fault.failure.blame, fault.failure.message)
else:
    made = torch.full((2**22,), torch.finfo(torch.float32).tiny).mul_(0.5)
    print(int(torch.count_nonzero(made.view(torch.int32))), "denormal")
"""
"""In a process of its own: the mode is one of each thread, and is handed on to those it starts."""

REFUSED = (
    "user cannot flush denormals: the CPU lacks it, or threads were started before. Set the knob "
    "flush_denormals to false."
)


def some(dtype: torch.dtype) -> Tensor:
    """Return three denormal numbers among others."""
    info = torch.finfo(dtype)
    ends = [0.0, -0.0, info.tiny, -info.tiny, 1.0, info.max, float("inf"), float("nan")]
    denormal = [info.tiny / 2, -info.tiny / 2, info.smallest_normal * info.eps]
    return torch.tensor([*ends, *denormal], dtype=torch.float64).to(dtype)


@pytest.fixture
def flushed() -> Iterator[None]:
    assert torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_denormals_are_told_from_all_others(dtype: torch.dtype) -> None:
    assert denormals_in(some(dtype)) == 3


@pytest.mark.usefixtures("flushed")
def test_denormals_from_before_are_found_while_they_are_flushed() -> None:
    half = torch.tensor([0x00400000], dtype=torch.int32).view(torch.float32)
    assert not half.gt(0), "comparisons take it for zero"
    assert denormals_in(half) == 1


def test_denormals_in_large_tensors_of_any_layout() -> None:
    found = torch.ones(3, 5, 300, 300).to(memory_format=torch.channels_last)
    assert found.numel() > CHUNK
    found[:, 2, ::3, 7] = 1e-39
    assert denormals_in(found) == 3 * 100
    assert denormals_in(found[:, :, ::2]) == 3 * 50


def test_the_share_is_that_of_parameters_and_their_gradients() -> None:
    model = nn.ParameterList([torch.ones(6), torch.ones(2, dtype=torch.bfloat16)])
    model[1].data[:] = 1e-39
    assert denormal_facts(model) == {"denormal_share": 2 / 8}
    model[0].grad = torch.full((6,), 1e-40)
    assert denormal_facts(model) == {"denormal_share": 8 / 14}


def test_no_share_of_no_numbers() -> None:
    assert denormal_facts(nn.ReLU()) == {"denormal_share": None}
    whole = nn.Embedding(4, 2, sparse=True)
    whole(torch.tensor([1])).sum().backward()
    assert whole.weight.grad is not None
    assert whole.weight.grad.is_sparse
    assert denormal_facts(whole) == {"denormal_share": 0.0}


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "0 denormal"),
        (
            "torch.ones(2**22).mul_(1.0)  # starts a thread, which keeps its mode",
            REFUSED,
        ),
    ],
    ids=["all threads", "a thread from before"],
)
def test_every_thread_flushes_or_none_is_said_to(before: str, said: str) -> None:
    command = [sys.executable, "-c", FLUSHED.format(before=before)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout.strip() == said


@pytest.mark.parametrize("stack", ["torch", "torch-compile", "ipex"])
def test_stacks_keep_denormals_unless_told_otherwise(stack: str) -> None:
    knobs = defaults_of(load_catalog().stacks[stack].knobs)
    assert not TorchConfig.from_knobs(knobs).flush_denormals
    assert TorchConfig.from_knobs({**knobs, "flush_denormals": True}).flush_denormals


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Scalar]]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield defaults_of(load_catalog().stacks["torch"].knobs)
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("flushes", [False, True])
def test_a_stack_flushes_as_its_knob_says(knobs: dict[str, Scalar], flushes: bool) -> None:
    TorchEager({**knobs, "flush_denormals": flushes})
    made = torch.full((4,), torch.finfo(torch.float32).tiny).mul_(0.5)
    assert denormals_in(made) == (0 if flushes else 4)


def test_a_training_tells_the_share(knobs: dict[str, Scalar]) -> None:
    process = OneProcess(Line(), TorchEager(knobs))
    process.start()
    process.load(0)
    process.step()
    assert process.environment()["denormal_share"] == 0.0
    for parameter in process.model.parameters():
        parameter.data.fill_(1e-39)
    assert process.environment()["denormal_share"] == 0.5, "gradients are normal numbers"
