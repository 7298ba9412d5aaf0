"""Implementations that users bring: which are loaded, which do the same work."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from agents.kernel_bench.measure import Identity
from agents.kernel_bench.worker import comparator_of
from controller.contracts.errors import UserError
from kernels.bench import losses, nms, sigmoid_focal_loss
from kernels.bench.case import Case
from kernels.bench.comparator import ComparatorUnusable, load
from kernels.reference import focal_loss as reference

COMPARATORS = """
from kernels.reference.focal_loss import sigmoid_focal_loss

NUMBER = 3

def right(logits, targets):
    return sigmoid_focal_loss(logits, targets, reduction="sum")

def mean(logits, targets):
    return sigmoid_focal_loss(logits, targets, reduction="mean")

def whole(logits, targets):
    return sigmoid_focal_loss(logits, targets, reduction="none")

def gamma_of_one(logits, targets):
    return sigmoid_focal_loss(logits, targets, gamma=1.0, reduction="sum")

def without_gradient(logits, targets):
    return right(logits.detach(), targets)

def not_a_number(logits, targets):
    return right(logits, targets) * float("nan")

def raises(logits, targets):
    raise ValueError("not these")

def asserts(logits, targets):
    assert logits.dtype is None, "no type"

def few(logits, targets):
    if len(logits) > 100_000:
        raise IndexError("too many")
    return right(logits, targets)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "comparators.py"
    path.write_text(COMPARATORS)
    return path


@pytest.fixture(scope="module", params=["fp32", "bf16"])
def case(request: pytest.FixtureRequest) -> Case:
    """The case of dense targets."""
    return sigmoid_focal_loss.case(request.param, losses.SHAPE)


IDENTITY = Identity("sigmoid_focal_loss", "fp32", "avx2")


def test_the_same_work_is_done_by_another_function(case: Case, file: Path) -> None:
    work = comparator_of(case, IDENTITY, f"{file}:right")
    theirs, mine = work(), case.kernel()
    assert isinstance(theirs, tuple)
    assert isinstance(mine, tuple)
    # The largest of both dtypes: bf16 sums are rounded to 8 bits at the end.
    torch.testing.assert_close(theirs[0].float(), mine[0].float(), rtol=2**-7, atol=0)
    assert theirs[1].shape == mine[1].shape


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("mean", "it does other work: loss: relative error"),
        ("whole", "it does other work: it raised RuntimeError"),
        ("gamma_of_one", "it does other work: loss: relative error"),
        ("without_gradient", "it does other work: it raised RuntimeError"),
        ("not_a_number", "it does other work: loss: relative error nan"),
        ("raises", "it does other work: it raised ValueError: not these"),
        ("asserts", "it does other work: it raised AssertionError: no type"),
        ("few", f"of {losses.SHAPE}, it raised IndexError: too many"),
    ],
)
def test_other_work_is_not_compared(case: Case, file: Path, name: str, seen: str) -> None:
    with pytest.raises(UserError) as raised:
        comparator_of(case, IDENTITY, f"{file}:{name}")
    assert raised.value.seen.startswith(seen)
    assert raised.value.tried == f"compare sigmoid_focal_loss (fp32) with {file}:{name}"


def test_an_operator_without_a_form_for_others_says_so(file: Path) -> None:
    case = nms.case("fp32", nms.OPERATOR.shapes[0])
    with pytest.raises(UserError, match="no form for others"):
        comparator_of(case, Identity("nms", "fp32", "avx2"), f"{file}:right")


def test_functions_are_found_in_files_modules_and_libraries(file: Path) -> None:
    logits, targets = torch.randn(3, 4), torch.ones(3, 4)
    truth = reference.sigmoid_focal_loss(logits, targets, reduction="sum")
    found = load(f"{file}:right")(logits, targets)
    assert isinstance(found, Tensor)
    torch.testing.assert_close(found, truth)
    assert load("kernels.reference.focal_loss:sigmoid_focal_loss") is reference.sigmoid_focal_loss


@pytest.mark.parametrize(
    ("named", "seen"),
    [
        ("focal", "no name after a colon"),
        (":right", "no name after a colon"),
        ("{file}:", "no name after a colon"),
        ("{file}:wrong", "AttributeError"),
        ("{file}:NUMBER", "NUMBER is no function"),
        ("{folder}/gone.py:right", "FileNotFoundError"),
        ("{folder}/gone.so:a::b", "OSError"),
        ("{broken}:right", "SyntaxError"),
        ("no.such.module:right", "ModuleNotFoundError"),
    ],
)
def test_what_can_not_be_loaded_says_why(file: Path, named: str, seen: str) -> None:
    broken = file.with_name("broken.py")
    broken.write_text("def right(:\n")
    with pytest.raises(ComparatorUnusable, match=seen):
        load(named.format(file=file, folder=file.parent, broken=broken))
