"""LoadGen's logs that came from elsewhere: read by themselves, checked as `results verify` does.

Pure but for copies of the logs, from which they are read.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.loadgen import logs
from controller.loadgen.checks import Verdict
from controller.loadgen.run_logs import RunLogs, read_run
from controller.loadgen.verifying import verify

MOST_NAMED: Final = 3
"""Further figures that a line names."""


def run_of(detail: bytes, summary: bytes | None) -> RunLogs:
    """Return the logs of one run; raises LogUnreadable, and OSError where no copy can be made.

    Copies are read, so that of a stranger's folder no other file is, nor a link in it.
    """
    with TemporaryDirectory(prefix="benchfarm-logs-") as name:
        folder = Path(name)
        (folder / logs.DETAIL).write_bytes(detail)
        if summary is not None:
            (folder / logs.SUMMARY).write_bytes(summary)
        return read_run(folder)


def contradiction(run: RunLogs) -> str:
    """Return in one line which figure of a run the rest of its logs contradicts; empty for none.

    Raises LogUnreadable, ArithmeticError, LookupError, TypeError or ValueError for values that
    LoadGen never writes.
    """
    odd = [check for check in verify(run) if check.verdict is Verdict.DIFFERS]
    if not odd:
        return ""
    first, others = odd[0], list(dict.fromkeys(check.figure for check in odd[1:]))
    rest = f"; so do {', '.join(others[:MOST_NAMED])}" if others else ""
    return f"{first.figure} says {first.says}, but is {first.recomputed} by {first.by}{rest}"
