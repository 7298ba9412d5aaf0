"""`python -m agents.programs.command_reading read`: parse what a program printed.

A separate process, because a user's pattern may take forever on an output, and a blocked agent
would lose its leases. Reads a ReadOrder from standard input, prints a Reading.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from agents.programs.command_output import (
    OutputUnreadable,
    facts_in,
    failure_in,
    measured,
    objections_in,
    table_in,
)
from controller.contracts.base import Contract, Scalar
from controller.contracts.command import OUTPUT, STDERR, STDOUT, Command
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Failure, Measurement

PRINTED: Final = {STDOUT: "stdout.txt", STDERR: "stderr.txt"}
"""Files of a run's artefacts."""
MAX_KEPT: Final = 32 * 2**20
"""Bytes kept of standard output, and characters read of any file."""


class ReadOrder(Contract):
    """An order to parse a program's output."""

    command: Command
    folder: Path
    """Folder with the program's printed output, and its files in `output`."""


class Reading(Contract):
    """The parsed output of a run, whatever its exit status is."""

    known: Failure | None
    """The failure from a failure line."""
    unreadable: Failure | None
    """Why there are no metrics."""
    metrics: dict[str, Measurement] = {}
    facts: dict[str, Scalar] = {}
    objections: tuple[str, ...] = ()
    table: tuple[dict[str, str], ...] = ()


def read(order: ReadOrder) -> Reading:
    """Parse the output."""
    command, source = order.command, _sources(order.folder)
    text = "\n".join((source(STDOUT), source(STDERR)))
    if known := failure_in(command, text):
        return Reading(known=known, unreadable=None)
    try:
        metrics = measured(command, source)
    except WorkerFault as fault:
        return Reading(known=None, unreadable=fault.failure)
    return Reading(
        known=None,
        unreadable=None,
        metrics=metrics,
        facts=facts_in(command, text),
        objections=objections_in(command, text),
        table=tuple(table_in(command.table, text)) if command.table else (),
    )


def _sources(folder: Path) -> Callable[[str], str]:
    """Return a function that returns a source's text; it raises OutputUnreadable for a missing
    file."""

    @cache
    def text_of(name: str) -> str:
        path = folder / PRINTED[name] if name in PRINTED else folder / OUTPUT / name
        try:
            with path.open(errors="replace") as file:
                return file.read(MAX_KEPT)
        except OSError as error:
            seen = f"the program did not write {name}: {error.strerror or error}"
            raise OutputUnreadable(seen) from error

    return text_of


if __name__ == "__main__":
    sys.stdout.write(read(ReadOrder.model_validate_json(sys.stdin.read())).model_dump_json())
