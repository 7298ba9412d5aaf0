"""Rules on a step's products: tiny ones, and those that another algorithm avoids. Pure.

Each takes a profile and returns what a change saves of which parts, or None if the profile shows no
such fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from controller.contracts.advice import Remedy, Rule
from controller.profiles.advising.claims import Claim, Seen, is_product, knob, setting, whole
from controller.profiles.advising.work import above_roof
from controller.profiles.model import PrimitiveRow
from controller.profiles.parts import Part
from controller.profiles.sites import dtype_of, is_reorder

_HEAD = re.compile(r"(?:^|[./])head(?:$|[./])")
"""The heads of RetinaNet, by the name of their module."""
TINY_S = 1e-4
"""A call below it spends much on starting, and on passing work between threads."""
FAR_BELOW = 4
"""Times the roofline's bound."""


def tiny(seen: Seen) -> Claim | None:
    """Short products in heads that run level by level, and far above the roofline."""
    return _tiny(seen, _by_level(seen), knob("packed_levels", value=True))


def other_tiny(seen: Seen) -> Claim | None:
    """Other short products that take several times what the roofline allows."""
    by_level = set(_by_level(seen))
    found = [i for i in seen.where(_is_tiny) if i not in by_level]
    return _tiny(seen, found, setting("compute several at once, for example with a larger batch"))


def _tiny(seen: Seen, found: Sequence[int], remedy: Remedy) -> Claim:
    """Return short products' claim: at most what is above the roofline."""
    told = f"{seen.counted(found)} products below 0.1 ms take over {FAR_BELOW}× the roofline's time"
    return Claim(Rule.TINY, told, remedy, {i: (0.0, above_roof(seen.parts[i])) for i in found})


def _by_level(seen: Seen) -> list[int]:
    """Return the short products that `packed_levels` would compute for several levels at once.

    In other forms than convolutions, heads compute all levels at once already (docs/stacks.md).
    """
    packs, convolutions = seen.knobs.get("packed_levels"), seen.knobs.get("head_convolutions")
    if packs is not False or convolutions in ("matmul", "winograd"):
        return []
    return seen.where(lambda part: _is_tiny(part) and bool(_HEAD.search(part.row.place.module)))


def _is_tiny(part: Part) -> bool:
    return (
        is_product(part)
        and part.seconds < TINY_S * part.row.calls
        and above_roof(part) > 1 - 1 / FAR_BELOW
        and part.row.attainable_s is not None
    )


def direct(seen: Seen) -> Claim | None:
    """3x3 convolutions of the heads in fp32, which take Winograd's algorithm fewer products.

    Its tiles of 4x4 outputs take 2.25 products a cell where a convolution takes 9
    (docs/kernels.md); the transforms around them take time of their own. In a run of bf16, such
    convolutions are a fallback.
    """
    if seen.is_bf16:
        return None
    if seen.knobs.get("head_convolutions") != "convolution":
        return None
    in_heads = seen.where(lambda part: bool(_HEAD.search(part.row.place.module)))
    found = [i for i in in_heads if _is_3x3_in_fp32(seen.parts[i])]
    told = f"{seen.counted(found)} convolutions of 3x3 taps in fp32, with 9 products a cell"
    shares = whole(found, LEAST_BY_WINOGRAD, 1 - 2.25 / 9)
    reordered = [i for i in in_heads if is_reorder(seen.parts[i].row)] if found else []
    return Claim(
        Rule.DIRECT, told, knob("head_convolutions", "winograd"), whole(reordered) | shares
    )


LEAST_BY_WINOGRAD = 0.4
"""Of the convolutions' time."""


def _is_3x3_in_fp32(part: Part) -> bool:
    row = part.row
    if not isinstance(row, PrimitiveRow) or row.primitive != "convolution":
        return False
    taps = {name: row.parameters.get(name, 1) for name in ("kh", "kw", "sh", "sw", "g")}
    return dtype_of(row) == "f32" and taps == {"kh": 3, "kw": 3, "sh": 1, "sw": 1, "g": 1}
