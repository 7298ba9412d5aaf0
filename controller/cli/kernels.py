"""`benchfarm kernels …`: are our operators right, and how fast are they here?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml
from pydantic import TypeAdapter
from rich.table import Table

from controller.cli.common import Json, show_json, show_table
from controller.contracts.catalog import load_catalog
from controller.contracts.documents import read_json
from controller.contracts.errors import UserError
from controller.contracts.kernels import (
    BEST_VARIANT,
    Direction,
    KernelBench,
    KernelCheck,
    KernelOperator,
    KernelRow,
)
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.terminal import say
from controller.reports.kernel_rows import disturbances, kernel_table, with_earlier
from controller.runtime.kernels import run_kernels

app = typer.Typer(no_args_is_help=True)

Op = Annotated[str | None, typer.Argument(help="Operator. [default: all]")]
Dtype = Annotated[str | None, typer.Option(help="Data type: fp32 or bf16. [default: both]")]
Variant = Annotated[
    str | None,
    typer.Option(help="Variant, such as avx2 or best. [default: all that this CPU can run]"),
]


@app.command()
def check(op: Op = None, dtype: Dtype = None, variant: Variant = None, json: Json = False) -> None:
    """Compare each operator's results with its reference.

    Exit status 1 if a result is wrong.
    """
    wanted = _wanted("check", op, dtype, variant)
    found = [row for row in run_kernels(wanted) if isinstance(row, KernelCheck)]
    if json:
        show_json(found)
    else:
        table = Table("operator", "dtype", "shape", "variant", "result")
        for row in found:
            result = "; ".join(row.objections) or "correct"
            table.add_row(row.op, row.dtype, row.shape, row.variant, result)
        show_table(table)
    sys.exit(1 if any(row.objections for row in found) else 0)


@app.command()
def bench(
    op: Op = None,
    dtype: Dtype = None,
    variant: Annotated[
        str | None,
        typer.Option(help="Variant, such as avx2. [default: best, the best that this CPU can run]"),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(
            min=1e-4,
            max=9,
            help="Relative width of the interval at which a comparison stops. "
            "[default: that of the knob kernel_width]",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=86400,
            metavar="SECONDS",
            help="Seconds for one comparison once it is compiled; its draws share them. "
            "[default: those of the knob kernel_time_limit]",
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(min=1, max=100, help="Measure everything so many times, in new processes."),
    ] = 1,
    earlier: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="Add the draws of an earlier `--json` output; may be repeated.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="LIB:SYMBOL",
            help="Implementation of yours to compare with, in place of the baselines: "
            "FILE.py:FUNCTION, MODULE:FUNCTION, or FILE.so:NAMESPACE::OP.",
        ),
    ] = None,
    direction: Annotated[
        Direction,
        typer.Option(help="Passes to time: both together, or one alone, of an operator named OP."),
    ] = "both",
    policy: Annotated[
        str | None,
        typer.Option(
            help="Run conditions: ci says what disturbed a measurement, lab makes it INVALID. "
            "[default: that of the knob policy]"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Time each operator against its baselines.

    Baselines are the reference in eager mode and with torch.compile, timed in alternating batches.
    Times include forward and backward, if --direction doesn't choose one of them; both sides have
    the same threads and malloc.
    """
    if direction != "both" and op is None:
        remedy = "Name an operator with a gradient, as sigmoid_focal_loss."
        raise UserError(f"time the {direction} pass", "no operator is named", remedy)
    before = [row for path in earlier or () for row in _earlier(path)]
    wanted = _wanted("bench", op, dtype, variant or BEST_VARIANT, width, time_limit, policy)
    told = {
        "time_limit_s": wanted.time_limit_s / draws,
        "against": against,
        "direction": direction,
    }
    draw = wanted.model_copy(update=told)
    found = [row for _ in range(draws) for row in run_kernels(draw) if isinstance(row, KernelRow)]
    rows, unlike = with_earlier(found, before)
    if unlike:
        said = (
            "another operator, shape, dtype, variant, baseline, direction, bytes, CPU, torch, "
            "sources or settings"
        )
        say(f"not added: {unlike} of {len(before)} earlier rows, of {said}", err=True)
    if json:
        show_json(rows)
        return
    show_table(kernel_table(rows))
    for line in disturbances(rows):
        say(line)


def _earlier(path: Path) -> list[KernelRow]:
    """Return the rows of a file that `--json` has written; raises UserError."""
    try:
        return read_json(TypeAdapter(list[KernelRow]), path)
    except UNREADABLE as error:
        remedy = "Give a file that `benchfarm kernels bench --json` of this release has written."
        raise UserError(f"read {path}", reason(error), remedy) from error


@app.command()
def sweep(
    compiled: Annotated[
        bool,
        typer.Option(
            help="Compare with torch.compile, too; needs a C++ compiler, takes twice the time."
        ),
    ] = False,
) -> None:
    """Print a sweep of all operators and variants as YAML.

    Submit it with: benchfarm kernels sweep | benchfarm sweep submit -
    """
    found = [row for row in run_kernels(_wanted("sweep")) if isinstance(row, KernelOperator)]
    text = yaml.safe_dump(sweep_of(found, compiled=compiled), sort_keys=False)
    say(text, lines=True, end="")


def sweep_of(operators: Sequence[KernelOperator], *, compiled: bool) -> dict[str, object]:
    """Return a sweep of operators, each in its dtypes, in every variant, on every server.

    A variant that a CPU can't run fails there, and the failure says which variants it can run.
    """
    knobs = {"variant": ["scalar", "avx2", "avx512", "avx512_bf16"], "kernel_time_limit": 10}
    return {
        "name": "kernels",
        "description": "Every operator against its reference, in each variant a CPU can run",
        "workload": "kernels",
        "stack": "torch",
        "scenario": "kernel",
        "knobs": knobs | ({"compiled_baseline": True} if compiled else {}),
        "recipes": {
            f"{found.op}-{dtype}".replace("_", "-"): {"op": found.op, "dtype": dtype}
            for found in operators
            for dtype in found.dtypes
        },
        "devices": 'kind == "cpu_host" and cores >= 2',
        "run_on": "each",
    }


def _wanted(
    verb: Literal["check", "bench", "sweep"],
    op: str | None = None,
    dtype: str | None = None,
    variant: str | None = None,
    width: float | None = None,
    time_limit_s: float | None = None,
    policy: str | None = None,
) -> KernelBench:
    """Return what is asked for; raises UserError for names that don't exist.

    width, time_limit_s, policy: those of the scenario's knobs if they aren't given.
    """
    catalog = load_catalog()
    knobs, stopping = (m.knobs for m in (catalog.workloads["kernels"], catalog.scenarios["kernel"]))
    named = {"op": op, "dtype": dtype, "variant": variant, "policy": policy}
    for name, value in named.items():
        allowed = {**knobs, **stopping}[name].choices or ()
        if value is not None and value not in allowed:
            remedy = f"Known: {', '.join(map(str, allowed))}."
            raise UserError(f"{verb} kernels", f"there is no {name} {value!r}", remedy)
    return KernelBench(
        verb=verb,
        operators=(op,) if op else (),
        dtypes=(dtype,) if dtype else (),
        variants=(variant,) if variant else (),
        width=float(width or stopping["kernel_width"].default),
        time_limit_s=float(time_limit_s or stopping["kernel_time_limit"].default),
        policy=str(policy or stopping["policy"].default),
    )
