"""`python -m agents.programs.command_reading`: a helper that reads what a program printed.

A process of its own: a pattern of anybody's may take for ever on what a program prints, and an
agent that waits for it would lose its leases. It serves a ReadOrder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
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
    unreadable,
)
from agents.remotes.remote import STDERR_BYTES
from controller.contracts.base import Contract, Scalar
from controller.contracts.command import OUTPUT, STDERR, STDOUT, Command
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Failure, Measurement
from controller.platform.helper_main import serve

PRINTED: Final = {STDOUT: "stdout.txt", STDERR: "stderr.txt"}
"""Files of a run's artefacts."""
MAX_KEPT: Final = 32 * 2**20
"""Bytes of standard output, and of any file: what has more is not read for figures."""


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
    command, printed = order.command, _printed(order.folder)
    source, text = _sources(order.folder, printed), "\n".join(printed.values())
    if known := failure_in(command, text):
        return Reading(known=known, unreadable=None)
    try:
        source(STDOUT)  # all patterns are tried on it
        metrics = measured(command, source)
    except OutputUnreadable as error:
        failure = unreadable(f"cannot read the output: {error}", text)
        return Reading(known=None, unreadable=failure)
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


def _printed(folder: Path) -> dict[str, str]:
    """Return what was kept of each output, whole lines only."""
    found = {name: (folder / file).read_text(errors="replace") for name, file in PRINTED.items()}
    if (folder / PRINTED[STDERR]).stat().st_size >= STDERR_BYTES:  # its beginning was dropped
        found[STDERR] = found[STDERR].partition("\n")[2]
    return found


def _sources(folder: Path, printed: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that returns a source's text; it raises OutputUnreadable for a file that is
    missing or too long."""

    @cache
    def text_of(name: str) -> str:
        path = folder / PRINTED[name] if name in PRINTED else folder / OUTPUT / name
        try:
            if path.stat().st_size > MAX_KEPT:
                seen = f"{name} has more than {MAX_KEPT >> 20} MiB"
                remedy = "Write less, or write the rest to another file in {output}."
                raise OutputUnreadable(f"{seen}. {remedy}")
            return printed[name] if name in printed else path.read_text(errors="replace")
        except OSError as error:
            seen = f"the program did not write {name}: {error.strerror or error}"
            raise OutputUnreadable(seen) from error

    return text_of


if __name__ == "__main__":
    sys.exit(serve(ReadOrder, lambda order, replies: replies.answer(read(order))))
