"""Export of primitives as batch files for benchdnn, oneDNN's benchmark. Pure: text out.

A driver of benchdnn runs one kind of primitive and takes options and problems from a file, so there
is a file for each driver. Options are those of oneDNN 3 (tests/benchdnn/doc); build benchdnn from
the release that ran the model. Operations fused behind a primitive, and attributes and strides for
which there is no option here, are left out and named in a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.profiles.log_replays import modes_of
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.primitive import Memory, primitive_of

DRIVERS: Mapping[str, str] = {
    "convolution": "conv",
    "deconvolution": "deconv",
    "inner_product": "ip",
    "matmul": "matmul",
    "reorder": "reorder",
}
"""Kind of primitive → driver that takes its problems as they are in the log."""
_WITH_BIAS = {"FWD_D": "FWD_B", "FWD_I": "FWD_B", "BWD_W": "BWD_WB"}


@dataclass(frozen=True, slots=True)
class Batches:
    """The batch file of each driver, and the primitives without a driver."""

    texts: Mapping[str, str]
    left_out: Mapping[str, int]
    """Kind → number of distinct primitives."""


def benchdnn_batches(profile: Profile) -> Batches:
    """Return every distinct problem of a profile, the slowest first."""
    lines: dict[str, list[str]] = {}
    left_out: dict[str, int] = {}
    distinct: dict[str, PrimitiveRow] = {}
    for row in profile.primitives:
        distinct.setdefault(row.body, row)
    for row in distinct.values():
        driver = DRIVERS.get(row.primitive)
        if driver is None or "*" in row.problem:  # a size that is open
            left_out[row.primitive] = left_out.get(row.primitive, 0) + 1
        else:
            lines.setdefault(driver, []).extend(_lines(row))
    texts = {
        driver: "\n".join([*_beginning(driver), *found]) + "\n" for driver, found in lines.items()
    }
    return Batches(texts, left_out)


def _beginning(driver: str) -> list[str]:
    # Layouts of weights may have no name in oneDNN.
    return [
        f"# benchdnn --{driver} --mode=P --batch={driver}.batch",
        "--allow-enum-tags-only=false",
    ]


def _lines(row: PrimitiveRow) -> list[str]:
    """Return a comment, and a line with options and problem."""
    primitive = primitive_of(row.body)
    memory = {one.role: one for one in primitive.memory} if primitive else {}
    modes = modes_of(primitive) if primitive else ()
    kept = [mode for mode in modes if mode.startswith("attr-fpmath:")]
    left_out = [
        *([f"post-ops {row.post_ops}"] if row.post_ops else []),
        *(mode for mode in modes if mode not in kept),
        *(f"strides {m.strides} of {m.role}" for m in memory.values() if m.strides),
    ]
    without = f", without its {', '.join(left_out)}" if left_out else ""
    options = _reorder(memory) if row.primitive == "reorder" else _computing(row, memory)
    arithmetic = [f"--{mode.replace(':', '=', 1)}" for mode in kept]
    line = " ".join(["--reset", *arithmetic, *options, row.problem])
    return [f"# {row.implementation}{without}", line]


def _reorder(memory: Mapping[str, Memory]) -> list[str]:
    types = [f"--{key}={memory[role].dtype}" for key, role in (("sdt", "src"), ("ddt", "dst"))]
    return types + _tags(memory, ("src", "dst"))


def _computing(row: PrimitiveRow, memory: Mapping[str, Memory]) -> list[str]:
    roles = ("src", "wei", "dst")
    types = ":".join(memory[role].dtype if role in memory else row.dtype for role in roles)
    options = [f"--dt={types}", *_tags(memory, roles)]
    biased = "bia" in memory and memory["bia"].dtype != "undef"
    if row.primitive == "matmul":
        last = row.problem.partition(":")[0].count("x")
        mask = f"--bia_mask={memory['bia'].mask or 1 << last}" if biased else ""  # per column
        return [*options, f"--bia_dt={memory['bia'].dtype}", mask] if biased else options
    direction = _WITH_BIAS.get(row.direction, row.direction) if biased else row.direction
    return [f"--dir={direction}", *options]


def _tags(memory: Mapping[str, Memory], roles: tuple[str, ...]) -> list[str]:
    return [f"--{role[0]}tag={_tag(memory.get(role))}" for role in roles]


def _tag(memory: Memory | None) -> str:
    return memory.tag if memory and memory.tag else "any"
