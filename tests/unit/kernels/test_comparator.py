"""Implementations that users bring: which are loaded, which do the same work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from agents.kernel_bench.measure import Identity
from agents.kernel_bench.worker import against, comparator_of
from controller.contracts.errors import UserError
from controller.contracts.kernels import KernelBench
from kernels.bench import losses, nms, sigmoid_focal_loss
from kernels.bench.case import Case, Comparator, Differentiated
from kernels.bench.comparator import ComparatorUnusable, guarded, load, users_code
from kernels.reference import focal_loss as reference

COMPARATORS = """
import sys

import torch

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

def not_a_number_of_many(logits, targets):
    return right(logits, targets) * (float("nan") if len(logits) > 4003 else 1.0)

def first_rows(logits, targets):
    return right(logits[:4003], targets[:4003])

class SteeperOfMany(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        return logits.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1.1 if len(gradient) > 4003 else 1.0)

def steeper_of_many(logits, targets):
    return right(SteeperOfMany.apply(logits), targets)

def exits(logits, targets):
    sys.exit(0)

calls = 0

def fifth_call(logits, targets):
    global calls
    calls += 1
    if calls > 4:
        raise RuntimeError("too often\\nfor once")
    return right(logits, targets)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "comparators.py"
    path.write_text(COMPARATORS)
    return path


@pytest.fixture(scope="module", params=["fp32", "bf16"])
def identity(request: pytest.FixtureRequest) -> Identity:
    return Identity("sigmoid_focal_loss", request.param, "avx2")


@pytest.fixture(scope="module")
def case(identity: Identity) -> Case:
    """The case of dense targets."""
    return sigmoid_focal_loss.case(identity.dtype, losses.SHAPE)


def test_the_same_work_is_done_by_another_function(
    case: Case, identity: Identity, file: Path
) -> None:
    work = comparator_of(case, identity, f"{file}:right")
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
        ("exits", "it does other work: it raised SystemExit: 0"),
        ("few", f"of {losses.SHAPE}, it raised IndexError: too many"),
        ("first_rows", f"of {losses.SHAPE}, it does other work: loss: relative error"),
        (
            "not_a_number_of_many",
            f"of {losses.SHAPE}, it does other work: loss: relative error nan",
        ),
        ("steeper_of_many", f"of {losses.SHAPE}, it does other work: gradient: relative error"),
    ],
)
def test_other_work_is_not_compared(
    case: Case, identity: Identity, file: Path, name: str, seen: str
) -> None:
    with pytest.raises(UserError) as raised:
        comparator_of(case, identity, f"{file}:{name}")
    assert raised.value.seen.startswith(seen)
    tried = f"compare sigmoid_focal_loss ({identity.dtype}) with {file}:{name}"
    assert raised.value.tried == tried


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
        ("{script}:right", "SystemExit: 0"),
        ("no.such.module:right", "ModuleNotFoundError"),
    ],
)
def test_what_can_not_be_loaded_says_why(file: Path, named: str, seen: str) -> None:
    broken = file.with_name("broken.py")
    broken.write_text("def right(:\n")
    script = file.with_name("script.py")
    script.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(ComparatorUnusable, match=seen):
        load(named.format(file=file, folder=file.parent, broken=broken, script=script))


def test_what_it_raises_while_it_is_timed_is_one_line(file: Path) -> None:
    """Its first calls are right: of few rows, of all, and the warm-up."""
    some = torch.zeros(3)
    named = f"{file}:fifth_call"
    case = Case(
        shape="3",
        kernel=lambda: (some, some),
        baselines={},
        moved_bytes=24,
        largest_bytes=12,
        objections=list,
        comparator=_on(some),
    )
    wanted = KernelBench(verb="bench", width=0.5, time_limit_s=0.1, policy="ci", against=named)
    with pytest.raises(UserError) as raised:
        against(wanted, Identity("sigmoid_focal_loss", "fp32", "avx2"), case, named, "seed")
    assert str(raised.value) == (
        f"cannot compare sigmoid_focal_loss (fp32) with {named}: of 3, it raised RuntimeError: too "
        "often for once. Give a function of logits and targets that returns the sum of all losses."
    )


def _on(some: Tensor) -> Callable[[Callable[..., object]], Comparator]:
    """Return what makes work of a function: it is called, and the kernel's result returned."""

    def comparator(theirs: Callable[..., object]) -> Comparator:
        def work() -> tuple[Tensor, Tensor]:
            theirs(some[:, None], some[:, None])
            return some, some

        return Comparator(work, list)

    return comparator


def test_both_passes_are_guarded() -> None:
    def fails(*_: object) -> object:
        raise SystemExit(3)

    forward = guarded(Differentiated(fails, lambda made: made))
    backward = guarded(Differentiated(lambda: 1, fails))
    assert isinstance(forward, Differentiated)
    assert isinstance(backward, Differentiated)
    for work in (forward, forward.forward, backward, lambda: backward.backward(1), guarded(fails)):
        with pytest.raises(ComparatorUnusable, match="SystemExit: 3"):
            work()
    assert backward.forward() == 1


@pytest.mark.parametrize("end", [KeyboardInterrupt, type("Terminated", (SystemExit,), {})])
def test_the_end_of_the_process_is_not_of_the_users_code(end: type[BaseException]) -> None:
    with pytest.raises(end), users_code():
        raise end
