"""Rules on what the CPU's units do with a step's numbers: instruction sets, AMX, denormals. Pure.

The least that is saved is 0; the most is the time above what the step's work takes at measured
peaks. Peaks are measured by programs that a limit, or a hypervisor, keeps from AMX as well: they
say nothing of AMX's speed then.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.advice import Rule
from controller.contracts.peaks import COPY
from controller.profiles.advising.claims import Claim, Seen, is_product, knob, setting
from controller.profiles.advising.work import above_roof, largest, words
from controller.profiles.model import LOAD, KernelRow, PrimitiveRow
from controller.profiles.operations import VIEWS
from controller.profiles.parts import Part
from controller.profiles.sites import dtype_of, is_reorder

LIMIT = "ONEDNN_MAX_CPU_ISA"
"""oneDNN's variable that names the most instruction sets which it may use."""
LEFT_TO_ONEDNN = "AVX512_CORE_FP16"
"""Its value in workers on a CPU that announces AMX without its tiles: all but AMX. benchfarm sets
it, since oneDNN ends in SIGILL there without it."""
NO_LIMIT = frozenset(("", "DEFAULT", "ALL"))
DENORMAL_SHARE = 1e-3
"""Share of denormal numbers from which they are told. An operation of 16 numbers has one in 1.6 %
of its calls then, and on many CPUs such a call takes over 100 cycles instead of one."""
COPIES = frozenset(
    f"aten::{name}"
    for name in ("copy_", "clone", "contiguous", "cat", "stack", "zero_", "fill_", "_to_copy", "to")
)
"""Kernels that compute nothing: they take no longer for denormal numbers."""
QUICK_PRODUCTS = "AuthenticAMD"
"""Vendor of CPUs whose products take no longer for denormal numbers. Measured on an EPYC (Zen 4):
nor do sums, while a product and sum of each number takes 1.4 times, and a square root 31 times."""
OWN_FLUSHING = frozenset(("avx512_bf16", "amx_bf16"))
"""Instruction sets whose products in bf16 always take denormal numbers for zero."""


def hidden_isa(seen: Seen) -> Claim | None:
    """Primitives kept from an instruction set, by a limit or by a hypervisor that hides AMX.

    A limit that only keeps oneDNN from hidden tiles is none that could be lifted.
    """
    limit, hollow = _limit(seen), _hidden_amx(seen)
    if hollow and limit in (*NO_LIMIT, LEFT_TO_ONEDNN):
        return _without_tiles(seen)
    if limit in NO_LIMIT:
        return None
    found = seen.where(lambda part: isinstance(part.row, PrimitiveRow) and is_product(part))
    shares = {i: (0.0, above_roof(seen.parts[i])) for i in found}
    remedy = setting(f"unset {LIMIT}")
    if hollow:
        remedy = setting(f"set {LIMIT}={LEFT_TO_ONEDNN}: more ends in SIGILL without AMX's tiles")
    told = f"{LIMIT}={limit} limits {len(found)} kinds of product"
    return Claim(Rule.HIDDEN_ISA, told, remedy, shares)


def _limit(seen: Seen) -> str:
    """Return the limit of oneDNN's instruction sets; empty if none is set."""
    settings = (one.partition("=") for one in words(seen.origin.environment.get("settings")))
    return next((value.upper() for name, _, value in settings if name == LIMIT), "")


def _hidden_amx(seen: Seen) -> bool:
    """Return whether the CPU announces AMX, and programs can't use it."""
    unusable = words(seen.origin.environment.get("isa_unusable"))
    return any(name.startswith("amx") for name in unusable)


def _without_tiles(seen: Seen) -> Claim:
    """Products in bf16 that AMX's tiles would do; at most all of their time but for moving bytes.

    Nothing where bytes or the peak of copying aren't known. In fp32, AMX does nothing.
    """
    found = {i: share for i in _products_in_bf16(seen) if (share := _above_moving(seen, i))}
    told = (
        f"the CPU announces AMX and its hypervisor hides the tiles; {seen.counted(found)} products "
        f"in bf16 run without{largest(seen, found)}. Peaks are measured without AMX, too, so that "
        "only moving their bytes is taken to remain"
    )
    remedy = setting(
        "ask for AMX's tiles: another type of virtual machine, or CPUID leaves 1DH and 1EH from "
        "its host"
    )
    return Claim(Rule.HIDDEN_ISA, told, remedy, {i: (0.0, share) for i, share in found.items()})


def amx_unused(seen: Seen) -> Claim | None:
    """Products in bf16 that oneDNN does without AMX, which the CPU has and nothing limits."""
    isa = words(seen.origin.environment.get("isa"))
    if "amx_bf16" not in isa or _limit(seen) not in NO_LIMIT:
        return None
    found = list(_products_in_bf16(seen))
    told = f"{seen.counted(found)} products in bf16 run without AMX{largest(seen, found)}"
    remedy = setting(
        "have channels in multiples of 32, as AMX's tiles do; ONEDNN_VERBOSE=dispatch says why not"
    )
    shares = {i: (0.0, above_roof(seen.parts[i])) for i in found}
    return Claim(Rule.AMX_UNUSED, told, remedy, shares)


def _products_in_bf16(seen: Seen) -> Iterator[int]:
    """Yield products in bf16 whose implementation is known, has no AMX, and could have it."""
    for i in seen.products.get("bf16", []):
        row = seen.parts[i].row
        if not isinstance(row, PrimitiveRow) or not row.implementation:
            continue
        if "amx" not in row.implementation and not _is_depthwise(row):
            yield i


def _is_depthwise(row: PrimitiveRow) -> bool:
    """Return whether a convolution has a channel a group, which tiles would be empty for."""
    groups = row.parameters.get("g", 1)
    return groups > 1 and groups == row.parameters.get("ic")


def _above_moving(seen: Seen, index: int) -> float:
    """Return the share of a primitive's time above moving its bytes; 0 if that is not known."""
    part, peak = seen.parts[index], seen.peak(COPY)
    if not isinstance(part.row, PrimitiveRow) or part.row.bytes is None or peak is None:
        return 0.0
    return max(0.0, 1 - part.row.calls * part.row.bytes / peak / part.seconds)


def denormals(seen: Seen) -> Claim | None:
    """Many denormal numbers among parameters and gradients; at most what is above the roofline."""
    share = seen.origin.environment.get("denormal_share")
    flushes = seen.knobs.get("flush_denormals")
    if not isinstance(share, float) or share < DENORMAL_SHARE or flushes is True:
        return None
    remedy = setting("call torch.set_flush_denormal(True) before the first operation")
    if flushes is False:
        remedy = knob("flush_denormals", value=True)
    found = seen.where(lambda part: _computes(part) and not _is_unhindered(seen, part))
    told = (
        f"{share:.2%} of parameters and gradients are denormal after the last step; "
        f"{seen.counted(found)} calls may compute with such numbers"
    )
    shares = {i: (0.0, above_roof(seen.parts[i])) for i in found}
    return Claim(Rule.DENORMALS, told, remedy, shares)


def _is_unhindered(seen: Seen, part: Part) -> bool:
    """Return whether a part is a product that denormal numbers don't slow down on this CPU."""
    facts = seen.origin.environment
    own = dtype_of(part.row) == "bf16" and OWN_FLUSHING.intersection(words(facts.get("isa")))
    return is_product(part) and (bool(own) or facts.get("cpu_vendor") == QUICK_PRODUCTS)


def _computes(part: Part) -> bool:
    """Return whether a part computes with floating-point numbers, by all that is known of it."""
    row = part.row
    if row.place.phase == LOAD or is_reorder(row):
        return False
    if isinstance(row, KernelRow):
        kind = row.place.kernel
        return bool(row.place.op) and not row.primitive_s and kind not in VIEWS | COPIES
    return True
