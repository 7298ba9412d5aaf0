"""Runs the tests in three parts, each whatever the others say, and names all that failed.

    python -P tests/support/parts.py "not long and not hardware"

Tests of wall times get the machine to themselves. Farms run two at once: a farm waits for its
processes more than it computes, and their runs wait for each other's cores. The rest is tested in
four processes where there are two cores or more: half of them wait for a phone, a server or a
timer. Each is of one thread: a second would wait for a core that another process has. A module's or
a class's tests stay in one process, which makes what they share.

pytest writes to stdout alone. What else reaches the terminal does so by stderr, past pytest: from a
process that a test has left behind, say. It is shown at the end, and is a failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

TESTS = Path(__file__).parents[1]
APART = ("long", "farm", "alone")
"""Marks of a few files' tests, in which they are written out: only those files are collected."""
PLUGIN = "tests.support.failed_tests"
FAILED = 1
NO_TESTS = 5
ENDED = {
    2: "it was interrupted",
    3: "pytest itself failed",
    4: "pytest refused its arguments",
    NO_TESTS: "there was no test to run",
}
LINES = 20
"""How many of the lines that went past pytest are shown."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the tests: what to call them, and pytest's options for them."""

    name: str
    options: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a part: pytest's exit status, the tests it named, what went past it."""

    part: Part
    status: int
    failed: tuple[str, ...]
    stray: tuple[str, ...]

    def failures(self) -> list[str]:
        """Return a line for each failure; none if all is well."""
        lines = list(self.failed)
        if self.status not in (0, FAILED) or (self.status == FAILED and not lines):
            lines.append(f"exit status {self.status}: {ENDED.get(self.status, 'see above')}")
        lines += [f"written past pytest: {line}" for line in self.stray[:LINES]]
        if len(self.stray) > LINES:
            lines.append(f"written past pytest: {len(self.stray) - LINES} more lines")
        return [f"{self.part.name}: {line}" for line in lines]


class Interrupted(Exception):
    """The tests were told to end."""


def parts_of(markers: str) -> tuple[Part, ...]:
    """Return the parts of the tests that have these markers."""
    workers = min(4, 2 * len(os.sched_getaffinity(0)))
    modules = ("--dist=loadscope", "--no-loadscope-reorder")  # in the order of slowest.py
    at_once = (f"--numprocesses={workers}", *modules)
    farms = ("--numprocesses=2", *modules)
    return (
        Part(
            "at once",
            (*_of(f"{markers} and not farm and not alone"), *at_once),
            {"OMP_NUM_THREADS": "1"},
        ),
        Part("farms", (*_of(f"{markers} and farm"), *farms)),
        Part("alone", _of(f"{markers} and alone")),
    )


def _of(markers: str) -> tuple[str, ...]:
    """Return pytest's options for tests that have these markers; it need not import all others."""
    wanted = [mark for mark in APART if mark in markers.split(" and ")]
    return (*(files_with(*wanted) if wanted else ()), "-m", markers)


def files_with(*marks: str) -> list[str]:
    """Return the files of tests that name all of these marks, by their paths in the repository."""
    found = [path for path in sorted(TESTS.rglob("test_*.py")) if set(marks) <= marks_in(path)]
    return [str(path.relative_to(TESTS.parent)) for path in found]


def marks_in(path: Path) -> set[str]:
    """Return those marks of APART that a file names."""
    text = path.read_text()
    return {mark for mark in APART if f"mark.{mark}" in text}


def run(part: Part) -> Ended:
    """Run a part of the tests.

    Raises:
        Interrupted: ^C or SIGTERM; pytest has ended.

    """
    with tempfile.TemporaryDirectory(prefix="benchfarm-tests-") as folder:
        named, said = Path(folder, "failed"), Path(folder, "stderr")
        python = (sys.executable, "-P", "-m", "pytest", "-p", PLUGIN)
        command = (*python, f"--failed-tests={named}", *part.options)
        with said.open("wb") as stderr:
            status = _ended(command, os.environ | part.environ, stderr.fileno())
        failed = named.read_text().splitlines() if named.exists() else ()
        stray = said.read_text(errors="backslashreplace").splitlines()
        return Ended(part, status, tuple(failed), tuple(stray))


def _ended(command: Sequence[str], environ: dict[str, str], stderr: int) -> int:
    """Return a command's exit status. It hears of ^C by itself, of SIGTERM from here."""
    told: list[int] = []

    def tell(number: int, frame: FrameType | None) -> None:
        told.append(number)
        if number == signal.SIGTERM:
            process.terminate()

    process = subprocess.Popen(command, env=environ, stderr=stderr)
    former = {number: signal.signal(number, tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        status = process.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if told:
        raise Interrupted
    return status


def run_all(parts: Sequence[Part]) -> int:
    """Run all parts, say what failed, and return the exit status."""
    failures = [line for part in parts for line in run(part).failures()]
    names = " and ".join(part.name for part in parts)
    if failures:
        print(f"FAILED, of the tests {names}:", *failures, sep="\n  ", flush=True)  # noqa: T201
    return FAILED if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(run_all(parts_of(sys.argv[1])))
    except Interrupted:
        sys.exit(130)
