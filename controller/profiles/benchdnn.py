"""Export of primitives as batch files for benchdnn, oneDNN's benchmark. Pure: text out.

A driver of benchdnn runs one kind of primitive on one engine and takes options and problems from a
file, so there is a file for each driver and engine. Options are those of oneDNN 3
(tests/benchdnn/doc); build benchdnn from the release that ran the model. Operations fused behind a
primitive, and attributes, strides and compensation for int8 for which there is no option here, are
left out and named in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from controller.profiles.log_replays import modes_of
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.primitive import Memory, Primitive, primitive_of

DRIVERS: Mapping[str, str] = {
    "convolution": "conv",
    "deconvolution": "deconv",
    "inner_product": "ip",
    "matmul": "matmul",
    "reorder": "reorder",
}
"""Kind of primitive → driver that takes its problems as they are in the log."""
_ENGINE = re.compile(r"(cpu|gpu)(:\d{1,3})?")
_RUN_TIME = ("runtime_dims_masks", "runtime-dim-mask")
"""Options of a matmul and of a reorder."""
_WITH_BIAS = {"FWD_D": "FWD_B", "FWD_I": "FWD_B", "BWD_W": "BWD_WB"}


@dataclass(frozen=True, slots=True)
class Batches:
    """The batch file of each driver, and the primitives without a driver."""

    texts: Mapping[str, str]
    """Name → content: of a driver, and its engine if that is not the CPU (`conv-gpu-0`)."""
    left_out: Mapping[str, int]
    """Kind → number of distinct primitives."""


def benchdnn_batches(profile: Profile) -> Batches:
    """Return every distinct problem of a profile, the slowest first."""
    lines: dict[tuple[str, str], list[str]] = {}
    left_out: dict[str, int] = {}
    distinct: dict[str, PrimitiveRow] = {}
    for row in profile.primitives:
        distinct.setdefault(row.body, row)
    for row in distinct.values():
        driver = DRIVERS.get(row.primitive)
        primitive = primitive_of(row.body)
        if driver is None or primitive is None or not _is_whole(primitive):
            left_out[row.primitive] = left_out.get(row.primitive, 0) + 1
        else:
            lines.setdefault((driver, primitive.engine), []).extend(_lines(row, primitive))
    texts = {
        _name(*of): "\n".join([*_beginning(*of), *found]) + "\n" for of, found in lines.items()
    }
    return Batches(texts, left_out)


def _name(driver: str, engine: str) -> str:
    """Return the name of a file, which is only of one engine: a process of benchdnn has one."""
    return driver if engine == "cpu" else f"{driver}-{engine.replace(':', '-')}"


def _beginning(driver: str, engine: str) -> list[str]:
    # Layouts of weights may have no name in oneDNN.
    return [
        f"# benchdnn --{driver} --mode=P --batch={_name(driver, engine)}.batch",
        "--allow-enum-tags-only=false",
        *([] if engine == "cpu" else [f"--engine={engine}"]),
    ]


def _is_whole(primitive: Primitive) -> bool:
    """Return whether its engine is known, no size is open, and each layout has a tag.

    A sparse layout has none.
    """
    if not _ENGINE.fullmatch(primitive.engine):
        return False  # of a damaged line
    open_ones = ("*" in text for text in (primitive.problem, *(m.tag for m in primitive.memory)))
    return not any(open_ones) and not any(m.is_sparse for m in primitive.memory)


def _lines(row: PrimitiveRow, primitive: Primitive) -> list[str]:
    """Return a comment, and a line with options and problem."""
    memory = {one.role: one for one in primitive.memory}
    modes = modes_of(primitive)
    kept = [mode for mode in modes if mode.startswith("attr-fpmath:")]
    left_out = [
        *([f"post-ops {row.post_ops}"] if row.post_ops else []),
        *(mode for mode in modes if mode not in kept),
        *(f"strides {m.strides} of {m.role}" for m in memory.values() if m.strides),
        *(f"compensation {m.flags} of {m.role}" for m in memory.values() if m.flags),
    ]
    without = f", without its {', '.join(left_out)}" if left_out else ""
    options = _reorder(memory) if row.primitive == "reorder" else _computing(row, memory)
    arithmetic = [f"--{mode.replace(':', '=', 1)}" for mode in kept]
    line = " ".join(["--reset", *arithmetic, *options, *_at_run_time(row), row.problem])
    return [f"# {row.implementation}{without}", line]


def _at_run_time(row: PrimitiveRow) -> list[str]:
    """Return the option for sizes that are told only when it runs: oneDNN logs it by its name."""
    name, _, masks = row.algorithm.partition(":")
    return [f"--{name}={masks}"] if name in _RUN_TIME else []


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
