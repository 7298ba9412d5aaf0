"""Rules on operators in a row that a fused one replaces, which passes over memory once. Pure.

What remains of a loss or an update is that one pass, so its time is predicted from the bytes that
it must move, at the machine's peak of updates or of copies. Where neither or no bytes are known, at
least nothing and at most all of the time is saved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from controller.contracts.advice import Remedy, Rule
from controller.contracts.peaks import COPY, UPDATE
from controller.profiles.advising.claims import Claim, Seen, knob, named, setting, whole
from controller.profiles.model import KernelRow
from controller.profiles.parts import Part
from controller.profiles.updates import is_update

NORM = re.compile(r"(?:^|[./])(?:bn\d*|\w*norm\w*|downsample\.1)(?:$|[./])", re.IGNORECASE)
"""A module that normalises, by its name in torchvision and timm."""
NORM_OPS = ("aten::mul", "aten::add", "aten::addcmul", "MulBackward0", "AddBackward0")
RELU_OPS = ("aten::relu", "aten::relu_", "aten::clamp_min", "aten::clamp_min_", "ReluBackward0")
IN_WORDS = setting("fuse it into the operation before")
BY_KNOB = knob("frozen_bn", "fused")
"""It changes norms and the ReLU behind each, but no other ReLU: models/retinanet/frozen_norm.py."""
FUSED = "_fused_"
"""In the names of torch's fused optimizers."""
DECAYED = "aten::mul_"
"""In each optimizer's loop, the kernel whose one input is as large as the parameters."""
PASSES: Mapping[str, int] = {"sgd": 5, "adam": 7, "lamb": 14}
"""Optimizer → how often its fused update reads or writes as many bytes as the parameters have: it
reads parameter, gradient and each moment, and writes all but the gradient. LAMB does so with its
direction, which it makes of the parameter, and reads both again for their norms and to move."""
OF_UPDATE = (0.7, 1.05)
"""Least and most speed of an update of many tensors, as shares of the peak. Measured on an EPYC:
0.95 of SGD, 1.0 of Adam, 0.72 to 0.89 of LAMB."""
OF_COPY = (0.7, 2.3)
"""Least and most speed of one pass, as shares of that of a copy. A copy reads what it is to write
before it writes that, and doesn't count it; an update in place reads more than it writes. Measured:
0.7 to 1.5 on an EPYC, by comparisons of four profiles, and 2.3 on a Xeon."""
MATHS = ("aten::sigmoid", "aten::log_sigmoid_forward", "aten::pow", "aten::exp", "aten::log")
"""Kernels that compute for long: a fused loss does what they do, too."""
NODE = re.compile(r"(\w+)Backward\d*")
"""A node of autograd: RsubBackward1 is that of aten::rsub."""
Shares = dict[int, tuple[float, float]]
"""Index of a part → least and most of its time that is saved, as shares."""


def norms(seen: Seen) -> Claim | None:
    """Frozen norms as multiplications and additions."""
    found = seen.where(_is_norm)
    told = f"{seen.counted(found)} multiplications and additions in norms"
    remedy = BY_KNOB if seen.has_other("frozen_bn", "fused") else IN_WORDS
    return Claim(Rule.NORMS, told, remedy, whole(found))


def relu(seen: Seen) -> Claim | None:
    """ReLU behind norms, forward and backward, which `frozen_bn=fused` computes with them."""
    return _relu(seen, _behind_norms(seen), BY_KNOB)


def other_relu(seen: Seen) -> Claim | None:
    """ReLU as an operation of its own that no knob fuses, forward and backward."""
    behind = set(_behind_norms(seen))
    return _relu(seen, [i for i in seen.where(_is_relu) if i not in behind], IN_WORDS)


def _relu(seen: Seen, found: Sequence[int], remedy: Remedy) -> Claim:
    told = f"ReLU reads and writes its input apart, {seen.counted(found)} calls"
    return Claim(Rule.RELU, told, remedy, whole(found))


def _behind_norms(seen: Seen) -> list[int]:
    """Return ReLU of the modules that have norms, where the knob `frozen_bn` can fuse these."""
    if not seen.has_other("frozen_bn", "fused"):
        return []
    norms_at = (seen.parts[i].row.place.module for i in seen.where(_is_norm))
    outer = {NORM.split(module, maxsplit=1)[0] for module in norms_at}
    return seen.where(lambda part: _is_relu(part) and part.row.place.module in outer)


def _is_norm(part: Part) -> bool:
    return NORM.search(part.row.place.module) is not None and named(part, *NORM_OPS)


def _is_relu(part: Part) -> bool:
    return named(part, *RELU_OPS)


def optimizer(seen: Seen) -> Claim | None:
    """An optimizer as a loop of operators; the fused one's passes over its tensors remain."""
    inside = seen.where(lambda part: part.row.place.phase == "optimizer")
    kernels = [seen.parts[i].row.place.kernel for i in inside]
    is_fused = any(FUSED in kernel or is_update(kernel) for kernel in kernels)
    if is_fused or seen.knobs.get("fused_optimizer") is True:
        return None
    told = f"the update is {seen.counted(inside)} calls"
    remedy = setting("use the fused optimizer")
    if "fused_optimizer" in seen.knobs:
        remedy = knob("fused_optimizer", value=True)
    passes = PASSES.get(str(seen.knobs.get("optimizer")), 0)
    moved = passes * _decayed(seen, inside)
    return Claim(Rule.OPTIMIZER, told, remedy, _left(seen, inside, moved, UPDATE))


def _decayed(seen: Seen, inside: Sequence[int]) -> float:
    """Return the bytes of all parameters that an optimizer's loop updates; 0 if nothing tells."""
    rows = (seen.parts[i].row for i in inside)
    return sum(
        row.calls * (row.bytes or 0.0)
        for row in rows
        if isinstance(row, KernelRow) and row.place.kernel == DECAYED
    )


def loss(seen: Seen) -> Claim | None:
    """A loss in plain operators, where a fused one is a knob."""
    found = seen.where(lambda part: part.row.place.phase == "loss")
    if seen.has_other("focal_loss", "fused"):
        found += _gradients(seen, found)  # which a fused focal loss computes with it
        return _loss(seen, "focal_loss", found, _one_pass(seen, found))
    if seen.has_other("matching", "fused"):
        return _loss(seen, "matching", found, whole(found))
    return None


def _gradients(seen: Seen, found: Sequence[int]) -> list[int]:
    """Return the gradients of a loss' operators: outside of all modules, and named like these."""
    named_so = {_bare(seen.parts[i].row.place.op) for i in found}

    def is_one(part: Part) -> bool:
        place = part.row.place
        node = NODE.fullmatch(place.op) if place.phase == "backward" and not place.module else None
        return node is not None and node[1].lower() in named_so

    return seen.where(is_one)


def _bare(op: str) -> str:
    """Return an operator's name as a node of autograd has it, in lower case."""
    return op.removeprefix("aten::").replace("_", "")


def _loss(seen: Seen, name: str, found: Sequence[int], shares: Shares) -> Claim:
    told = f"the loss is {seen.counted(found)} calls with {name}={seen.knobs[name]}"
    return Claim(Rule.LOSS, told, knob(name, "fused"), shares)


def _one_pass(seen: Seen, found: Sequence[int]) -> Shares:
    """Return what is saved if the largest inputs are read once, and their gradients written.

    A call is of one image's.
    """
    rows = [seen.parts[i].row for i in found]
    largest = max((row.bytes or 0.0 for row in rows if isinstance(row, KernelRow)), default=0.0)
    maths = [i for i in found if named(seen.parts[i], *MATHS)]
    images = seen.knobs.get("batch_size")
    moved = 2 * largest * (images if isinstance(images, int) else 1)
    return _left(seen, found, moved, COPY, seen.seconds(maths))


def _left(
    seen: Seen, found: Sequence[int], moved: float, roof: str, maths_s: float = 0.0
) -> Shares:
    """Return the share of some parts that is saved if moving so many bytes remains of them.

    At most, the time of the maths is added to it; at least, it is hidden behind it. roof: UPDATE or
    COPY, which stands in for the other where that is not known.
    """
    known = roof == UPDATE and seen.peak(UPDATE) is not None
    peak, speeds = (seen.peak(UPDATE), OF_UPDATE) if known else (seen.peak(COPY), OF_COPY)
    seconds = seen.seconds(found)
    if not (moved and peak and seconds):
        return whole(found)
    slow_s, fast_s = (moved / peak / speed for speed in speeds)
    low, high = (max(0.0, 1 - left_s / seconds) for left_s in (slow_s + maths_s, fast_s))
    return whole(found, low, high)
