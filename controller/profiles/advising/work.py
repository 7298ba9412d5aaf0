"""Rules on how a step's work is done: types, layouts, frozen stages. Pure.

Each takes a profile and returns what a change saves of which parts, or None if the profile shows no
such fault. The least that is saved is 0, unless something tells how much of the work falls away;
the most is all of the time that the change can avoid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from controller.contracts.advice import Rule
from controller.contracts.peaks import COPY
from controller.profiles.advising.claims import Claim, Seen, is_product, knob, setting, whole
from controller.profiles.counts import calls_text
from controller.profiles.model import KernelRow, PrimitiveRow
from controller.profiles.parts import Part
from controller.profiles.sites import dtype_of, is_conversion, is_reorder
from controller.profiles.validity import NOISE

STAGES = ("conv1", "layer1", "layer2", "layer3", "layer4")
"""The stages of a ResNet as torchvision names them, from the input on."""
_BLOCKED = re.compile(r"aBc(?:d(?:e)?)?\d+b")
"""oneDNN's layouts of activations with blocks of channels."""
_PACKED = re.compile(r"[a-f]*[A-F][a-fA-F]*\d\w*")
"""oneDNN's layouts with blocks. Where they are none of activations, they are of weights: ABcd8b8a,
ABcd8a8b (for gradients of inputs), Acdb16a, Bcda16b, and of groups aBdec16b, aBCde8b8c."""
NOT_GENERATED = ("simple", "ref")
"""Beginnings of the names of oneDNN's reorders that are no code generated for the sizes."""
_PLAIN = re.compile(r"abc(?:d(?:e)?)?")


def layout(seen: Seen) -> Claim | None:
    """Activations converted between the plain and another layout, where they are not channels-last.

    Other reorders remain: those of weights, and of types. Convolutions get other implementations,
    which one profile can't tell to be faster or slower: the evidence says so.
    """
    if seen.has_other("memory_format", "contiguous"):
        return None
    found = seen.where(lambda part: is_reorder(part.row) and _of_activations(part))
    named_so = seen.knobs.get("memory_format")
    remedy = knob("memory_format", "channels_last") if named_so else setting("use channels-last")
    told = (
        f"{seen.counted(found)} reorders convert activations from or to the plain layout; "
        "without them, convolutions get other implementations, which may be slower: prove it first"
    )
    return Claim(Rule.LAYOUT, told, remedy, whole(found))


def _of_activations(part: Part) -> bool:
    if not isinstance(part.row, PrimitiveRow):
        return False
    tags = _tags(part.row)
    plain = any(_PLAIN.fullmatch(tag) for tag in tags)
    return plain and any(_BLOCKED.fullmatch(tag) or tag in ("acdb", "acb", "acdeb") for tag in tags)


def reorders(seen: Seen) -> Claim | None:
    """Conversions that no knob avoids: of types, forced ones, and of weights that can't be packed
    once."""
    others = (claim for claim in (layout(seen), packed(seen), unpacked(seen)) if claim)
    elsewhere = {i for claim in others for i in claim.shares}
    found = [i for i in seen.where(lambda part: is_conversion(part.row)) if i not in elsewhere]
    remedy = setting("keep tensors in the layout and type in which the next primitive reads them")
    copies = [i for i in found if not is_reorder(seen.parts[i].row)]
    count = f"{calls_text(seen.calls(found) - seen.calls(copies))} reorders"
    if copies:
        count += f" and {seen.counted(copies)} copies into another layout"
    told = f"{count} compute nothing{largest(seen, found)}"
    return Claim(Rule.REORDERS, told, remedy, whole(found))


def unpacked(seen: Seen) -> Claim | None:
    """Weights that each call lays out for oneDNN, and ipex.optimize packs once.

    Only with AVX-512: without it, packed weights made steps up to 2.85 times as long
    (docs/performance.md).
    """
    is_off = seen.knobs.get("ipex_optimize") is False
    if not (is_off and "avx512f" in words(seen.origin.environment.get("isa"))):
        return None
    found = seen.where(lambda part: is_reorder(part.row) and _of_weights(part))
    told = f"{seen.counted(found)} reorders lay out weights in each call{largest(seen, found)}"
    return Claim(Rule.REORDERS, told, knob("ipex_optimize", value=True), whole(found))


def _of_weights(part: Part) -> bool:
    """Return whether a reorder is from or to a packed layout of weights, and keeps their type."""
    if not isinstance(part.row, PrimitiveRow) or ":" in part.row.data_types:
        return False
    return any(_is_packed(tag) for tag in _tags(part.row))


def packed(seen: Seen) -> Claim | None:
    """Weights that ipex.optimize has packed, and a call wants packed otherwise.

    Without ipex.optimize, weights come from the plain layout, at about the roofline's time; so do
    those of all other calls, and its fused update falls away. So where these reorders are not most
    of a step, the least that is saved is 0.
    """
    if seen.knobs.get("ipex_optimize") is not True:
        return None
    found = seen.where(lambda part: is_reorder(part.row) and _of_packed_weights(part))
    told = (
        f"{seen.counted(found)} reorders lay out weights again, which ipex.optimize has packed in "
        f"another layout{largest(seen, found)}"
    )
    above = {i: above_roof(seen.parts[i]) for i in found}
    above_s = sum(share * seen.parts[i].seconds for i, share in above.items())
    is_most = above_s >= MOSTLY * seen.seconds(seen.in_step)
    shares = {i: (share * (1 - NOISE) * is_most, share) for i, share in above.items()}
    return Claim(Rule.PACKED_WEIGHTS, told, knob("ipex_optimize", value=False), shares)


MOSTLY = 0.5
"""Share of a step. Measured on an EPYC without AVX-512, where such reorders had 0.66 and 0.52 of a
step above the roofline: all in all, 0.98 and 0.96 of that was saved."""


def _of_packed_weights(part: Part) -> bool:
    row = part.row
    if not isinstance(row, PrimitiveRow) or not row.implementation.startswith(NOT_GENERATED):
        return False
    tags = _tags(row)
    return len(tags) > 1 and all(_is_packed(tag) for tag in tags)


def _is_packed(tag: str) -> bool:
    """Return whether a layout has blocks, and is none of activations."""
    return bool(_PACKED.fullmatch(tag)) and not _BLOCKED.fullmatch(tag)


def _tags(row: PrimitiveRow) -> list[str]:
    """Return the layouts of a primitive's tensors."""
    return [tag.partition(":")[2] for tag in row.layout.split()]


def fallback(seen: Seen) -> Claim | None:
    """Products in fp32 in a run of bf16; with peaks of both, at most what bf16 is faster."""
    found = seen.products.get("f32", [])
    high = _gain_of_bf16(seen, unknown=1.0)
    if not seen.is_bf16 or not found or high <= 0:
        return None
    told = f"{seen.counted(found)} products run in fp32{largest(seen, found)}"
    remedy = setting("let these operations run in bf16: cast their inputs, or widen autocast")
    return Claim(Rule.FALLBACK, told, remedy, whole(found, high=high))


def precision(seen: Seen) -> Claim | None:
    """Matrix products in fp32 on a CPU that multiplies bf16, and what moves their tensors, of half
    the bytes in bf16.

    A recurrent layer's steps wait for each other, and gain half as much at most: measured on an
    EPYC, an LSTM's gained a third of it.
    """
    isa = words(seen.origin.environment.get("isa"))
    units = [name for name in ("amx_bf16", "avx512_bf16") if name in isa]
    found = seen.products.get("f32", [])
    high = _gain_of_bf16(seen, unknown=0.5)
    if seen.is_bf16 or not units or not found or high <= 0:
        return None
    told = f"{seen.counted(found)} products run in fp32, and the CPU has {units[0]}"
    remedy = (
        knob("precision", "bf16")
        if "precision" in seen.knobs
        else setting("compute in bf16, with the loss in fp32")
    )
    low = min(high, AT_LEAST_TWICE) if seen.peak("bf16") and seen.peak("f32") else 0.0
    recurrent = [i for i in found if _is_recurrent(seen.parts[i])]
    moved = seen.where(lambda part: _moves_activations(part) and not is_product(part))
    shares = whole(found, low=low, high=high) | whole(recurrent, high=high / 2)
    return Claim(Rule.PRECISION, told, remedy, shares | whole(moved, high=HALF_THE_BYTES))


AT_LEAST_TWICE = 0.5
"""Of products' time saved, the least where peaks are measured: in four comparisons on an EPYC,
whose bf16 is twice as fast at its peak, all that the peaks say was realised. AMX's peak is ten
times fp32's, and convolutions come nowhere near it."""
HALF_THE_BYTES = 0.5


def _is_recurrent(part: Part) -> bool:
    return isinstance(part.row, PrimitiveRow) and part.row.primitive == "rnn"


def _moves_activations(part: Part) -> bool:
    row = part.row
    in_model = row.place.phase in ("forward", "backward") and bool(row.place.op)
    return in_model and dtype_of(row) == "f32"


def _gain_of_bf16(seen: Seen, unknown: float) -> float:
    """Return the share of fp32's time that bf16 saves at measured peaks, else `unknown`."""
    fp32, bf16 = seen.peak("f32"), seen.peak("bf16")
    return unknown if fp32 is None or bf16 is None else max(0.0, 1 - fp32 / bf16)


def frozen(seen: Seen) -> Claim | None:
    """Gradients of stages that don't learn, which fall away as a whole."""
    learn = seen.knobs.get("trainable_stages")
    if not (isinstance(learn, int) and seen.knobs.get("skip_frozen") is False):
        return None
    stages = STAGES[: max(0, len(STAGES) - learn)]
    found = seen.where(
        lambda part: part.row.place.phase == "backward" and _stage(part.row.place.module) in stages
    )
    told = f"gradients of stages that don't learn: {', '.join(stages)}"
    return Claim(Rule.FROZEN, told, knob("skip_frozen", value=True), whole(found, low=1 - NOISE))


def _stage(module: str) -> str:
    """Return the stage that a module is in; its blocks have a `conv1`, too, further in."""
    return next((level for level in re.split(r"[./]", module) if level in STAGES), "")


def above_roof(part: Part) -> float:
    """Return the share of a part's time above the roofline; all of it where that is not known."""
    if part.headroom_s is None:
        return 1.0
    return min(1.0, part.headroom_s / part.seconds)


def above_copy(seen: Seen, part: Part) -> float:
    """Return the share of a kernel's time above reading its inputs at the peak of copying."""
    row, peak = part.row, seen.peak(COPY)
    if not isinstance(row, KernelRow) or row.bytes is None or peak is None:
        return 1.0
    return max(0.0, 1 - row.calls * row.bytes / peak / part.seconds)


def words(fact: object) -> tuple[str, ...]:
    """Return the words of a fact that is a text or a list; none of any other."""
    if isinstance(fact, str):
        return tuple(fact.split())
    return tuple(map(str, fact)) if isinstance(fact, tuple) else ()


def largest(seen: Seen, found: Iterable[int]) -> str:
    """Return where most time of some parts goes, in words."""
    first = max(found, key=lambda i: seen.parts[i].seconds, default=None)
    if first is None:
        return ""
    row = seen.parts[first].row
    where = " of ".join(filter(None, (row.place.phase, row.place.module)))
    typed = f" ({dtype_of(row)})" if dtype_of(row) else ""
    return f", most in {where}{typed}" if where else ""
