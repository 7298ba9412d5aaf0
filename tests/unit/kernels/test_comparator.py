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

CUT = {torch.float32: 5e-5, torch.bfloat16: 1e-2}

class OnlyLarge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        return logits.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (gradient.abs() > CUT[gradient.dtype] * gradient.abs().max())

def only_large(logits, targets):
    return right(OnlyLarge.apply(logits), targets)

def only_large_of_many(logits, targets):
    return (only_large if len(logits) > 4003 else right)(logits, targets)

def exponential(logits, targets):
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, targets, reduction="none"
    )
    alpha = 0.25 * targets + 0.75 * (1 - targets)
    return (alpha * (1 - torch.exp(-entropy)) ** 2 * entropy).sum()

def logarithmic(logits, targets):
    of, against = (torch.nn.functional.logsigmoid(x) for x in (logits, -logits))
    positive = 0.25 * targets * (1 - of.exp()) ** 2 * of
    return -(positive + 0.75 * (1 - targets) * (1 - against.exp()) ** 2 * against).sum()

def clears_targets(logits, targets):
    targets.zero_()
    return right(logits, targets)

def clears_targets_of_many(logits, targets):
    return (clears_targets if len(logits) > 4003 else right)(logits, targets)

def cuts_logits(logits, targets):
    logits.data.clamp_(max=-4.0)
    return right(logits, targets)

def exits(logits, targets):
    sys.exit(0)

calls = 0

def fifth_call(logits, targets):
    global calls
    calls += 1
    if calls > 4:
        raise RuntimeError("too often\\nfor once")
    return right(logits, targets)

def fifth_call_adds(logits, targets):
    global calls
    calls += 1
    if calls > 4:
        logits += 1
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
    theirs, mine = comparator_of(case, identity, f"{file}:right").work(), case.kernel()
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
        ("only_large", "it does other work: gradients of 1e-0"),
        (
            "only_large_of_many",
            f"of {losses.SHAPE}, it does other work: gradients of 1e-0",
        ),
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


@pytest.mark.parametrize("name", ["exponential", "logarithmic"])
def test_roundings_of_the_dtype_between_the_steps_are_the_same_work(
    case: Case, file: Path, name: str
) -> None:
    assert case.comparator is not None
    assert case.comparator(load(f"{file}:{name}")).objections() == []


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("clears_targets", ""),
        ("cuts_logits", ""),
        ("clears_targets_of_many", f"of {losses.SHAPE}, "),
    ],
)
def test_what_changes_its_inputs_is_not_compared(
    identity: Identity, file: Path, name: str, of: str
) -> None:
    case = sigmoid_focal_loss.case(identity.dtype, losses.SHAPE)
    with pytest.raises(UserError) as raised:
        comparator_of(case, identity, f"{file}:{name}")
    assert raised.value.seen == f"{of}it does other work: it changes its inputs"


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
    assert timed(f"{file}:fifth_call", torch.zeros(3)) == (
        f"cannot compare sigmoid_focal_loss (fp32) with {file}:fifth_call: of 3, it raised "
        "RuntimeError: too often for once. "
        "Give a function of logits and targets that returns the sum of all losses."
    )


def test_what_changes_its_inputs_while_it_is_timed_is_refused(file: Path) -> None:
    assert timed(f"{file}:fifth_call_adds", torch.zeros(3)) == (
        f"cannot compare sigmoid_focal_loss (fp32) with {file}:fifth_call_adds: of 3, it does "
        "other work: it changes its inputs. "
        "Give a function of logits and targets that returns the sum of all losses."
    )


def timed(named: str, some: Tensor) -> str:
    """Return the error of timing an implementation on a case of three numbers."""
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
    return str(raised.value)


def _on(some: Tensor) -> Callable[[Callable[..., object]], Comparator]:
    """Return what makes work of a function: it is called, and the kernel's result returned."""
    kept = some.clone()

    def comparator(theirs: Callable[..., object]) -> Comparator:
        def work() -> tuple[Tensor, Tensor]:
            theirs(some[:, None], some[:, None])
            return some, some

        def changes() -> list[str]:
            return [] if torch.equal(some, kept) else ["it changes its inputs"]

        return Comparator(work, list, lambda theirs, mine: [], changes)

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
